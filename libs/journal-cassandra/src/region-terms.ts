/**
 * The initial state of a home that moved.
 *
 * Lightweight transactions of two data centres do not exclude each other: a successor can neither
 * stop a host of the old region, nor know what that host acknowledged last. So it writes to a
 * separate partition, of the next term. It begins with the newest earlier term as this data centre
 * has it: the root with its pages, and the rows behind it up to the first gap, because batches
 * arrive in any order. That cut is recorded. Rows that reach the older partition later stay there.
 *
 * If the region that served the account before is alive, it is asked instead: its data centre
 * closes the partition of the previous term, by raising the epoch to the last one of that term, so
 * that no host can open it. The partition then holds everything that was ever acknowledged, and is
 * taken over whole. An account that was not opened in that term is looked up in the term before,
 * where it was served, and so on; the two regions take turns, so every other term was served here.
 *
 * Every write is conditional on the epoch of the opener. The partition counts as open only with its
 * cut, which is written last: an interrupted or overtaken one is begun again by the next opener.
 */

import { epochsPerTerm, firstChain, JournalFault, rowChecksum } from '@holdfast/journal'
import { equalBytes } from '@holdfast/kernel'
import type { CassandraConnection, CassandraRow, Statement } from './connection.ts'

export const statics =
  'SELECT epoch, head, chain, owner, root, root_through, cut FROM journal WHERE account = ? AND term = ? LIMIT 1'

/** The statics, and when the last row was written. */
const dated =
  'SELECT epoch, head, chain, owner, root, root_through, cut, WRITETIME(head) AS head_micros FROM journal WHERE account = ? AND term = ? LIMIT 1'

/** The statics without the root, which is large for a large account. */
export const fence =
  'SELECT epoch, head, chain, root_through, cut FROM journal WHERE account = ? AND term = ? LIMIT 1'

/** Rows and bytes that are taken over under one condition. */
const rowsAtOnce = 32
export const bytesAtOnce = 1_000_000
const rowsPerPage = 16
const namesPerPage = 1_000

export interface Partition {
  account: string
  term: number
}

export function firstEpochOf(term: number): number {
  return epochsPerTerm * (term - 1)
}

/** The final epoch of a partition that was handed over: the next epoch belongs to the next term. */
export function lastEpochOf(term: number): number {
  return epochsPerTerm * term - 1
}

export function isBegun(row: CassandraRow | undefined): row is CassandraRow {
  return row !== undefined && row.epoch !== null
}

/** Whether it can be read and appended to. */
export function isOpen(row: CassandraRow | undefined, term: number): row is CassandraRow {
  return isBegun(row) && (term === 1 || row.cut !== null)
}

/**
 * The newest earlier term in which the account was open, as far as this data centre knows. Dated.
 */
export async function termBefore(
  connection: CassandraConnection,
  { account, term }: Partition,
): Promise<{ term: number; row: CassandraRow } | undefined> {
  for (let earlier = term - 1; earlier > 0; earlier--) {
    const [row] = await connection.run(dated, [account, earlier])
    if (isOpen(row, earlier)) return { term: earlier, row }
  }
  return undefined
}

/** The account's state in its last term, and where that can be read. */
export interface EarlierTerm {
  connection: CassandraConnection
  term: number
  row: CassandraRow
}

/**
 * The newest earlier term in which the account was opened. Each term is read in the data centre
 * that served it. The result says when the last row was written, unless the term is closed.
 * @param keepers.other the region that served the previous term. @param keepers.close closes each
 *   term before it is read: nothing is written there any more.
 */
export async function servedBefore(
  keepers: { own: CassandraConnection; other: CassandraConnection; close: boolean },
  { account, term }: Partition,
): Promise<EarlierTerm | undefined> {
  for (let earlier = term - 1; earlier > 0; earlier--) {
    const connection = (term - earlier) % 2 === 1 ? keepers.other : keepers.own
    const partition = { account, term: earlier }
    const row = keepers.close
      ? await closeTerm(connection, partition)
      : (await connection.serialRead(dated, [account, earlier]))[0]
    if (isOpen(row, earlier)) return { connection, term: earlier, row }
  }
  return undefined
}

/** @returns its state, which is final. */
async function closeTerm(
  connection: CassandraConnection,
  { account, term }: Partition,
): Promise<CassandraRow | undefined> {
  const last = lastEpochOf(term)
  for (;;) {
    const [row] = await connection.serialRead(statics, [account, term])
    if (isBegun(row) && numberOf(row.epoch) === last) return row
    const refused = await close(connection, { account, term }, isBegun(row) ? row.epoch : null)
    // Its owner may have appended, or set a root, since the read.
    if (refused === undefined) return (await connection.run(statics, [account, term]))[0]
  }
}

/**
 * @param epoch as it was read; null: nothing was there. @returns undefined when nothing can be
 *   written there any more, else the row that prevented it.
 */
export function close(
  connection: CassandraConnection,
  { account, term }: Partition,
  epoch: unknown,
): Promise<CassandraRow | undefined> {
  return connection.conditional([
    {
      query: 'UPDATE journal SET epoch = ?, owner = null WHERE account = ? AND term = ? IF epoch = ?',
      params: [BigInt(lastEpochOf(term)), account, term, epoch],
    },
  ])
}

/** The result for an account whose home moved. */
export interface TakenJournal {
  account: string
  /** Rows up to here were taken over. */
  cut: number
  /**
   * The last row that the previous term is known to have had: rows behind the cut are no longer
   * part of the account.
   */
  known: number
  /** When that row was written, Unix milliseconds. */
  changedMs: number
}

/** An account that could not be opened, or lacks a page. */
export interface TakeFailure {
  account: string
  fault: unknown
}

/** A step of a pass over all accounts of a home that moved. Some places have nothing to move. */
export type PassStep = (TakenJournal | TakeFailure | object) & { place: string }

/** A partition as its opener left it. */
export interface OpenedPartition {
  head: number
  chain: Uint8Array
  root: Uint8Array | undefined
}

/**
 * Opens a partition that was begun. What fits goes into the write that opens it.
 * @param options.other the data centre that served the previous term, when it hands the account
 *   over. Without it what has arrived here counts.
 * @param options.release whether it has no owner afterwards.
 * @returns undefined when an opener with a newer epoch opens it. @throws JournalFault `CORRUPT`
 *   when what is handed over has a gap.
 */
export async function takeOverTerm(
  connection: CassandraConnection,
  { account, term }: Partition,
  {
    epoch,
    other,
    release = false,
  }: { epoch: number; other?: CassandraConnection | undefined; release?: boolean },
): Promise<OpenedPartition | undefined> {
  const arrived = other === undefined ? await termBefore(connection, { account, term }) : undefined
  const before =
    other === undefined
      ? arrived && { ...arrived, connection }
      : await servedBefore({ own: connection, other, close: true }, { account, term })
  const through = numberOf(before?.row.root_through)
  const fenced = (set: string, params: unknown[]): Statement => ({
    query: `UPDATE journal SET ${set} WHERE account = ? AND term = ? IF epoch = ? AND cut = null`,
    params: [...params, account, term, BigInt(epoch)],
  })
  let head = through
  let chain =
    before !== undefined && numberOf(before.row.head) === through
      ? optionalBytes(before.row.chain)
      : undefined
  let batch: Statement[] = []
  if (before !== undefined) {
    await copyPages(before, connection, { account, term })
    let bytes = 0
    for await (const row of rowsUpToGap(before.connection, { account, term: before.term }, through)) {
      if (batch.length >= rowsAtOnce || bytes >= bytesAtOnce) {
        const begun = fenced('root_through = ?', [BigInt(through)])
        if ((await connection.conditional([begun, ...batch])) !== undefined) return undefined
        batch = []
        bytes = 0
      }
      head = row.seq
      chain = row.checksum
      batch.push(insertRow({ account, term }, row))
      bytes += row.bytes.length
    }
    const whole = Math.max(numberOf(before.row.head), through)
    if (other !== undefined && head < whole)
      throw new JournalFault(
        'CORRUPT',
        `journal of ${account}: row ${head + 1} of ${whole} is not handed over`,
      )
  }
  const root = before?.row.root ?? null
  const opened: OpenedPartition = { head, chain: chain ?? firstChain, root: optionalBytes(root) }
  const details = [BigInt(head), Buffer.from(opened.chain), root, BigInt(through), BigInt(head)]
  const open = fenced(
    `head = ?, chain = ?, root = ?, root_through = ?, cut = ?${release ? ', owner = null' : ''}`,
    details,
  )
  const refused = await connection.conditional([open, ...batch])
  return refused === undefined ? opened : undefined
}

export interface CassandraJournalRow {
  seq: number
  epoch: number
  predecessor: Uint8Array
  bytes: Uint8Array
  checksum: Uint8Array
}

export function insertRow({ account, term }: Partition, row: CassandraJournalRow): Statement {
  return {
    query:
      'INSERT INTO journal (account, term, seq, row_epoch, predecessor, bytes, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)',
    params: [
      account,
      term,
      BigInt(row.seq),
      BigInt(row.epoch),
      Buffer.from(row.predecessor),
      Buffer.from(row.bytes),
      Buffer.from(row.checksum),
    ],
  }
}

/**
 * Rows in order, as they are stored. A partition with statics and no rows in the range has none.
 */
export async function* storedRows(
  connection: CassandraConnection,
  { account, term }: Partition,
  { after, last }: { after: number; last: number },
): AsyncIterable<CassandraJournalRow> {
  if (after >= last) return
  const found = connection.pages(
    'SELECT seq, row_epoch, predecessor, bytes, checksum FROM journal WHERE account = ? AND term = ? AND seq > ? AND seq <= ?',
    [account, term, BigInt(after), BigInt(last)],
    rowsPerPage,
  )
  for await (const stored of found) {
    if (stored.seq === null) return
    yield rowOf(stored)
  }
}

export function rowOf(stored: CassandraRow): CassandraJournalRow {
  return {
    seq: numberOf(stored.seq),
    epoch: numberOf(stored.row_epoch),
    predecessor: optionalBytes(stored.predecessor) ?? firstChain,
    bytes: optionalBytes(stored.bytes) ?? new Uint8Array(0),
    checksum: optionalBytes(stored.checksum) ?? firstChain,
  }
}

/** Rows behind `after` that form an intact chain. */
export async function* rowsUpToGap(
  connection: CassandraConnection,
  partition: Partition,
  after: number,
): AsyncIterable<CassandraJournalRow> {
  let last: Chained = { seq: after, checksum: after === 0 ? firstChain : undefined }
  for await (const row of storedRows(connection, partition, { after, last: Number.MAX_SAFE_INTEGER })) {
    if (!isIntact(partition.account, row, last)) return
    last = row
    yield row
  }
}

export interface Chained {
  seq: number
  checksum: Uint8Array | undefined
}

/** Whether the row is as it was written, behind that one. */
export function isIntact(account: string, row: CassandraJournalRow, behind: Chained): boolean {
  if (row.seq !== behind.seq + 1) return false
  if (behind.checksum !== undefined && !equalBytes(row.predecessor, behind.checksum)) return false
  return equalBytes(row.checksum, rowChecksum({ account, ...row }))
}

/** Later terms have their own pages: what is deleted in an older one stays here. */
export function pagesKeyOf({ account, term }: Partition): string {
  return term === 1 ? account : `${account}/${term}`
}

export async function* pageNames(connection: CassandraConnection, pages: string): AsyncIterable<string> {
  const found = connection.pages('SELECT name FROM pages WHERE account = ?', [pages], namesPerPage)
  for await (const row of found) yield row.name as string
}

export async function readPage(
  connection: CassandraConnection,
  pages: string,
  name: string,
): Promise<Uint8Array | undefined> {
  const [row] = await connection.run('SELECT bytes FROM pages WHERE account = ? AND name = ?', [pages, name])
  return optionalBytes(row?.bytes)
}

export async function writePage(
  connection: CassandraConnection,
  pages: string,
  { name, bytes }: { name: string; bytes: Uint8Array },
): Promise<void> {
  await connection.run('INSERT INTO pages (account, name, bytes) VALUES (?, ?, ?)', [
    pages,
    name,
    Buffer.from(bytes),
  ])
}

async function copyPages(from: EarlierTerm, connection: CassandraConnection, to: Partition): Promise<void> {
  const pages = pagesKeyOf({ account: to.account, term: from.term })
  for await (const name of pageNames(from.connection, pages)) {
    const bytes = await readPage(from.connection, pages, name)
    if (bytes !== undefined) await writePage(connection, pagesKeyOf(to), { name, bytes })
  }
}

/** When the last row of a dated state was written, Unix milliseconds. */
export function changedMsOf({ head_micros: micros }: CassandraRow): number {
  return Math.floor(numberOf(micros) / 1000)
}

export function numberOf(value: unknown): number {
  return value === null || value === undefined ? 0 : Number(value)
}

export function optionalBytes(value: unknown): Uint8Array | undefined {
  return value === null || value === undefined ? undefined : (value as Buffer)
}
