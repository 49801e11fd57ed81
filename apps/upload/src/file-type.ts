import { mediaType } from '@holdfast/kernel'
import { lookup } from 'mime-types'

const unknownType = 'application/octet-stream'

/**
 * The type that a part states, without parameters; derived from the file name when it states none,
 * an invalid one, or a generic one.
 */
export function fileType(stated: string | undefined, fileName: string): string {
  // Stated by most tools.
  if (stated === unknownType) return byName(fileName)
  const type = mediaType(stated ?? '')
  return type === undefined || type === unknownType ? byName(fileName) : type
}

/** A name without a dot has no extension: `png` is not a picture. */
function byName(fileName: string): string {
  return (fileName.includes('.') && lookup(fileName)) || unknownType
}
