/**
 * Writes into the store what a lost range means for what is left.
 *
 * A lost block may have held the newest version of a row, and an older one then shows in its place,
 * whole in itself. So everything with a key in the range counts as lost from now on:
 *
 * - an account with rows left is noted as acknowledged in an epoch far above its own, so it is
 *   CORRUPT until it is repaired;
 * - an account without rows in a range that is kept is CORRUPT instead of never written;
 * - a counter continues far above the greatest known number;
 * - lookups with a copy are made again from it, and copies from the lookups; kinds of which both
 *   places are lost are recorded (`lostKinds`);
 * - other lookups are no longer proof of anything (`lostBatches`).
 *
 * Markers need nothing: a batch without one counts as lost. May be repeated after a crash.
 */
import type { KeyRange } from '@holdfast/level-files'
import {
  decodeFixed,
  decodeRow,
  decodeSmall,
  encodeSmall,
  isWholeValue,
  keys,
  neverWritten,
} from '../rows/format.ts'
import { copiedKinds } from '../rows/kinds-of-rows.ts'
import { isBeforeEnd, type KeySpan, LostRanges, rangeOf, touches } from '../rows/lost-ranges.ts'
import {
  copiedNumberAt,
  copiedNumberRows,
  keptLostKinds,
  keptRanges,
  keptRangesRows,
  knownSuspicions,
  lostBatchesIn,
  lostKindsRows,
  numberAt,
  numberRow,
  suspicionRows,
} from '../rows/stored-numbers.ts'
import type { StoredRows } from '../rows/stored-rows.ts'
import type { RowChange } from '../writing/group-writer.ts'

/** Above every epoch, and every number, that the lost rows may have given. */
export const leap = 2 ** 20

/** Rows that one batch writes; the last one has the ranges. */
const batchRowsMax = 10_000

interface LossOptions {
  lost: readonly KeyRange[]
  /** The list of tables was made again. */
  isRebuilt: boolean
  /** The last process kept the copies of lookups. */
  hasCopies: boolean
}

export interface AppliedLoss {
  /** Upper bound of the accounts that have rows left and are CORRUPT from now on. */
  suspectAccounts: number
  /** Kinds of lookups of which a row may be lost together with its copy. */
  lostKinds: string[]
}

export async function applyLoss(
  rows: StoredRows,
  { lost, isRebuilt, hasCopies }: LossOptions,
): Promise<AppliedLoss> {
  if (lost.length === 0 && !isRebuilt) return { suspectAccounts: 0, lostKinds: [] }
  const losses = await lossesOf(rows, lost)
  const lostKinds = losses.areKindsGone ? [...copiedKinds] : kindsLost(losses.fresh, { hasCopies })
  const suspectAccounts = await commitInBatches(rows, suspectRows(rows, losses.accounts))
  if (hasCopies) await commitInBatches(rows, copiedLookupRows(rows, losses.fresh))
  const newLosses = lost.length + (isRebuilt ? 1 : 0)
  await rows.commit([
    ...(await counterRows(rows, losses.fresh)),
    ...keptRangesRows(losses.ranges),
    ...lostKindsRows([...new Set([...(await keptLostKinds(rows)), ...lostKinds])]),
    ...copiedNumberRows(keys.meta('lost'), losses.before + newLosses),
    numberRow(keys.meta('named'), (await numberAt(rows, keys.meta('named'))) + newLosses),
  ])
  return { suspectAccounts, lostKinds }
}

interface Losses {
  /**
   * The number of earlier losses. If that number may be lost itself, one far above it: it never
   * falls.
   */
  before: number
  /** The names of lost kinds may be lost. */
  areKindsGone: boolean
  /** What is kept. */
  ranges: LostRanges
  /** Where accounts are suspect. */
  accounts: LostRanges
  fresh: LostRanges
}

async function lossesOf(rows: StoredRows, lost: readonly KeyRange[]): Promise<Losses> {
  const fresh = new LostRanges(lost)
  const hasCopies = (await numberAt(rows, keys.meta('copies'))) > 0
  const number = keys.meta('lost')
  const isCopyOfNumberGone = fresh.has(keys.copy(number)) || (await rows.get(keys.copy(number))) === undefined
  const before = (await lostBatchesIn(rows)) + (fresh.has(number) && isCopyOfNumberGone ? leap : 0)
  const hadLosses = before > 0
  const areGone = (span: KeySpan) => {
    const isCopyGone = !hasCopies || fresh.touches(keys.copiesOf(span))
    return hadLosses && isCopyGone && fresh.touches(span)
  }
  const every = rangeOf(keys.journals)
  const ranges = [...(await keptRanges(rows)), ...lost]
  if (areGone(keys.spanOf(keys.lostRanges))) ranges.push(every)
  // An absent copy proves nothing where none was ever made.
  if (!hasCopies) ranges.push(rangeOf(keys.copies))
  return {
    before,
    fresh,
    areKindsGone: areGone(keys.spanOf(keys.lostKinds)),
    ranges: new LostRanges(ranges),
    accounts: areGone(keys.suspects) ? new LostRanges([...lost, every]) : fresh,
  }
}

/** @returns how many items `changes` yielded */
async function commitInBatches(rows: StoredRows, changes: AsyncIterable<RowChange[]>): Promise<number> {
  let batch: RowChange[] = []
  let count = 0
  for await (const some of changes) {
    batch.push(...some)
    count++
    if (batch.length < batchRowsMax) continue
    await rows.commit(batch)
    batch = []
  }
  if (batch.length > 0) await rows.commit(batch)
  return count
}

/** Those of each account. */
async function* suspectRows(rows: StoredRows, lost: LostRanges): AsyncGenerator<RowChange[]> {
  const known = await knownSuspicions(rows)
  for await (const account of accountsIn(rows, lost)) {
    const { epoch, head } = await newestKnown(rows, account)
    yield suspicionRows(known.suspect(`j${account}`, { epoch: epoch + leap, number: head }))
  }
}

/**
 * A row and its copy are written in one batch, and removed in one. So if only one of the two is in
 * the range, the other one is right, also when it is absent.
 */
async function* copiedLookupRows(rows: StoredRows, lost: LostRanges): AsyncGenerator<RowChange[]> {
  for (const span of copiedSpans()) {
    if (!lost.touches(span) && !lost.touches(keys.copiesOf(span))) continue
    for await (const [copy, stored] of rows.scan(keys.copiesOf(span)))
      yield await changesBy({ rows, lost, from: copy, stored, to: keys.copied(copy) })
    for await (const [key, stored] of rows.scan(span))
      yield await changesBy({ rows, lost, from: key, stored, to: keys.copy(key) })
  }
}

interface TwoPlaces {
  rows: StoredRows
  lost: LostRanges
  from: Uint8Array
  /** What is there. */
  stored: Uint8Array
  to: Uint8Array
}

/** What the row in one place means for both. */
async function changesBy({ rows, lost, from, stored, to }: TwoPlaces): Promise<RowChange[]> {
  if (!lost.has(to)) {
    const isRemoved = lost.has(from) && (await rows.get(to)) === undefined
    return isRemoved ? [{ type: 'del', key: from }] : []
  }
  if (!isWholeValue(from, stored)) return []
  const there = lost.has(from) ? await rows.get(to) : undefined
  if (there !== undefined && isWholeValue(to, there)) return []
  return [{ type: 'put', key: to, value: encodeSmall(to, decodeSmall(from, stored)) }]
}

function copiedSpans(): KeySpan[] {
  return copiedKinds.map((kind) => keys.lookupsOf(`${kind}/`))
}

/** Where a lookup and its copy may both have been. */
function kindsLost(lost: LostRanges, { hasCopies }: { hasCopies: boolean }): string[] {
  return copiedKinds.filter((kind) => {
    const span = keys.lookupsOf(`${kind}/`)
    if (!hasCopies) return lost.touches(span)
    return [...lost].some((range) => {
      const copied = originalsIn(range, span)
      return copied !== undefined && lost.touches(copied)
    })
  })
}

/** The keys, within the span, whose copies are in the range. */
function originalsIn(range: KeyRange, span: KeySpan): KeySpan | undefined {
  const copies = keys.copiesOf(span)
  if (!touches(range, copies)) return undefined
  const { after, through } = range
  const isFirst = after === undefined || Buffer.compare(after, copies.gte) < 0
  const isLast = through === undefined || Buffer.compare(through, copies.lt) >= 0
  return {
    gte: isFirst ? span.gte : keys.copied(after),
    lt: isLast ? span.lt : keys.spanOf(keys.copied(through)).lt,
  }
}

/** One short iteration for each account: the rows in between are skipped. */
async function* accountsIn(rows: StoredRows, lost: LostRanges): AsyncGenerator<string> {
  for (const range of lost) {
    let span: KeySpan = { ...keys.journals, gte: firstIn(range) }
    for (;;) {
      let account: string | undefined
      for await (const [key] of rows.scan(span, { limit: 1 })) account = keys.accountOf(key)
      if (account === undefined || !isBeforeEnd(range, keys.everythingOf(account).gte)) break
      if (touches(range, keys.everythingOf(account))) yield account
      span = { ...keys.journals, gte: keys.everythingOf(account).lt }
    }
  }
}

/** The first key of the account that the range begins in. */
function firstIn({ after }: KeyRange): Uint8Array {
  const { gte } = keys.journals
  if (after === undefined || Buffer.compare(after, gte) <= 0) return gte
  return keys.journalOf(keys.accountOf(after))
}

/** The static row may be damaged, or an older one. */
async function newestKnown(rows: StoredRows, account: string): Promise<{ epoch: number; head: number }> {
  const stored = await rows.get(keys.fixed(account))
  const fixed = stored && readable(() => decodeFixed(account, stored))
  let { epoch, head } = fixed ?? neverWritten
  for await (const [key, row] of rows.scan({ gt: keys.row(account, head), lt: keys.rowsEnd(account) })) {
    const seq = keys.seqOf(key)
    epoch = Math.max(epoch, readable(() => decodeRow(account, row, { seq }).epoch) ?? 0)
    head = seq
  }
  return { epoch, head }
}

function readable<Value>(decode: () => Value): Value | undefined {
  try {
    return decode()
  } catch {
    return undefined
  }
}

async function counterRows(rows: StoredRows, ranges: LostRanges): Promise<RowChange[]> {
  const counters = new Map<string, Uint8Array>()
  for await (const [key] of rows.scan(keys.counters)) counters.set(keys.counterOf(key), key)
  for await (const [copy] of rows.scan(keys.copiesOf(keys.counters))) {
    const key = keys.copied(copy)
    counters.set(keys.counterOf(key), key)
  }
  const changes: RowChange[] = []
  for (const key of counters.values()) {
    if (!ranges.has(key) && !ranges.has(keys.copy(key))) continue
    const next = await copiedNumberAt(rows, key)
    if (next !== undefined) changes.push(...copiedNumberRows(key, next + leap))
  }
  return changes
}
