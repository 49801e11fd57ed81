/** What an opening reads first: whose store it is, and what an earlier process lost. */
import { randomBytes } from 'node:crypto'
import { JournalFault } from '@holdfast/journal'
import { countDamagedFiles } from '../damage/damage-record.ts'
import {
  decodeNumber,
  decodeSmall,
  encodeSmall,
  isWholeValue,
  keys,
  markersMax,
  metadataFormatVersion,
} from '../rows/format.ts'
import { copiedKinds, kindSubject } from '../rows/kinds-of-rows.ts'
import { LostRanges } from '../rows/lost-ranges.ts'
import {
  copiedNumberAt,
  copiedNumberRows,
  copiesVersion,
  keptLostKinds,
  keptRanges,
  knownSuspicions,
  lostBatchesIn,
  lostKindsRows,
  numberAt,
  numberRow,
  suspicionRows,
} from '../rows/stored-numbers.ts'
import { readEntries, type Suspicions, storeOfAudit, subjectDigest } from '../writing/commit-audit.ts'
import type { RowChange } from '../writing/group-writer.ts'
import type { Rows } from './rows.ts'

/**
 * Checks the version and gives the store its permanent name: 16 random bytes. A version that is
 * lost with a part of the disk is this one, because each row has its own, too. A lost name is read
 * from the commit audit.
 */
export async function identify(rows: Rows, path: string): Promise<Uint8Array> {
  const format = await numberAt(rows, keys.meta('format'))
  if (format > metadataFormatVersion) {
    const versions = `format ${format}, this release reads up to ${metadataFormatVersion}`
    throw new JournalFault('UNAVAILABLE', `the metadata store has ${versions}`)
  }
  const key = keys.meta('store')
  const stored = await rows.get(key)
  if (format > 0 && stored !== undefined) return decodeSmall(key, stored)
  const lost = new LostRanges(await keptRanges(rows))
  const areLost = (format > 0 || lost.has(keys.meta('format'))) && (stored !== undefined || lost.has(key))
  if (!areLost)
    for await (const _ of rows.scan({}, { limit: 1 }))
      throw new JournalFault('CORRUPT', 'the metadata store has rows but lost its name or format')
  const name =
    stored === undefined ? ((await storeOfAudit(path)) ?? randomBytes(16)) : decodeSmall(key, stored)
  const named: RowChange = { type: 'put', key, value: encodeSmall(key, name) }
  await rows.commit([numberRow(keys.meta('format'), metadataFormatVersion), named])
  return name
}

export interface InspectResult {
  suspicions: Suspicions
  lostRanges: LostRanges
  /** Of lookups. */
  lostKinds: string[]
  /** In this opening: acknowledged batches, and the accounts, counters and lookups in them. */
  newlyLost: { batches: number; accounts: number; kinds: string[] }
  damagedFiles: number
  lostBatches: number
  nextBatch: number
}

/**
 * Compares the commit audit with the store, and records permanently what is missing. Opening moved
 * LevelDB's log into tables, so a comparison need not be repeated: only batches behind the last one
 * are judged.
 */
export async function inspect(
  rows: Rows,
  { path, store, hasCopies }: { path: string; store: Uint8Array; hasCopies: boolean },
): Promise<InspectResult> {
  const checked = await numberAt(rows, keys.meta('checked'))
  const marked = await markedBatches(rows)
  const seen = (await readEntries(path, store)).filter(({ batch }) => batch > checked)
  const newest = [...marked].reduce((most, batch) => Math.max(most, batch), checked)
  const lost = seen.filter(({ batch }) => batch > newest - markersMax && !marked.has(batch))
  const last = seen.reduce((most, { batch }) => Math.max(most, batch), newest)
  const suspicions = await knownSuspicions(rows)
  const copies = await numberAt(rows, keys.meta('copies'))
  const isFirst = copies === 0
  const lostRanges = new LostRanges(await keptRanges(rows))
  const isCopied = hasCopies && copies >= copiesVersion
  if (!isCopied) await copyLookups(rows)
  const notes = lost.flatMap((entry) => entry.notes)
  const kindsOf = new Map(copiedKinds.map((kind) => [subjectDigest(kindSubject(kind)), kind]))
  const found = notes.filter(({ digest }) => !kindsOf.has(digest)).map((note) => suspicions.add(note))
  const fromLog = notes.flatMap(({ digest }) => kindsOf.get(digest) ?? [])
  const keptKinds = await keptLostKinds(rows)
  const lostBefore = await lostBatchesIn(rows)
  const lostBatches = lostBefore + lost.length
  const named = await numberAt(rows, keys.meta('named'))
  // A release that keeps no copies records no lost kinds, neither in its audit nor at its starts.
  const areUnnamed = !isCopied && (lost.length > 0 || lostBefore !== named)
  const newKinds = [...new Set(areUnnamed ? copiedKinds : fromLog)]
  const lostKinds = new Set([...keptKinds, ...newKinds])
  const changes = [
    ...(isFirst ? [...suspicions] : found).flatMap(suspicionRows),
    ...(isFirst ? await firstCopies(rows) : []),
    ...(copies === copiesVersion ? [] : [numberRow(keys.meta('copies'), copiesVersion)]),
    ...(lostKinds.size === keptKinds.length ? [] : lostKindsRows([...lostKinds])),
    ...(isCopied && lost.length === 0 ? [] : copiedNumberRows(keys.meta('lost'), lostBatches)),
    ...(lostBatches === named ? [] : [numberRow(keys.meta('named'), lostBatches)]),
    ...(last === checked ? [] : [numberRow(keys.meta('checked'), last)]),
  ]
  // Correct rows are not written again: a damaged table is suspect from its first key to its last.
  if (changes.length > 0) await rows.commit(changes)
  // The audit that names the lost batches is restarted after this, and the copies count from then
  // on.
  if (lost.length > 0 || !isCopied) await rows.moveToTables()
  return {
    suspicions,
    lostRanges,
    lostKinds: [...lostKinds].sort(),
    newlyLost: { batches: lost.length, accounts: found.length, kinds: newKinds },
    damagedFiles: await countDamagedFiles(path),
    lostBatches,
    nextBatch: last + 1,
  }
}

/**
 * Makes the copies equal to the lookups: a release without copies may have written lookups since.
 */
async function copyLookups(rows: Rows): Promise<void> {
  const copies = rows.scan(keys.copiesOf(keys.lookupsOf('')))
  for await (const batch of inBatches(copies, (copy) => withoutOriginal(rows, copy))) await rows.commit(batch)
  for (const kind of copiedKinds)
    for await (const batch of inBatches(rows.scan(keys.lookupsOf(`${kind}/`)), copyOf))
      await rows.commit(batch)
}

async function withoutOriginal(rows: Rows, copy: Uint8Array): Promise<RowChange[]> {
  return (await rows.get(keys.copied(copy))) === undefined ? [{ type: 'del', key: copy }] : []
}

async function copyOf(key: Uint8Array, stored: Uint8Array): Promise<RowChange[]> {
  if (!isWholeValue(key, stored)) return []
  const copy = keys.copy(key)
  return [{ type: 'put', key: copy, value: encodeSmall(copy, decodeSmall(key, stored)) }]
}

async function* inBatches(
  found: AsyncIterable<[Uint8Array, Uint8Array]>,
  changesOf: (key: Uint8Array, stored: Uint8Array) => Promise<RowChange[]>,
): AsyncGenerator<RowChange[]> {
  let batch: RowChange[] = []
  for await (const [key, stored] of found) {
    batch.push(...(await changesOf(key, stored)))
    if (batch.length < copiedAtOnce) continue
    yield batch
    batch = []
  }
  if (batch.length > 0) yield batch
}

const copiedAtOnce = 1_000

/** Of the counters that a release without copies wrote. */
async function firstCopies(rows: Rows): Promise<RowChange[]> {
  const changes: RowChange[] = []
  for await (const [key] of rows.scan(keys.counters)) {
    const next = await copiedNumberAt(rows, key)
    if (next !== undefined) changes.push(...copiedNumberRows(key, next))
  }
  return changes
}

export function markerOf(batch: number): RowChange {
  return numberRow(keys.marker(batch), batch)
}

/** A damaged marker is no marker: its batch counts as lost, which is likely. */
async function markedBatches(rows: Rows): Promise<Set<number>> {
  const marked = new Set<number>()
  for await (const [key, stored] of rows.scan(keys.markers)) {
    if (isWholeValue(key, stored)) marked.add(decodeNumber(key, stored))
  }
  return marked
}
