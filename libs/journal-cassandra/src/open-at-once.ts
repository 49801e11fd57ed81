/**
 * Opens an account in the next term by one transaction. A pass over all accounts does this, because
 * nearly all of them are small and unused.
 *
 * A host begins a partition first and opens it afterwards (`region-terms.ts`), because taking over
 * may take long. Where everything fits in one write, the two are one: its condition is that no
 * epoch is there, so the first opener excludes all others. If it is refused, or anything is
 * unusual, nothing was opened, and the pass opens the account as a host does.
 *
 * Cost per account: two reads and a transaction, and one more transaction in the region that hands
 * it over.
 */
import { firstChain, JournalFault } from '@holdfast/journal'
import type { CassandraConnection, CassandraRow, Statement } from './connection.ts'
import {
  bytesAtOnce,
  changedMsOf,
  close,
  fence,
  firstEpochOf,
  insertRow,
  isBegun,
  isIntact,
  isOpen,
  lastEpochOf,
  numberOf,
  type Partition,
  rowOf,
  type TakenJournal,
} from './region-terms.ts'

/**
 * Rows of an account that are opened at once. The read asks for one row more: if it comes, there
 * are too many.
 */
const rowsMax = 16
/** Statics and rows as they are at one moment. A root is too large to come with each row. */
const whole = `SELECT epoch, head, root_through, cut, WRITETIME(head) AS head_micros, WRITETIME(root) AS root_micros, seq, row_epoch, predecessor, bytes, checksum FROM journal WHERE account = ? AND term = ? LIMIT ${rowsMax + 1}`

export interface KnownBefore {
  /** Where the account was served in the term before. */
  connection: CassandraConnection
  /** The epoch in that term, as it was listed. Undefined: that region is off, and is not asked. */
  closesEpoch: unknown
}

/**
 * @param before of the term before this one, in which the account is known.
 * @returns undefined when it was not opened: it has a checkpoint, it has more rows than one read
 *   takes, or another opener has begun.
 * @throws JournalFault `CORRUPT` when a row is missing in what the other region hands over.
 */
export async function openAtOnce(
  connection: CassandraConnection,
  { account, term }: Partition,
  before: KnownBefore,
): Promise<TakenJournal | undefined> {
  const handedOver = before.closesEpoch !== undefined
  const [[now], stored] = await Promise.all([
    connection.run(fence, [account, term]),
    handedOver
      ? readClosed(before.connection, { account, term: term - 1 }, before.closesEpoch)
      : before.connection.run(whole, [account, term - 1]),
  ])
  const [first] = stored
  if (isBegun(now) || !isOpen(first, term - 1)) return undefined
  if (stored.length > rowsMax || first.root_micros !== null || numberOf(first.root_through) > 0)
    return undefined
  const rows = intact(account, stored)
  if (rows.reduce((sum, { bytes }) => sum + bytes.length, 0) > bytesAtOnce) return undefined
  const cut = rows.length
  const known = numberOf(first.head)
  if (handedOver && cut < known)
    throw new JournalFault('CORRUPT', `journal of ${account}: row ${cut + 1} of ${known} is not handed over`)
  const opened: Statement = {
    query:
      'UPDATE journal SET epoch = ?, head = ?, chain = ?, root_through = 0, cut = ? WHERE account = ? AND term = ? IF epoch = null',
    params: [
      BigInt(firstEpochOf(term) + 1),
      BigInt(cut),
      Buffer.from(rows.at(-1)?.checksum ?? firstChain),
      BigInt(cut),
      ...[account, term],
    ],
  }
  const refused = await connection.conditional([
    opened,
    ...rows.map((row) => insertRow({ account, term }, row)),
  ])
  return refused === undefined ? { account, cut, known, changedMs: changedMsOf(first) } : undefined
}

/**
 * Closes the term before, so that nothing is written there any more, and reads it.
 * @returns no rows when somebody wrote there after it was listed.
 */
async function readClosed(
  connection: CassandraConnection,
  partition: Partition,
  epoch: unknown,
): Promise<CassandraRow[]> {
  const last = lastEpochOf(partition.term)
  if (numberOf(epoch) !== last) {
    const refused = await close(connection, partition, epoch)
    if (refused !== undefined && numberOf(refused.epoch) !== last) return []
  }
  return connection.run(whole, Object.values(partition))
}

function intact(account: string, stored: readonly CassandraRow[]) {
  const rows = stored.filter(({ seq }) => seq !== null).map(rowOf)
  let last = { seq: 0, checksum: firstChain }
  const upTo = rows.findIndex((row) => {
    if (!isIntact(account, row, last)) return true
    last = row
    return false
  })
  return upTo === -1 ? rows : rows.slice(0, upTo)
}
