/**
 * The next tasks of accounts move with them: rows with write times, as the other data centre has
 * them. Newer rows here stay.
 *
 * There may be one for every account, and nothing else moves before they are here: rows of one
 * partition go in batches.
 */
import type { CassandraConnection, CassandraRow, Statement } from './connection.ts'
import { inOrder } from './known-accounts.ts'

const rowsPerPage = 1_000
/** Cassandra warns of larger ones. */
const batchBytesMax = 4_000
const batchesAtOnce = 64

export async function copyNotes(from: CassandraConnection, to: CassandraConnection): Promise<void> {
  const found = from.pages('SELECT part, key, value, WRITETIME(value) AS at FROM lookups', [], rowsPerPage)
  const written = inOrder(batchesOf(found), batchesAtOnce, (batch) => to.batch(batch))
  for await (const _ of written);
}

/** Rows of a partition come one after the other. */
async function* batchesOf(rows: AsyncIterable<CassandraRow>): AsyncIterable<Statement[]> {
  const query = 'INSERT INTO lookups (part, key, value) VALUES (?, ?, ?) USING TIMESTAMP ?'
  let batch: Statement[] = []
  let bytes = 0
  let last: unknown
  for await (const { part, key, value, at } of rows) {
    const size = Buffer.byteLength(`${part}${key}`) + (value as Buffer).length
    if (batch.length > 0 && (part !== last || bytes + size > batchBytesMax)) {
      yield batch
      batch = []
      bytes = 0
    }
    batch.push({ query, params: [part, key, value, at] })
    bytes += size
    last = part
  }
  if (batch.length > 0) yield batch
}
