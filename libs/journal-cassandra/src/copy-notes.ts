/**
 * The next tasks of accounts move with them: rows with write times, as the other data centre has
 * them. Newer rows here stay.
 *
 * There may be one for every account, and nothing else moves before they are here: rows of one
 * partition go in batches.
 */
import type { CassandraConnection, Statement } from './connection.ts'
import { inOrder } from './known-accounts.ts'
import { wholeRing } from './ring.ts'

const rowsPerPage = 1_000
/** Cassandra warns of larger ones. */
const batchBytesMax = 4_000
const batchesAtOnce = 64

/** @returns places behind which a later call can continue, one for each batch that is written. */
export async function* copyNotes(
  from: CassandraConnection,
  to: CassandraConnection,
  after: string | undefined,
): AsyncIterable<string> {
  const found = wholeRing(from, {
    columns: 'part, key, value, WRITETIME(value) AS at',
    table: 'lookups',
    partition: 'part',
    rowsPerPage,
    ...(after === undefined ? {} : { after }),
  })
  yield* inOrder(batchesOf(found), batchesAtOnce, async ({ statements, place }) => {
    await to.batch(statements)
    return place
  })
}

/**
 * Rows of a partition come one after the other. The partition of a place comes once more when a
 * call continues there, so the place of a batch is its own partition's.
 */
async function* batchesOf(
  rows: ReturnType<typeof wholeRing>,
): AsyncIterable<{ statements: Statement[]; place: string }> {
  const query = 'INSERT INTO lookups (part, key, value) VALUES (?, ?, ?) USING TIMESTAMP ?'
  let statements: Statement[] = []
  let bytes = 0
  let last = ''
  for await (const { row, place } of rows) {
    const { part, key, value, at } = row
    const size = Buffer.byteLength(`${part}${key}`) + (value as Buffer).length
    if (statements.length > 0 && (place !== last || bytes + size > batchBytesMax)) {
      yield { statements, place: last }
      statements = []
      bytes = 0
    }
    statements.push({ query, params: [part, key, value, at] })
    bytes += size
    last = place
  }
  if (statements.length > 0) yield { statements, place: last }
}
