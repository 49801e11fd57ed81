/**
 * The lookups in LevelDB: on the same writer as the journals, so that they keep the order of issue.
 */
import {
  assertChange,
  assertCount,
  assertLookupKey,
  assertLookupRow,
  assertPrefixes,
  JournalFault,
  type LookupChange,
  type LookupRow,
  type LookupStore,
  type LookupWalk,
  lookupKeyOf,
} from '@holdfast/journal'
import { RecentMap } from '@holdfast/kernel'
import type { Rows } from './opening/rows.ts'
import { decodeSmall, isWholeValue, keys } from './rows/format.ts'
import { kindNotes, lookupRows, removedLookupRows } from './rows/kinds-of-rows.ts'
import type { LostRanges } from './rows/lost-ranges.ts'
import { copiedNumberAt, copiedNumberRows } from './rows/stored-numbers.ts'
import type { ScanRange } from './rows/stored-rows.ts'
import type { Suspicions } from './writing/commit-audit.ts'
import { type GroupWriter, groupBytesMax, type RowChange } from './writing/group-writer.ts'
import { UncommittedRows } from './writing/uncommitted-rows.ts'

/** Counters kept in memory; there are a handful. */
const cachedCounters = 100
/** Rows whose write times are kept in memory, some 300 bytes each: at least the latest half. */
const writeTimesKept = 20_000
/**
 * Changes of one write that go into a batch together: about half of its bytes with the largest
 * rows, each with a copy.
 */
const sliceChanges = Math.floor(groupBytesMax / 4 / 4_608)

export class LevelLookups implements LookupStore, LookupWalk {
  readonly #rows: Rows
  readonly #writer: GroupWriter
  readonly #counters: UncommittedRows<number>
  /**
   * Write times of rows that this process wrote, deleted ones too. Not stored: see "The writer" in
   * DESIGN.md.
   */
  readonly #writeTimes = new RecentMap<string, bigint>({ max: writeTimesKept })
  /** One claimant of a key at a time; the others wait behind it. */
  readonly #claims = new Map<string, Claim>()

  constructor(parts: {
    rows: Rows
    writer: GroupWriter
    suspicions: Suspicions
    lostRanges: LostRanges
  }) {
    this.#rows = parts.rows
    this.#writer = parts.writer
    const load = (counter: string) => this.#loadCounter(counter, parts)
    this.#counters = new UncommittedRows(load, { max: cachedCounters })
  }

  /** Rows in memory are read again. */
  forget(): void {
    this.#counters.forget()
  }

  async write(changes: readonly LookupChange[], writeTime?: bigint): Promise<void> {
    for (const change of changes) assertChange(change)
    const holding =
      writeTime === undefined
        ? changes
        : changes.filter((change) => this.#comesInTime(lookupKeyOf(change), writeTime))
    const written = slicesOf(holding).map((slice) =>
      this.#writer.write(slice.flatMap(rowsOf), ...kindNotes(slice.map(lookupKeyOf))),
    )
    for (const change of holding) this.#disturb(lookupKeyOf(change))
    await Promise.all(written)
    // Late changes are answered when the change that won is durable.
    if (holding.length < changes.length) await this.#writer.flushed()
  }

  #comesInTime(key: string, writeTime: bigint): boolean {
    if (writeTime < (this.#writeTimes.get(key) ?? 0n)) return false
    this.#writeTimes.set(key, writeTime)
    return true
  }

  /** A claim that has already read must read again. */
  #disturb(key: string): void {
    const claim = this.#claims.get(key)
    if (claim !== undefined) claim.disturbed = true
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    assertLookupKey(key)
    const stored = await this.#rows.get(keys.lookup(key))
    return stored && (await this.#valueOf(keys.lookup(key), stored))
  }

  /** Of the copy, if the row itself is damaged. @throws JournalFault CORRUPT */
  async #valueOf(key: Uint8Array, stored: Uint8Array): Promise<Buffer> {
    if (isWholeValue(key, stored)) return decodeSmall(key, stored)
    const copy = keys.copy(key)
    const copied = await this.#rows.get(copy)
    return copied !== undefined && isWholeValue(copy, copied)
      ? decodeSmall(copy, copied)
      : decodeSmall(key, stored)
  }

  async *scan(
    prefix: string,
    { after = '', limit }: { after?: string; limit?: number } = {},
  ): AsyncIterable<LookupRow> {
    if (limit === 0) return
    const from = after > prefix ? { gt: keys.lookup(after) } : { gte: keys.lookup(prefix) }
    const range = { ...from, lt: Buffer.concat([keys.lookup(prefix), Buffer.of(0xff)]) }
    for await (const [key, stored] of this.#rows.scan(range, limit === undefined ? {} : { limit })) {
      yield { key: keys.lookupOf(key), value: await this.#valueOf(key, stored) }
    }
  }

  /**
   * In the order of keys. Where there is no row, the next one answers for all prefixes before it:
   * as many iterators are opened as rows are found, and one more.
   */
  async firstOf(prefixes: readonly string[]): Promise<(LookupRow | undefined)[]> {
    assertPrefixes(prefixes)
    const inOrder = [...new Set(prefixes)].sort()
    const lt = Buffer.concat([keys.lookup(inOrder.at(-1) ?? ''), Buffer.of(0xff)])
    const found = new Map<string, LookupRow>()
    let next: LookupRow | undefined
    for (const prefix of inOrder) {
      if (next === undefined || next.key < prefix)
        next = await this.#firstIn({ gte: keys.lookup(prefix), lt })
      if (next === undefined) break
      if (next.key.startsWith(prefix)) found.set(prefix, next)
    }
    return prefixes.map((prefix) => found.get(prefix))
  }

  async #firstIn(range: ScanRange): Promise<LookupRow | undefined> {
    for await (const [key, stored] of this.#rows.scan(range, { limit: 1 }))
      return { key: keys.lookupOf(key), value: await this.#valueOf(key, stored) }
    return undefined
  }

  async *walk(kind: string, { after = '' }: { after?: string } = {}) {
    for await (const { key } of this.scan(`${kind}/`, { after })) yield { key, place: key }
  }

  async claim(key: string, value: Uint8Array): Promise<Uint8Array> {
    assertLookupRow(key, value)
    const copy = Buffer.from(value)
    for (;;) {
      const other = this.#claims.get(key)
      if (other === undefined) break
      await other.ended
    }
    const ended = Promise.withResolvers<void>()
    const claim: Claim = { ended: ended.promise, disturbed: false }
    this.#claims.set(key, claim)
    try {
      return await this.#claimAlone(key, copy, claim)
    } finally {
      this.#claims.delete(key)
      ended.resolve()
    }
  }

  async #claimAlone(key: string, value: Uint8Array, claim: Claim): Promise<Uint8Array> {
    do {
      claim.disturbed = false
      await this.#writer.flushed()
      const there = claim.disturbed ? undefined : await this.get(key)
      if (there !== undefined && !claim.disturbed) return there
    } while (claim.disturbed)
    await this.#writer.write(lookupRows(key, value), ...kindNotes([key]))
    return Buffer.from(value)
  }

  async take(counter: string, count: number): Promise<number> {
    assertLookupKey(counter)
    assertCount(count)
    const key = keys.counter(counter)
    return this.#writer.inOrder(async (place) => {
      const { first, written } = await this.#counters.decide(counter, (cell) => {
        const first = cell.value
        const next = first + count
        const note = { subject: `c${counter}`, epoch: 0, number: next }
        return { first, written: cell.change(next, place.write(copiedNumberRows(key, next), note)) }
      })
      await written
      return first
    })
  }

  /** A counter whose last rows were lost continues behind the newest number that was seen. */
  async #loadCounter(
    counter: string,
    { suspicions, lostRanges }: { suspicions: Suspicions; lostRanges: LostRanges },
  ): Promise<number> {
    const key = keys.counter(counter)
    const stored = await copiedNumberAt(this.#rows, key)
    if (stored === undefined && lostRanges.has(key) && lostRanges.has(keys.copy(key)))
      throw new JournalFault('CORRUPT', `the counter ${counter} is lost, and its copy, too`)
    return Math.max(stored ?? 0, suspicions.newest(`c${counter}`)?.number ?? 0)
  }
}

interface Claim {
  readonly ended: Promise<void>
  /** A write of the key was queued since its last read. */
  disturbed: boolean
}

function slicesOf(changes: readonly LookupChange[]): (readonly LookupChange[])[] {
  const count = Math.ceil(changes.length / sliceChanges)
  return Array.from({ length: count }, (_, at) => changes.slice(at * sliceChanges, (at + 1) * sliceChanges))
}

function rowsOf(change: LookupChange): RowChange[] {
  return 'delete' in change ? removedLookupRows(change.delete) : lookupRows(change.put, change.value)
}
