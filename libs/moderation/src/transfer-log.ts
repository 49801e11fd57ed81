/**
 * Who uploaded what from where, and who downloaded it: rows that are kept for some days and then
 * removed, or not written at all.
 *
 * Keys are `<kind>s/<hour>/<id>`. Ids begin with the time counted backwards, so a scan of an hour
 * has the newest first, and a search goes hour by hour into the past.
 *
 * Rows gather for a second and are written together: a transfer never waits for its row, and a
 * crash loses the rows of the last second. About ten share a row of the store, under the id of the
 * oldest: a row of the store for each would take twice the CPU. A write whose outcome is unknown is
 * repeated, with later rows behind, and writes the same rows of the store again. A process writes a
 * bounded number of rows per hour, the last quarter of them for networks with few; further ones are
 * counted and not written.
 */
import { randomBytes } from 'node:crypto'
import { rangesOf } from '@holdfast/access'
import { type LookupChange, type LookupStore, maxLookupValueBytes, maxPrefixes } from '@holdfast/journal'
import { type Clock, hex, hourMs, type Timers } from '@holdfast/kernel'
import { newestFirst } from './newest-first.ts'

export const transferKinds = ['upload', 'download'] as const
export type TransferKind = (typeof transferKinds)[number]

export interface Transfer {
  kind: TransferKind
  /** The client's address. */
  address: string
  /** Whose content it is. */
  account: string
  content: string
  name: string
  size: number
  /** md5 and BLAKE3 of the bytes; undefined for an archive. */
  blob: Uint8Array | undefined
}

/** A transfer as hosts report it. */
export interface NotesTransfers {
  /** Never waits, never throws. */
  note(transfer: Transfer): void
}

export const nothingNoted: NotesTransfers = { note: () => {} }

export interface TransferRow {
  /** Unix seconds. */
  time: number
  address: string
  account: string
  content: string
  name: string
  size: number
  md5: string | null
  blake3: string | null
}

/** Each condition that is given must hold. */
export interface TransferQuestion {
  /** An address or a CIDR range. */
  address: string | undefined
  account: string | undefined
  content: string | undefined
  /** A part of the name, without case. */
  name: string | undefined
  /** An md5 or a BLAKE3 in lower case. */
  hash: string | undefined
}

export interface TransferPage {
  rows: TransferRow[]
  /** Where the search continues; undefined: it is complete. */
  next: string | undefined
}

export interface TransferLogOptions {
  lookups: LookupStore
  clock: Clock
  timers: Timers
  /** How long rows are kept; 0: none are written, and existing ones are removed. */
  days: Readonly<Record<TransferKind, number>>
  /** Rows of one kind that this process may write. */
  rowsPerHourMax: number
  /** The network of an address. Each network has a share of its own. */
  networkOf: (address: string) => string
  /** Rows are not removed while the clock is wrong. */
  isClockOff: () => boolean
  /** Rows could not be written or removed; they are tried again. */
  onFault: (error: unknown) => void
}

/** Rows of one hour and kind that are written as one. */
interface Pack {
  prefix: string
  /** The id of the oldest row. */
  id: string
  /**
   * JSON of each row, the oldest first. Rows as objects, a dozen each, would be promoted to the old
   * generation while they wait.
   */
  texts: string[]
  bytes: number
}

/** Where a search continues. */
interface SearchPosition {
  hour: number
  id: string
  /** In the pack of this id. */
  at: number
}

interface Counts {
  hour: number
  inHour: number
  /** Rows in this hour of each network. */
  ofNetworks: Map<string, number>
  written: number
  lost: number
}

const hoursPerDay = 24
const writeEveryMs = 1_000
const sweepEveryMs = hourMs
/** The last part of the rows of an hour is for networks with few rows: no network uses all. */
const reservedPart = 1 / 4
const rowsOfFewMax = 100
/** Rows of the store written or removed in one call. */
const rowsPerWrite = 500
const packsPerWrite = 50
/** They wait while the store does not accept them, some 500 bytes each. */
const waitingMax = 10_000
/** Old hours that the first sweep looks at, for when the service was off or kept more days. */
const firstSweepHours = 400 * hoursPerDay
const sweepHours = 2 * hoursPerDay
/** Rows read by one search call; the next call continues. */
const scannedMax = 20_000
const transfersPerPage = 100
/** Longer than any name of the contract in code units of plain text. */
const nameUnitsMax = 255

export class TransferLog implements NotesTransfers {
  readonly #options: TransferLogOptions
  readonly #timers: Timers
  readonly #counts: Record<TransferKind, Counts>
  /** The oldest first. */
  readonly #waiting: Pack[] = []
  #waitingRows = 0
  /** Those that take more rows, by their prefix. */
  readonly #open = new Map<string, Pack>()
  /** Rows of several processes, written in the same millisecond, have different keys. */
  readonly #own = hex(randomBytes(6))
  readonly #cancels = new Map<string, () => void>()
  /** Packs since the start: those of one millisecond have different ids. */
  #packs = 0
  #work: Promise<unknown> = Promise.resolve()
  #sweptOnce = false
  #closed = false

  constructor(options: TransferLogOptions) {
    this.#options = options
    this.#timers = options.timers
    const none = (): Counts => ({ hour: 0, inHour: 0, ofNetworks: new Map(), written: 0, lost: 0 })
    this.#counts = { upload: none(), download: none() }
  }

  /** Begins to remove old rows. */
  start(): void {
    this.#every('sweep', sweepEveryMs, () => this.sweep())
  }

  note({ kind, blob, address, account, content, name, size }: Transfer): void {
    const { days, clock, rowsPerHourMax, networkOf } = this.#options
    if (days[kind] === 0 || this.#closed) return
    const nowMs = clock.now()
    const counts = this.#counts[kind]
    const hour = Math.floor(nowMs / hourMs)
    if (counts.hour !== hour) Object.assign(counts, { hour, inHour: 0, ofNetworks: new Map() })
    const network = networkOf(address)
    const ofNetwork = counts.ofNetworks.get(network) ?? 0
    const isScarce = counts.inHour >= rowsPerHourMax * (1 - reservedPart)
    const isFull = counts.inHour >= rowsPerHourMax || this.#waitingRows >= waitingMax
    if (isFull || (isScarce && ofNetwork >= rowsOfFewMax)) {
      counts.lost++
      return
    }
    counts.inHour++
    counts.ofNetworks.set(network, ofNetwork + 1)
    counts.written++
    const row: TransferRow = {
      time: Math.floor(nowMs / 1000),
      address,
      account,
      content,
      name: name.slice(0, nameUnitsMax),
      size,
      md5: blob === undefined ? null : hex(blob.subarray(0, 16)),
      blake3: blob === undefined ? null : hex(blob.subarray(16)),
    }
    this.#pack(prefixOf(kind, hour), JSON.stringify(row), nowMs)
    if (!this.#cancels.has('write')) this.#after('write', writeEveryMs, () => this.flush())
  }

  #pack(prefix: string, text: string, nowMs: number): void {
    const bytes = Buffer.byteLength(text) + 1
    let pack = this.#open.get(prefix)
    if (pack === undefined || pack.bytes + bytes > maxLookupValueBytes) {
      const id = `${newestFirst(nowMs)}-${this.#own}${(++this.#packs).toString(36)}`
      pack = { prefix, id, texts: [], bytes: 1 }
      this.#waiting.push(pack)
      this.#open.set(prefix, pack)
    }
    pack.texts.push(text)
    pack.bytes += bytes
    this.#waitingRows++
  }

  /** Rows written and lost since the start. */
  counts(kind: TransferKind): { written: number; lost: number } {
    const { written, lost } = this.#counts[kind]
    return { written, lost }
  }

  /**
   * Writes the rows that wait when it begins; rows that could not be written wait again. Rows that
   * arrive during the write wait for the next second: under load each would need its own sync.
   */
  flush(): Promise<void> {
    return this.#inTurn(async () => {
      // A pack that is being written is complete: a retry writes the same rows of the store.
      this.#open.clear()
      for (let left = this.#waiting.length; left > 0; left -= packsPerWrite) {
        const packs = this.#waiting.slice(0, Math.min(left, packsPerWrite))
        await this.#options.lookups.write(packs.map(changeOf))
        this.#waiting.splice(0, packs.length)
        for (const { texts } of packs) this.#waitingRows -= texts.length
      }
    })
  }

  /**
   * The newest first. A page may be empty and still have a next one: a call reads some 20,000 rows.
   * @param after the `next` of the previous page.
   * @throws what the lookups throw.
   */
  async find(
    kind: TransferKind,
    question: TransferQuestion,
    { after, limit = transfersPerPage }: { after?: string | undefined; limit?: number } = {},
  ): Promise<TransferPage> {
    await this.flush()
    const fits = matcherOf(question)
    const newest = Math.floor(this.#options.clock.now() / hourMs) + 1
    const oldest = newest - (this.#options.days[kind] + 1) * hoursPerDay
    const place = placeOf(after)
    const rows: TransferRow[] = []
    let scanned = 0
    for (let hour = Math.min(place?.hour ?? newest, newest); hour >= oldest; hour--) {
      const prefix = prefixOf(kind, hour)
      const from = place?.hour === hour ? place : undefined
      for await (const { id, at, row } of this.#rowsOf(prefix, from)) {
        if (fits(row)) rows.push(row)
        scanned++
        if (rows.length < limit && scanned < scannedMax) continue
        return { rows, next: `${hour}/${id}/${at + 1}` }
      }
    }
    return { rows, next: undefined }
  }

  /** The rows of an hour, or those from a place in it on. */
  async *#rowsOf(prefix: string, from: SearchPosition | undefined) {
    const { lookups } = this.#options
    const first = from === undefined ? undefined : await lookups.get(prefix + from.id)
    if (from !== undefined && first !== undefined) yield* unpackRows(from.id, first, from.at)
    const after = from === undefined ? {} : { after: prefix + from.id }
    for await (const { key, value } of lookups.scan(prefix, after))
      yield* unpackRows(key.slice(prefix.length), value)
  }

  /** Removes rows past their retention. */
  sweep(): Promise<void> {
    return this.#inTurn(async () => {
      const { clock, days, isClockOff } = this.#options
      if (isClockOff()) return
      const now = Math.floor(clock.now() / hourMs)
      for (const kind of transferKinds) {
        const last = days[kind] === 0 ? now : now - days[kind] * hoursPerDay - 1
        const count = this.#sweptOnce ? sweepHours : firstSweepHours
        await this.#removeHours(kind, last, count)
      }
      this.#sweptOnce = true
    })
  }

  /** Writes the waiting rows, if the store accepts them. */
  async close(): Promise<void> {
    this.#closed = true
    for (const cancel of this.#cancels.values()) cancel()
    await this.flush()
  }

  async #removeHours(kind: TransferKind, last: number, count: number): Promise<void> {
    const { lookups } = this.#options
    for (let from = last; from > last - count; from -= maxPrefixes) {
      const length = Math.min(maxPrefixes, from - last + count)
      const prefixes = Array.from({ length }, (_, at) => prefixOf(kind, from - at))
      const firsts = await lookups.firstOf(prefixes)
      for (const [at, first] of firsts.entries())
        if (first !== undefined) await this.#removeHour(prefixes[at] as string)
    }
  }

  async #removeHour(prefix: string): Promise<void> {
    const { lookups } = this.#options
    for (;;) {
      const changes: LookupChange[] = []
      for await (const { key } of lookups.scan(prefix, { limit: rowsPerWrite })) changes.push({ delete: key })
      if (changes.length === 0) return
      await lookups.write(changes)
    }
  }

  #every(name: string, ms: number, work: () => Promise<void>): void {
    const run = async () => {
      await work()
      if (!this.#closed) this.#after(name, ms, run)
    }
    void run()
  }

  #after(name: string, ms: number, work: () => Promise<void>): void {
    const cancel = this.#timers.after(ms, () => {
      this.#cancels.delete(name)
      void work().then(() => {
        if (name === 'write' && this.#waiting.length > 0 && !this.#closed && !this.#cancels.has(name))
          this.#after(name, ms, work)
      })
    })
    this.#cancels.set(name, cancel)
  }

  /** One write or sweep after the other. A fault is reported and ends nothing. */
  #inTurn(work: () => Promise<void>): Promise<void> {
    const turn = this.#work.then(work).catch((error: unknown) => this.#options.onFault(error))
    this.#work = turn
    return turn
  }
}

function prefixOf(kind: TransferKind, hour: number): string {
  return `${kind}s/${String(hour).padStart(8, '0')}/`
}

/** The newest first. */
function changeOf({ prefix, id, texts }: Pack): LookupChange {
  return { put: prefix + id, value: Buffer.from(`[${texts.toReversed().join(',')}]`) }
}

/** Earlier releases wrote a row of the store for each. */
function* unpackRows(
  id: string,
  value: Uint8Array,
  from = 0,
): Generator<{ id: string; at: number; row: TransferRow }> {
  const rows = [JSON.parse(Buffer.from(value).toString()) as TransferRow | TransferRow[]].flat()
  for (let at = from; at < rows.length; at++) yield { id, at, row: rows[at] as TransferRow }
}

function placeOf(after: string | undefined): SearchPosition | undefined {
  const [, hour, id, at] = /^(\d{1,8})\/([\w-]{1,40})\/(\d{1,4})$/.exec(after ?? '') ?? []
  if (hour === undefined || id === undefined) return undefined
  return { hour: Number(hour), id, at: Number(at) }
}

function matcherOf({ address, account, content, name, hash }: TransferQuestion) {
  const range = address === undefined ? undefined : rangesOf([address])
  const part = name?.normalize('NFC').toLowerCase()
  return (row: TransferRow): boolean =>
    (account === undefined || row.account === account) &&
    (content === undefined || row.content === content) &&
    (hash === undefined || row.md5 === hash || row.blake3 === hash) &&
    (range === undefined || range.has(row.address)) &&
    (part === undefined || row.name.normalize('NFC').toLowerCase().includes(part))
}
