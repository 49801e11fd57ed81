/**
 * Everything in a table, partition by partition in the order of the ring, a page at a time.
 *
 * A read that meets too many deleted rows fails at any page size. Then its piece of the ring is
 * read in two halves, down to a bound: an unavailable node fails that often, and no more.
 */
import { JournalFault } from '@holdfast/journal'
import type { CassandraConnection, CassandraRow } from './connection.ts'

const first = -(2n ** 63n)
const last = 2n ** 63n - 1n
/**
 * Halvings of the ring before a failing piece is a fault: a piece is then a sixty-thousandth of it.
 */
const halvingsMax = 16

export interface WholeRing {
  columns: string
  table: string
  /** The columns of the partition key. */
  partition: string
  rowsPerPage: number
  /** Where to continue: a place of an earlier walk. Its partition comes once more. */
  after?: string
}

/** @throws JournalFault */
export async function* wholeRing(
  connection: Pick<CassandraConnection, 'pages'>,
  { columns, table, partition, rowsPerPage, after }: WholeRing,
): AsyncGenerator<{ row: CassandraRow; place: string }> {
  const token = `token(${partition})`
  const query = `SELECT ${columns}, ${token} AS place FROM ${table} WHERE ${token} >= ? AND ${token} <= ?`
  const pieces = [{ from: after === undefined ? first : placeOf(after), to: last, halvings: 0 }]
  for (let piece = pieces.pop(); piece !== undefined; piece = pieces.pop()) {
    let seen = piece.from
    try {
      for await (const row of connection.pages(query, [seen, piece.to], rowsPerPage)) {
        seen = BigInt(row.place)
        yield { row, place: String(seen) }
      }
    } catch (error) {
      const middle = (seen + piece.to) / 2n
      const halvings = piece.halvings + 1
      if (!(error instanceof JournalFault) || halvings > halvingsMax || middle <= seen) throw error
      pieces.push({ from: middle + 1n, to: piece.to, halvings }, { from: seen, to: middle, halvings })
    }
  }
}

function placeOf(text: string): bigint {
  if (!/^-?\d{1,19}$/.test(text)) throw new RangeError(`${text} is no place of the ring`)
  return BigInt(text)
}
