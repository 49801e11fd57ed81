/**
 * Lookups in memory. On one medium with the journals, so that a test orders, loses and tears the
 * writes of both.
 */
import { assertChange, assertCount, assertLookupKey, assertLookupRow, assertPrefixes } from './bounds.ts'
import type { LookupChange, LookupRow, LookupStore, LookupWalk } from './lookup-store.ts'
import { MemoryMedium } from './memory-medium.ts'
import type { CounterEntry, LookupEntry } from './whole-store.ts'

export class MemoryLookupStore implements LookupStore, LookupWalk {
  readonly #medium: MemoryMedium
  readonly #rows = new Map<string, Uint8Array>()
  /** Write times of rows that were written with one, including deleted ones. */
  readonly #writeTimes = new Map<string, bigint>()
  readonly #counters = new Map<string, number>()

  /** @param medium shared with the journal store that belongs to it. */
  constructor(medium: MemoryMedium = new MemoryMedium()) {
    this.#medium = medium
  }

  async write(changes: readonly LookupChange[], writeTime?: bigint): Promise<void> {
    const copies = changes.map(copyOfChange)
    const [first] = copies
    if (first === undefined) return
    const target = 'put' in first ? first.put : first.delete
    await this.#medium.run(
      'lookup.write',
      target,
      (count) => this.#apply(copies.slice(0, count), writeTime),
      {
        writes: true,
      },
    )
  }

  #apply(changes: readonly LookupChange[], writeTime: bigint | undefined): void {
    for (const change of changes) {
      if (!this.#comesInTime('put' in change ? change.put : change.delete, writeTime)) continue
      if ('put' in change) this.#rows.set(change.put, change.value)
      else this.#rows.delete(change.delete)
    }
  }

  #comesInTime(key: string, writeTime: bigint | undefined): boolean {
    if (writeTime === undefined) return true
    if (writeTime < (this.#writeTimes.get(key) ?? 0n)) return false
    this.#writeTimes.set(key, writeTime)
    return true
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    assertLookupKey(key)
    return this.#medium.run('lookup.get', key, () => this.#copyOf(key), { writes: false })
  }

  async *scan(
    prefix: string,
    { after = '', limit = Number.POSITIVE_INFINITY }: { after?: string; limit?: number } = {},
  ): AsyncIterable<LookupRow> {
    const found = () =>
      [...this.#rows.keys()]
        .filter((key) => key.startsWith(prefix) && key > after)
        .sort()
        .slice(0, limit)
        .map((key) => ({ key, value: this.#copyOf(key) as Uint8Array }))
    yield* await this.#medium.run('lookup.scan', prefix, found, { writes: false })
  }

  async firstOf(prefixes: readonly string[]): Promise<(LookupRow | undefined)[]> {
    assertPrefixes(prefixes)
    return Promise.all(prefixes.map((prefix) => firstRow(this.scan(prefix, { limit: 1 }))))
  }

  async *walk(kind: string, { after = '' }: { after?: string } = {}) {
    for await (const { key } of this.scan(`${kind}/`, { after })) yield { key, place: key }
  }

  async claim(key: string, value: Uint8Array): Promise<Uint8Array> {
    assertLookupRow(key, value)
    const copy = Buffer.from(value)
    const claimed = () => {
      if (!this.#rows.has(key)) this.#rows.set(key, copy)
      return this.#copyOf(key) as Uint8Array
    }
    return this.#medium.run('lookup.claim', key, claimed, { writes: true })
  }

  async take(counter: string, count: number): Promise<number> {
    assertLookupKey(counter)
    assertCount(count)
    const taken = () => {
      const first = this.#counters.get(counter) ?? 0
      this.#counters.set(counter, first + count)
      return first
    }
    return this.#medium.run('lookup.take', counter, taken, { writes: true })
  }

  /** See `WholeStore`. */
  entries(): LookupEntry[] {
    return [...this.#rows].map(([key, value]) => ({ kind: 'lookup', key, value: Buffer.from(value) }))
  }

  /** See `WholeStore`. */
  counterEntries(): CounterEntry[] {
    return [...this.#counters].map(([counter, next]) => ({ kind: 'counter', counter, next }))
  }

  /** See `EntryWriter`. */
  putEntry(entry: LookupEntry | CounterEntry): void {
    if (entry.kind === 'lookup') this.#rows.set(entry.key, Buffer.from(entry.value))
    else this.#counters.set(entry.counter, Math.max(entry.next, this.#counters.get(entry.counter) ?? 0))
  }

  #copyOf(key: string): Uint8Array | undefined {
    const value = this.#rows.get(key)
    return value && Buffer.from(value)
  }
}

async function firstRow(rows: AsyncIterable<LookupRow>): Promise<LookupRow | undefined> {
  for await (const row of rows) return row
  return undefined
}

function copyOfChange(change: LookupChange): LookupChange {
  assertChange(change)
  return 'put' in change ? { put: change.put, value: Buffer.from(change.value) } : { delete: change.delete }
}
