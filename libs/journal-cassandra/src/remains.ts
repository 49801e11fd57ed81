/**
 * What is stored of a journal, damaged or not, for its repair: rows and pages that are whole at
 * either place.
 */

import { firstChain, JournalFault, type JournalRemain, rowChecksum } from '@holdfast/journal'
import { equalBytes } from '@holdfast/kernel'
import type { Copies } from './backing-up.ts'
import type { CassandraConnection } from './connection.ts'
import {
  type CassandraJournalRow,
  isOpen,
  numberOf,
  optionalBytes,
  type Partition,
  pageNames,
  pagesKeyOf,
  readPage,
  statics,
  storedRows,
} from './region-terms.ts'

/** @throws JournalFault `UNAVAILABLE` also when the account was not opened in its term yet. */
export async function* remainsOf(
  { here, backup }: Copies,
  partition: Partition,
): AsyncIterable<JournalRemain> {
  const { account } = partition
  const [found] = await here.serialRead(statics, Object.values(partition))
  const isThere = isOpen(found, partition.term)
  if (!isThere && partition.term > 1)
    throw new JournalFault('UNAVAILABLE', `${account} is not open in term ${partition.term}`)
  const head = numberOf(found?.head)
  const chain = optionalBytes(found?.chain) ?? firstChain
  if (isThere) yield { kind: 'statics', stored: storedForm(found), statics: { head, chain }, lastRow: head }
  else if (await hasRemains(here, partition)) {
    const damage = `journal of ${account}: the statics are missing`
    yield { kind: 'statics', stored: new Uint8Array(), damage, statics: undefined, lastRow: 0 }
  }
  const root = optionalBytes(found?.root)
  if (root !== undefined) yield { kind: 'root', stored: root, bytes: root }
  const through = numberOf(found?.root_through)
  for await (const row of storedOrBackedUp({ here, backup }, partition, { through, head })) {
    const whole = equalBytes(row.checksum, rowChecksum({ account, ...row }))
    const damage = whole ? undefined : `row ${row.seq} has a wrong checksum`
    yield {
      kind: 'row',
      seq: row.seq,
      stored: storedForm({ ...row }),
      damage,
      row: whole ? row : undefined,
    }
  }
  for await (const name of pageNames(here, pagesKeyOf(partition))) {
    const bytes = await readPage(here, pagesKeyOf(partition), name)
    if (bytes !== undefined) yield { kind: 'page', name, stored: bytes, bytes }
  }
}

async function hasRemains(here: CassandraConnection, partition: Partition): Promise<boolean> {
  const range = { after: 0, last: Number.MAX_SAFE_INTEGER }
  for await (const _ of storedRows(here, partition, range)) return true
  for await (const _ of pageNames(here, pagesKeyOf(partition))) return true
  return false
}

/**
 * Rows in order; damaged or missing ones behind the root come from the backup, if they are whole
 * there.
 */
async function* storedOrBackedUp(
  { here, backup }: Copies,
  { account, term }: Partition,
  { through, head }: { through: number; head: number },
): AsyncIterable<CassandraJournalRow> {
  const bySeq = new Map<number, CassandraJournalRow>()
  const range = { after: 0, last: Number.MAX_SAFE_INTEGER }
  for await (const row of storedRows(here, { account, term }, range)) bySeq.set(row.seq, row)
  const hasOwnChecksum = (row: CassandraJournalRow) =>
    equalBytes(row.checksum, rowChecksum({ account, ...row }))
  const lacks = (seq: number) => {
    const row = bySeq.get(seq)
    return row === undefined || !hasOwnChecksum(row)
  }
  let lacking = false
  for (let seq = through + 1; seq <= head && !lacking; seq++) lacking = lacks(seq)
  if (lacking && backup !== undefined)
    for await (const row of storedRows(backup(), { account, term }, { ...range, after: through }))
      if (lacks(row.seq) && hasOwnChecksum(row)) bySeq.set(row.seq, row)
  for (const seq of [...bySeq.keys()].sort((one, other) => one - other))
    yield bySeq.get(seq) as CassandraJournalRow
}

export async function* copiesOfPage(
  { here, backup }: Copies,
  pages: string,
  name: string,
): AsyncIterable<Uint8Array> {
  const own = await readPage(here, pages, name)
  if (own !== undefined) yield own
  if (backup === undefined) return
  const other = await readPage(backup(), pages, name)
  if (other !== undefined) yield other
}

/** A row as Cassandra has it, as text: bytes in base64. */
function storedForm(row: object): Uint8Array {
  const plain = (value: unknown) => {
    if (value instanceof Uint8Array) return Buffer.from(value).toString('base64')
    return value === null || typeof value === 'string' ? value : Number(value)
  }
  const entries = Object.entries(row).map(([column, value]) => [column, plain(value)])
  return Buffer.from(JSON.stringify(Object.fromEntries(entries)))
}
