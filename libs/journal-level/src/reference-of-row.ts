/** Which rows of `everything` say that an account uses a copy of a blob. */
import { keys } from './format.ts'

const references = Buffer.from(keys.lookup('ref/'))

/** @returns the copy as `<id>/<incarnation>` in hex; undefined: the row says something else. */
export function referenceOfRow(key: Uint8Array): { copy: string; account: string } | undefined {
  if (Buffer.compare(key.subarray(0, references.length), references) !== 0) return undefined
  const [, id, incarnation, account = ''] = keys.lookupOf(key).split('/')
  return { copy: `${id}/${incarnation}`, account }
}
