import { lookup } from 'mime-types'

const unknownType = 'application/octet-stream'

/**
 * The type that a part states, without parameters; derived from the file name when it states none,
 * an invalid one, or a generic one.
 */
export function fileType(stated: string | undefined, fileName: string): string {
  // Stated by most tools.
  if (stated === unknownType) return byName(fileName)
  const type = stated?.split(';', 1)[0]?.trim().toLowerCase() ?? ''
  const usable = /^[a-z0-9][a-z0-9!#$&^_.+-]{0,62}\/[a-z0-9][a-z0-9!#$&^_.+-]{0,62}$/.test(type)
  if (usable && type !== unknownType) return type
  return byName(fileName)
}

/** A name without a dot has no extension: `png` is not a picture. */
function byName(fileName: string): string {
  return (fileName.includes('.') && lookup(fileName)) || unknownType
}
