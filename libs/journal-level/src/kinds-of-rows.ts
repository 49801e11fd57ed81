/** The kinds of rows of `everything`, for code that reads all rows. */
import { keys } from './format.ts'

const references = Buffer.from(keys.lookup('ref/'))
const meta = ['format', 'store'].map((name) => keys.meta(name as 'format' | 'store'))

/**
 * Which rows say that an account uses a copy of a blob.
 * @returns the copy as `<id>/<incarnation>` in hex; undefined: the row says something else.
 */
export function referenceOfRow(key: Uint8Array): { copy: string; account: string } | undefined {
  if (Buffer.compare(key.subarray(0, references.length), references) !== 0) return undefined
  const [, id, incarnation, account = ''] = keys.lookupOf(key).split('/')
  return { copy: `${id}/${incarnation}`, account }
}

/** The rows of a store that has the journals of these accounts, and nothing else. */
export async function* rowsOfJournals(
  rows: AsyncIterable<[Uint8Array, Uint8Array]>,
  accounts: ReadonlySet<string>,
): AsyncGenerator<[Uint8Array, Uint8Array]> {
  const { gte, lt } = keys.journals
  for await (const row of rows) {
    const [key] = row
    const isJournal = Buffer.compare(key, gte) >= 0 && Buffer.compare(key, lt) < 0
    if (isJournal ? accounts.has(keys.accountOf(key)) : meta.some((one) => one.equals(key))) yield row
  }
}
