/**
 * Lookups in Cassandra.
 *
 * A row's partition holds what is scanned together: rows of three segments and more are with those
 * that share the first two (references of one copy: the first three; active rows of one segment and
 * wake rows of one hour: the first four), everything else alone.
 *
 * Claimed kinds are always written by lightweight transactions: mixed with plain writes they would
 * use two clocks and lose updates.
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
  lookupKindOf,
} from '@holdfast/journal'
import type { CassandraConnection, CassandraRow } from './connection.ts'
import { wholeRing } from './ring.ts'

/** Segments of the key that name the partition. */
const segmentsByKind: Readonly<Record<string, number>> = { ref: 3, active: 4, wake: 4 }
/** Attempts on a contended counter or claimed row before the store counts as unavailable. */
const attemptsMax = 64
/** Concurrent statements of one call. */
const writesAtOnce = 64
/** Bytes of one batch. Cassandra warns of larger ones, and of those with more partitions. */
const batchBytesMax = 4_000
const batchPartsMax = 10
const rowsPerPage = 500
/**
 * Partitions of which one statement reads the first row. Its coordinator asks for all of them at
 * once.
 */
const partsPerRead = 100
/** Such statements at once for one call. */
const readsAtOnce = 4
/** Rows of one step of a full walk: keys without values. */
const rowsPerStep = 2_000

export class CassandraLookupStore implements LookupStore, LookupWalk {
  readonly #connection: CassandraConnection
  readonly #claimed: ReadonlySet<string>

  /** @param claimed first segments of keys that are ever claimed. */
  constructor(connection: CassandraConnection, claimed: readonly string[]) {
    this.#connection = connection
    this.#claimed = new Set(claimed)
  }

  async write(changes: readonly LookupChange[], writeTime?: bigint): Promise<void> {
    // The last change of a key counts; they run in parallel.
    const last = new Map(changes.map((change) => [lookupKeyOf(change), copyOf(change)]))
    const { claimed = [], plain = [] } = Object.groupBy(last.values(), (change) =>
      this.#claimed.has(lookupKindOf(lookupKeyOf(change))) ? 'claimed' : 'plain',
    )
    const writes = [
      ...claimed.map((change) => () => this.#changeClaimed(change)),
      ...batchesOf(plain).map((batch) => () => this.#writeBatch(batch, writeTime)),
    ]
    for (let at = 0; at < writes.length; at += writesAtOnce)
      await Promise.all(writes.slice(at, at + writesAtOnce).map((write) => write()))
  }

  #changeClaimed(change: LookupChange): Promise<unknown> {
    return 'put' in change ? this.#replace(change.put, change.value) : this.#remove(change.delete)
  }

  /** The write time replaces Cassandra's own timestamp, the writer's clock. */
  #writeBatch(changes: readonly LookupChange[], writeTime: bigint | undefined): Promise<void> {
    const at = writeTime === undefined ? [] : [writeTime]
    const using = writeTime === undefined ? '' : ' USING TIMESTAMP ?'
    const insert = `INSERT INTO lookups (part, key, value) VALUES (?, ?, ?)${using}`
    const remove = `DELETE FROM lookups${using} WHERE part = ? AND key = ?`
    return this.#connection.batch(
      changes.map((change) => {
        const place = [partOf(lookupKeyOf(change)), lookupKeyOf(change)]
        return 'put' in change
          ? { query: insert, params: [...place, change.value, ...at] }
          : { query: remove, params: [...at, ...place] }
      }),
    )
  }

  async #replace(key: string, value: Uint8Array): Promise<void> {
    for (let attempt = 0; attempt < attemptsMax; attempt++) {
      if ((await this.#insert(key, value)) === undefined) return
      const query = 'UPDATE lookups SET value = ? WHERE part = ? AND key = ? IF EXISTS'
      const refused = await this.#connection.conditional([{ query, params: [value, partOf(key), key] }])
      if (refused === undefined) return
    }
    throw new JournalFault('UNAVAILABLE', `${key}: ${attemptsMax} attempts lost against others`)
  }

  #remove(key: string): Promise<unknown> {
    const query = 'DELETE FROM lookups WHERE part = ? AND key = ? IF EXISTS'
    return this.#connection.conditional([{ query, params: [partOf(key), key] }])
  }

  #insert(key: string, value: Uint8Array): Promise<CassandraRow | undefined> {
    const query = 'INSERT INTO lookups (part, key, value) VALUES (?, ?, ?) IF NOT EXISTS'
    return this.#connection.conditional([{ query, params: [partOf(key), key, value] }])
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    assertLookupKey(key)
    const query = 'SELECT value FROM lookups WHERE part = ? AND key = ?'
    const params = [partOf(key), key]
    const [row] = this.#claimed.has(lookupKindOf(key))
      ? await this.#connection.serialRead(query, params)
      : await this.#connection.run(query, params)
    return (row?.value as Buffer | null | undefined) ?? undefined
  }

  async *scan(
    prefix: string,
    { after = '', limit = Number.POSITIVE_INFINITY }: { after?: string; limit?: number } = {},
  ): AsyncIterable<LookupRow> {
    const part = onlyPartOf(prefix)
    if (limit === 0) return
    let count = 0
    for await (const row of this.#part(part, prefix, after)) {
      yield row
      if (++count === limit) return
    }
  }

  async *#part(part: string, prefix: string, after: string): AsyncIterable<LookupRow> {
    const query = 'SELECT key, value FROM lookups WHERE part = ? AND key >= ? AND key < ?'
    const from = after > prefix ? after : prefix
    for await (const row of this.#connection.pages(query, [part, from, `${prefix}\x7f`], rowsPerPage))
      if (row.key !== after) yield { key: row.key as string, value: row.value as Buffer }
  }

  /** One statement for a hundred partitions. */
  async firstOf(prefixes: readonly string[]): Promise<(LookupRow | undefined)[]> {
    assertPrefixes(prefixes)
    const parts = [...new Set(prefixes.map((prefix) => onlyPartOf(prefix)))]
    const found = new Map<string, LookupRow>()
    const reads: string[][] = []
    for (let at = 0; at < parts.length; at += partsPerRead) reads.push(parts.slice(at, at + partsPerRead))
    for (let at = 0; at < reads.length; at += readsAtOnce)
      await Promise.all(reads.slice(at, at + readsAtOnce).map((some) => this.#firstRows(some, found)))
    return Promise.all(
      prefixes.map(async (prefix) => {
        const row = found.get(onlyPartOf(prefix))
        if (row === undefined || row.key.startsWith(prefix)) return row
        for await (const own of this.scan(prefix, { limit: 1 })) return own
        return undefined
      }),
    )
  }

  async #firstRows(parts: readonly string[], found: Map<string, LookupRow>): Promise<void> {
    const query = 'SELECT part, key, value FROM lookups WHERE part IN ? PER PARTITION LIMIT 1'
    for (const { part, key, value } of await this.#connection.run(query, [parts]))
      found.set(part as string, { key: key as string, value: value as Buffer })
  }

  async *walk(kind: string, { after }: { after?: string } = {}) {
    const rows = wholeRing(this.#connection, {
      columns: 'key',
      table: 'lookups',
      partition: 'part',
      rowsPerPage: rowsPerStep,
      ...(after === undefined ? {} : { after }),
    })
    for await (const { row, place } of rows) {
      const key = row.key as string
      if (lookupKindOf(key) === kind) yield { key, place }
    }
  }

  async claim(key: string, value: Uint8Array): Promise<Uint8Array> {
    assertLookupRow(key, value)
    const copy = Buffer.from(value)
    const refused = await this.#insert(key, copy)
    return refused === undefined ? copy : (refused.value as Buffer)
  }

  async take(counter: string, count: number): Promise<number> {
    assertLookupKey(counter)
    assertCount(count)
    for (let attempt = 0; attempt < attemptsMax; attempt++) {
      const [row] = await this.#connection.serialRead('SELECT next FROM counters WHERE name = ?', [counter])
      const first = Number(row?.next ?? 0)
      const refused = await this.#connection.conditional([
        row === undefined
          ? {
              query: 'INSERT INTO counters (name, next) VALUES (?, ?) IF NOT EXISTS',
              params: [counter, BigInt(count)],
            }
          : {
              query: 'UPDATE counters SET next = ? WHERE name = ? IF next = ?',
              params: [BigInt(first + count), counter, BigInt(first)],
            },
      ])
      if (refused === undefined) return first
    }
    throw new JournalFault(
      'UNAVAILABLE',
      `counter ${counter}: ${attemptsMax} attempts lost against other takers`,
    )
  }
}

function copyOf(change: LookupChange): LookupChange {
  assertChange(change)
  return 'put' in change ? { put: change.put, value: Buffer.from(change.value) } : change
}

/**
 * Rows of one partition are sent together, as many as fit; the rest are rows of a few partitions
 * each.
 */
function batchesOf(changes: readonly LookupChange[]): LookupChange[][] {
  const batches: LookupChange[][] = []
  let batch: LookupChange[] = []
  let bytes = 0
  let parts = 0
  for (const part of Map.groupBy(changes, (change) => partOf(lookupKeyOf(change))).values()) {
    let isNewPart = true
    for (const change of part) {
      const more = 2 * lookupKeyOf(change).length + ('put' in change ? change.value.length : 0)
      if (batch.length > 0 && (bytes + more > batchBytesMax || (isNewPart && parts === batchPartsMax))) {
        batches.push(batch)
        batch = []
        bytes = 0
        parts = 0
        isNewPart = true
      }
      batch.push(change)
      bytes += more
      if (isNewPart) parts++
      isNewPart = false
    }
  }
  if (batch.length > 0) batches.push(batch)
  return batches
}

/** The partition of a row. Rows were written to it: another one would not find them. */
export function partOf(key: string): string {
  const segments = key.split('/')
  const [kind = ''] = segments
  const shared = segmentsOf(kind)
  return segments.length > shared ? segments.slice(0, shared).join('/') : key
}

/** The partition that holds the keys of this prefix. */
function onlyPartOf(prefix: string): string {
  const segments = prefix.split('/')
  const shared = segmentsOf(segments[0] ?? '')
  if (segments.length <= shared)
    throw new RangeError(`rows of ${prefix} are not kept together and cannot be scanned`)
  return segments.slice(0, shared).join('/')
}

function segmentsOf(kind: string): number {
  return segmentsByKind[kind] ?? 2
}
