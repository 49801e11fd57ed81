/**
 * Sends the backup what it lacks of an account.
 *
 * Cassandra sends every write to the other data centre, within moments, and keeps undelivered
 * writes as hints, for the hint window. Writes after a cut of that length never arrive. So the
 * account is compared at both places, and what the backup lacks is written again, each cell with
 * the time of its first write: repeating it changes nothing, and a later write or a deletion wins.
 * A row or a page is one mutation, whole or absent. Of the statics the write times are compared.
 * Rows and pages are written before the head and the root that name them.
 *
 * The owner is not sent: a clean release leaves no owner to send, and a successor does not need it.
 *
 * Cost when nothing is missing: five small parallel reads, one round trip between the regions.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { type BackupResult, JournalFault } from '@holdfast/journal'
import type { CassandraConnection, CassandraRow, Statement } from './connection.ts'
import {
  type CassandraJournalRow,
  insertRow,
  numberOf,
  optionalBytes,
  type Partition,
  pageNames,
  pagesKeyOf,
  readPage,
  statics,
  storedRows,
} from './region-terms.ts'

/** Recent writes are still in transit: this is how long they are awaited before they are sent. */
const onItsWayMs = 200
/** Rows and pages in transit at one time: each may have 1 MiB. */
const atOnce = 4
const rowsPerPage = 1_000
/**
 * How often the backup is asked whether it has what a deletion needs, and the first pause; each one
 * is twice the last.
 */
const backupAttempts = 6
const backupFirstMs = 50

const staticColumns = ['epoch', 'cut', 'head', 'chain', 'root', 'root_through'] as const
const writtenStatics = `SELECT ${staticColumns.map((name) => `${name}, WRITETIME(${name}) AS ${name}_at`).join(', ')} FROM journal WHERE account = ? AND term = ? LIMIT 1`

interface LackingRows {
  seqs: number[]
  names: string[]
  statics: Statement[]
}

/** Where a journal is: this data centre, and the one that would take over, if there is one. */
export interface Copies {
  here: CassandraConnection
  /** Throws while it is out of reach. */
  backup: (() => CassandraConnection) | undefined
}

export interface Places {
  here: CassandraConnection
  backup: CassandraConnection
}

/**
 * Resolves when the backup has everything of the partition that was durable here before the call.
 * @param onLacking see `JournalBackup`.
 * @throws JournalFault `UNAVAILABLE`
 */
export async function bring(
  places: Places,
  partition: Partition,
  onLacking: () => Promise<void>,
): Promise<BackupResult> {
  if (lacksNothing(await lacking(places, partition))) return { rows: 0, pages: 0 }
  await delay(onItsWayMs)
  const found = await lacking(places, partition)
  if (lacksNothing(found)) return { rows: 0, pages: 0 }
  await onLacking()
  await bringRows(places, partition, found.seqs)
  await bringPages(places, partition, found.names)
  await places.backup.runAll(found.statics)
  if (!lacksNothing(await lacking(places, partition, found)))
    throw new JournalFault('UNAVAILABLE', `the backup of ${partition.account} does not accept what it lacks`)
  return { rows: found.seqs.length, pages: found.names.length }
}

function lacksNothing({ seqs, names, statics }: LackingRows): boolean {
  return seqs.length + names.length + statics.length === 0
}

/** @param among only of these: later writes are not checked. */
async function lacking(
  { here, backup }: Places,
  partition: Partition,
  among?: { seqs: readonly number[]; names: readonly string[]; statics: readonly Statement[] },
): Promise<LackingRows> {
  const key = [partition.account, partition.term]
  const pages = pagesKeyOf(partition)
  const [[own], [others], ownNames, othersNames] = await Promise.all([
    here.run(writtenStatics, key),
    backup.run(writtenStatics, key),
    Array.fromAsync(pageNames(here, pages)),
    Array.fromAsync(pageNames(backup, pages)),
  ])
  const through = numberOf(own?.root_through)
  const head = numberOf(own?.head)
  const there = await seqsOf(backup, partition, { after: through, last: head })
  const seqs: number[] = []
  for (let seq = through + 1; seq <= head; seq++) if (!there.has(seq)) seqs.push(seq)
  const known = new Set(othersNames)
  const lacks = {
    seqs,
    names: ownNames.filter((name) => !known.has(name)),
    statics: own === undefined ? [] : olderStatics(own, others, partition),
  }
  if (among === undefined) return lacks
  return {
    seqs: lacks.seqs.filter((seq) => among.seqs.includes(seq)),
    names: lacks.names.filter((name) => among.names.includes(name)),
    // Possibly written again since: then the sent value is older, and the newer one is in transit.
    statics: olderThan(among.statics, others),
  }
}

async function seqsOf(
  connection: CassandraConnection,
  { account, term }: Partition,
  { after, last }: { after: number; last: number },
): Promise<Set<number>> {
  const found = new Set<number>()
  if (last <= after) return found
  const rows = connection.pages(
    'SELECT seq FROM journal WHERE account = ? AND term = ? AND seq > ? AND seq <= ?',
    [account, term, BigInt(after), BigInt(last)],
    rowsPerPage,
  )
  for await (const { seq } of rows) if (seq !== null) found.add(numberOf(seq))
  return found
}

function olderStatics(
  own: CassandraRow,
  others: CassandraRow | undefined,
  { account, term }: Partition,
): Statement[] {
  return staticColumns
    .filter((name) => own[name] !== null && numberOf(others?.[`${name}_at`]) < numberOf(own[`${name}_at`]))
    .map((name) => ({
      query: `UPDATE journal USING TIMESTAMP ? SET ${name} = ? WHERE account = ? AND term = ?`,
      params: [own[`${name}_at`], own[name], account, term],
    }))
}

function olderThan(brought: readonly Statement[], others: CassandraRow | undefined): Statement[] {
  return brought.filter(({ query, params: [writtenAt] }) => {
    const name = staticColumns.find((column) => query.includes(` SET ${column} = `)) as string
    return numberOf(others?.[`${name}_at`]) < numberOf(writtenAt)
  })
}

async function bringRows({ here, backup }: Places, partition: Partition, seqs: number[]): Promise<void> {
  await inSlices(seqs, async (seq) => {
    const written =
      'SELECT WRITETIME(checksum) AS written_at FROM journal WHERE account = ? AND term = ? AND seq = ?'
    const { account, term } = partition
    const [times] = await here.run(written, [account, term, BigInt(seq)])
    const [row] = await Array.fromAsync(storedRows(here, partition, { after: seq - 1, last: seq }))
    // Trimmed meanwhile: a newer root replaces it.
    if (times === undefined || row === undefined) return
    await backup.run(...writtenAt(insertRow(partition, row satisfies CassandraJournalRow), times.written_at))
  })
}

async function bringPages({ here, backup }: Places, partition: Partition, names: string[]): Promise<void> {
  const pages = pagesKeyOf(partition)
  await inSlices(names, async (name) => {
    const written = 'SELECT WRITETIME(bytes) AS written_at FROM pages WHERE account = ? AND name = ?'
    const [times] = await here.run(written, [pages, name])
    const bytes = optionalBytes(await readPage(here, pages, name))
    if (times === undefined || bytes === undefined) return
    const insert = 'INSERT INTO pages (account, name, bytes) VALUES (?, ?, ?)'
    await backup.run(...writtenAt({ query: insert, params: [pages, name, bytes] }, times.written_at))
  })
}

function writtenAt({ query, params }: Statement, micros: unknown): [string, unknown[]] {
  return [`${query} USING TIMESTAMP ?`, [...params, micros]]
}

async function inSlices<One>(all: readonly One[], work: (one: One) => Promise<void>): Promise<void> {
  for (let at = 0; at < all.length; at += atOnce) await Promise.all(all.slice(at, at + atOnce).map(work))
}

/**
 * Resolves when the backup has the current root, and every page except those to be deleted.
 * @throws JournalFault `UNAVAILABLE` when it has not, or cannot be asked: nothing may be deleted
 *   then.
 */
export async function untilBackedUp(
  { here, backup: connect }: Copies,
  { account, term }: Partition,
  without: ReadonlySet<string> = new Set(),
): Promise<void> {
  if (connect === undefined) return
  const backup = connect()
  for (let attempt = 1; ; attempt++) {
    if (await isBackedUp({ here, backup }, { account, term }, without)) return
    if (attempt === backupAttempts)
      throw new JournalFault('UNAVAILABLE', `the backup of ${account} is behind: what it needs stays`)
    await delay(backupFirstMs * 2 ** (attempt - 1))
  }
}

async function isBackedUp(
  { here: connection, backup }: Places,
  { account, term }: Partition,
  without: ReadonlySet<string>,
): Promise<boolean> {
  const [[here], [there]] = await Promise.all([
    connection.run(statics, [account, term]),
    backup.run(statics, [account, term]),
  ])
  if (numberOf(there?.root_through) < numberOf(here?.root_through)) return false
  const names = new Set<string>()
  for await (const name of pageNames(backup, pagesKeyOf({ account, term }))) names.add(name)
  for await (const name of pageNames(connection, pagesKeyOf({ account, term })))
    if (!names.has(name) && !without.has(name)) return false
  return true
}
