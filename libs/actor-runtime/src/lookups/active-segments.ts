/**
 * Where the active rows of a host are: `active/<home>/<host>/<segment>/<account>`. An account has
 * one while effects of its changes may be pending. They are not read while their host lives; when
 * it is gone, the others find its unfinished work by them.
 *
 * Each activation that changes something puts a row and deletes it again, so a shared place fills
 * up with deleted rows until it cannot be read any more. Therefore a host moves to the next segment
 * after some hundred rows, and rows that stay longer than some segments move along. So a reader
 * meets a bounded number, however many activations there were.
 *
 * The row `hosts/<home>/<host>` has the segments that may hold rows. It is durable before the first
 * row of a segment is put. A host that starts again finds its own row and continues after its last
 * segment. A host without a row begins with the milliseconds of its clock, which is higher than
 * every segment that it ever had.
 *
 * Hosts that never return: when one does not answer and none of its rows is left, another marks its
 * row with the time, and removes it when the mark is a week old. A living host reads its own row
 * each minute. After a longer break it reads it before it puts a row of an account, and before it
 * relies on one. If its own row is marked or gone, the host writes it again. So each write of such
 * a row has the time of its segment; marks and removals have times between that and the time of the
 * next segment.
 *
 * If the host's row was not marked when the host read it, a removal comes a week later at the
 * earliest. Before that the segments are read, and the account's row is found. So no account relies
 * on an active row whose host has no row.
 */
import { JournalFault, type LookupStore } from '@holdfast/journal'
import type { Clock } from '@holdfast/kernel'
import { activeSegmentPrefix, hostKey, hostsPrefix } from './lookup-rows.ts'

export interface SegmentRange {
  from: number
  to: number
}

/** The content of a host's row. */
interface SegmentRecord extends SegmentRange {
  /** Unix seconds of when it did not answer and had no rows left. */
  gone: number | undefined
}

/** Write times of a row by its last segment: the host's own, a mark of others, its removal. */
const writeTimesPerSegment = 3n
const [ownWrite, markWrite, removal] = [0n, 1n, 2n]
/** How often the segments of an earlier life are read: its last writes may arrive late. */
const pastLooks = 4
/** How many segments a host skips when its row lost against a removal: its clock was behind. */
const firstLeap = 86_400_000
const leapsMax = 12

/** Segments that one read covers. */
const segmentsPerRead = 100

interface HomeSegments {
  /** Segments of an earlier life of this host, until all rows in them are cleared. */
  past: SegmentRange | undefined
  /** How many reads found nothing in them. */
  pastLooks: number
  /** A row existed when this life began, or this life's row was read. */
  isKnown: boolean
  /** Wall clock and monotonic clock when the row was last seen or written. */
  seen: { wallMs: number; monotonicMs: number }
  current: number
  /** Number put into the current one. */
  rows: number
  /** Existing rows, by segment. */
  live: Map<number, number>
  noted: Promise<void> | undefined
}

export interface SegmentBounds {
  rowsPerSegment: number
  segmentsBack: number
  /** How long the row of a host that is gone stays. */
  goneSeconds: number
  /** After a longer break a host looks at its own row before it relies on it. */
  trustMs: number
}

export class ActiveSegments {
  readonly #lookups: LookupStore
  readonly #hostId: string
  readonly #clock: Clock
  readonly #bounds: SegmentBounds
  readonly #homes = new Map<string, Promise<HomeSegments>>()
  readonly #known = new Map<string, HomeSegments>()

  constructor(
    lookups: LookupStore,
    { hostId, clock, ...bounds }: { hostId: string; clock: Clock } & SegmentBounds,
  ) {
    this.#lookups = lookups
    this.#hostId = hostId
    this.#clock = clock
    this.#bounds = bounds
  }

  /** A place for one row. @throws what the lookups throw: there is none. */
  async take(home: string): Promise<number> {
    const segments = await this.#open(home)
    await this.confirmAfterBreak(home)
    if (segments.rows >= this.#bounds.rowsPerSegment) nextSegment(segments)
    segments.rows++
    const segment = segments.current
    segments.live.set(segment, (segments.live.get(segment) ?? 0) + 1)
    try {
      await this.#noted(home, segments)
    } catch (error) {
      this.left(home, segment)
      throw error
    }
    return segment
  }

  /**
   * Looks whether this host's row is there, and writes it again if others have marked or removed
   * it. After the first time no row of an account need wait for that.
   */
  async confirm(home: string): Promise<void> {
    const segments = await this.#open(home)
    await this.#noted(home, segments)
    const { current } = segments
    const value = await this.#lookups.get(hostKey(home, this.#hostId))
    // A newer segment was noted meanwhile.
    if (segments.current !== current) return
    const row = value && notedOf(value)
    if (row === undefined || row.gone !== undefined || row.to < current) {
      nextSegment(segments)
      await this.#noted(home, segments)
    }
    segments.seen = this.#moment()
  }

  /** Call it when a row of an account is durable, before it is relied on: its put may be slow. */
  async confirmAfterBreak(home: string): Promise<void> {
    if (this.#isDoubtful(await this.#open(home))) await this.confirm(home)
  }

  #isDoubtful({ noted, seen }: HomeSegments): boolean {
    const { trustMs } = this.#bounds
    const now = this.#moment()
    const elapsedMs = Math.max(now.wallMs - seen.wallMs, now.monotonicMs - seen.monotonicMs)
    return noted !== undefined && elapsedMs > trustMs
  }

  #moment(): HomeSegments['seen'] {
    return { wallMs: this.#clock.now(), monotonicMs: this.#clock.monotonic() }
  }

  async #noted(home: string, segments: HomeSegments): Promise<void> {
    const noted = segments.noted ?? this.#note(home, segments)
    segments.noted = noted
    try {
      await noted
    } catch (error) {
      if (segments.noted === noted) segments.noted = undefined
      throw error
    }
  }

  /** A row there should move along. */
  isOld(home: string, segment: number): boolean {
    const segments = this.#known.get(home)
    return segments !== undefined && segment < segments.current - this.#bounds.segmentsBack
  }

  /** A row is gone. */
  left(home: string, segment: number): void {
    const live = this.#known.get(home)?.live
    const count = live?.get(segment) ?? 0
    if (count > 1) live?.set(segment, count - 1)
    else live?.delete(segment)
  }

  /** Segments of an earlier life of this host that may hold rows. */
  async past(home: string): Promise<SegmentRange | undefined> {
    return (await this.#open(home)).past
  }

  /** Segments that may hold rows of this life. */
  async own(home: string): Promise<SegmentRange> {
    const { current, live } = await this.#open(home)
    return { from: Math.min(current, ...live.keys()), to: current }
  }

  /** All rows of the earlier life that could be found are cleared. */
  pastCleared(home: string): void {
    const segments = this.#known.get(home)
    if (segments !== undefined && ++segments.pastLooks >= pastLooks) segments.past = undefined
  }

  /**
   * Marks the row of a host that is gone, or removes it when its mark is old enough. To be called
   * repeatedly, with a clock that is not far off. Nothing happens while the host has rows left.
   */
  async prune(home: string, { host, range }: { host: string; range: SegmentRecord }): Promise<void> {
    for await (const _ of this.rowsIn({ home, host, range })) return
    const { from, to, gone } = range
    const nowSeconds = Math.floor(this.#clock.now() / 1000)
    const key = hostKey(home, host)
    if (gone === undefined) {
      const value = Buffer.from(JSON.stringify({ from, to, gone: nowSeconds } satisfies SegmentRecord))
      await this.#lookups.write([{ put: key, value }], writeTimeOf(to, markWrite))
    } else if (nowSeconds - gone > this.#bounds.goneSeconds)
      await this.#lookups.write([{ delete: key }], writeTimeOf(to, removal))
  }

  /** Other hosts that may have rows. */
  async *others(home: string): AsyncIterable<{ host: string; range: SegmentRecord }> {
    const prefix = hostsPrefix(home)
    for await (const { key, value } of this.#lookups.scan(prefix)) {
      const host = key.slice(prefix.length)
      if (host !== this.#hostId) yield { host, range: notedOf(value) }
    }
  }

  /** The rows of a host in these segments. Empty segments cost little. */
  async *rowsIn({ home, host = this.#hostId, range }: { home: string; host?: string; range: SegmentRange }) {
    for (let first = range.from; first <= range.to; first += segmentsPerRead) {
      const count = Math.min(segmentsPerRead, range.to - first + 1)
      const prefixes = Array.from({ length: count }, (_, at) =>
        activeSegmentPrefix({ home, host, segment: first + at }),
      )
      const found = await this.#lookups.firstOf(prefixes)
      for (const [at, prefix] of prefixes.entries()) {
        if (found[at] === undefined) continue
        for await (const { key } of this.#lookups.scan(prefix))
          yield { key, account: key.slice(prefix.length) }
      }
    }
  }

  #open(home: string): Promise<HomeSegments> {
    const known = this.#homes.get(home)
    if (known !== undefined) return known
    const opening = this.#read(home)
    this.#homes.set(home, opening)
    opening.catch(() => this.#homes.delete(home))
    return opening
  }

  async #read(home: string): Promise<HomeSegments> {
    const value = await this.#lookups.get(hostKey(home, this.#hostId))
    const past = value && notedOf(value)
    const segments: HomeSegments = {
      past,
      pastLooks: 0,
      isKnown: past !== undefined,
      seen: this.#moment(),
      current: past === undefined ? this.#clock.now() : past.to + 1,
      rows: 0,
      live: new Map(),
      noted: undefined,
    }
    this.#known.set(home, segments)
    return segments
  }

  /**
   * Ordered by the segment, independent of clocks: only this host notes segments, and they only
   * rise.
   */
  async #note(home: string, segments: HomeSegments): Promise<void> {
    await this.#write(home, segments)
    for (let leap = 0; !segments.isKnown; leap++) {
      const value = await this.#lookups.get(hostKey(home, this.#hostId))
      segments.isKnown = value !== undefined && notedOf(value).to >= segments.current
      if (segments.isKnown) break
      if (leap === leapsMax)
        throw new JournalFault('UNAVAILABLE', `the segments of ${this.#hostId} cannot be noted`)
      segments.current += firstLeap * 2 ** leap
      await this.#write(home, segments)
    }
    segments.seen = this.#moment()
  }

  async #write(home: string, { past, current, live }: HomeSegments): Promise<void> {
    const from = Math.min(current, past?.from ?? current, ...live.keys())
    const value = Buffer.from(JSON.stringify({ from, to: current } satisfies SegmentRange))
    await this.#lookups.write([{ put: hostKey(home, this.#hostId), value }], writeTimeOf(current, ownWrite))
  }
}

function nextSegment(segments: HomeSegments): void {
  segments.current++
  segments.rows = 0
  segments.noted = undefined
}

function writeTimeOf(segment: number, which: bigint): bigint {
  return BigInt(segment) * writeTimesPerSegment + which
}

function notedOf(value: Uint8Array): SegmentRecord {
  return JSON.parse(Buffer.from(value).toString()) as SegmentRecord
}
