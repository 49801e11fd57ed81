/**
 * Where the active rows of a host are: `active/<home>/<host>/<slot>/<account>`. An account has one
 * while effects of its changes may be pending. They are not read while their host lives; when it is
 * gone, the others find its unfinished work by them.
 *
 * Each activation that changes something puts a row and deletes it again, so a shared place fills
 * up with deleted rows until it cannot be read any more. Therefore a host moves to the next slot
 * after some hundred rows, and rows that stay longer than some slots move along. So a reader meets
 * a bounded number, however many activations there were.
 *
 * The row `hosts/<home>/<host>` has the slots that may hold rows. It is durable before the first
 * row of a slot is put. A host that starts again finds its own row and continues after its last
 * slot. A host without a row begins with the milliseconds of its clock, which is higher than every
 * slot that it ever had.
 *
 * Hosts that never return: when one does not answer and none of its rows is left, another marks its
 * row with the time, and removes it when the mark is a week old. A host that lives looks at its own
 * row each minute, and after a longer break before it puts a row and before it relies on one that
 * it has put: one that is marked or gone is written again. So each write of such a row has the time
 * of its slot; marks and removals have times between that and the time of the next slot.
 *
 * If the host's row was not marked when it looked, a removal comes a week later at the earliest,
 * after a look at the slots that meets the account's row. So no account relies on an active row
 * whose host has no row.
 */
import { JournalFault, type LookupStore } from '@holdfast/journal'
import type { Clock } from '@holdfast/kernel'
import { activeSlotPrefix, hostKey, hostsPrefix } from './lookup-rows.ts'

export interface SlotRange {
  from: number
  to: number
}

/** The content of a host's row. */
interface Noted extends SlotRange {
  /** Unix seconds of when it did not answer and had no rows left. */
  gone?: number
}

/** Write times of a row by its last slot: the host's own, a mark of others, its removal. */
const writeTimesPerSlot = 3n
const [ownWrite, markWrite, removal] = [0n, 1n, 2n]
/** How often the slots of an earlier life are read: its last writes may arrive late. */
const pastLooks = 4
/** How many slots a host skips when its row lost against a removal: its clock was behind. */
const firstLeap = 86_400_000
const leapsMax = 12

/** Slots that one read covers. */
const slotsPerRead = 100

interface HomeSlots {
  /** Of an earlier life of this host, until all rows in them are cleared. */
  past: SlotRange | undefined
  /** How many reads found nothing in them. */
  pastLooks: number
  /** A row existed when this life began, or this life's row was read. */
  isKnown: boolean
  /** Wall clock and monotonic clock when the row was last seen or written. */
  seen: { wallMs: number; monotonicMs: number }
  current: number
  /** Number put into the current one. */
  rows: number
  /** Existing rows, by slot. */
  live: Map<number, number>
  noted: Promise<void> | undefined
}

export interface SlotBounds {
  rowsPerSlot: number
  slotsBack: number
  /** How long the row of a host that is gone stays. */
  goneSeconds: number
  /** After a longer break a host looks at its own row before it relies on it. */
  trustMs: number
}

export class ActiveSlots {
  readonly #lookups: LookupStore
  readonly #hostId: string
  readonly #clock: Clock
  readonly #bounds: SlotBounds
  readonly #homes = new Map<string, Promise<HomeSlots>>()
  readonly #known = new Map<string, HomeSlots>()

  constructor(
    lookups: LookupStore,
    { hostId, clock, ...bounds }: { hostId: string; clock: Clock } & SlotBounds,
  ) {
    this.#lookups = lookups
    this.#hostId = hostId
    this.#clock = clock
    this.#bounds = bounds
  }

  /** A place for one row. @throws what the lookups throw: there is none. */
  async take(home: string): Promise<number> {
    const slots = await this.#open(home)
    await this.confirmAfterBreak(home)
    if (slots.rows >= this.#bounds.rowsPerSlot) nextSlot(slots)
    slots.rows++
    const slot = slots.current
    slots.live.set(slot, (slots.live.get(slot) ?? 0) + 1)
    try {
      await this.#noted(home, slots)
    } catch (error) {
      this.left(home, slot)
      throw error
    }
    return slot
  }

  /**
   * Looks whether this host's row is there, and writes it again if others have marked or removed
   * it. After the first time no row of an account need wait for that.
   */
  async confirm(home: string): Promise<void> {
    const slots = await this.#open(home)
    await this.#noted(home, slots)
    const { current } = slots
    const value = await this.#lookups.get(hostKey(home, this.#hostId))
    // A newer slot was noted meanwhile.
    if (slots.current !== current) return
    const row = value && notedOf(value)
    if (row === undefined || row.gone !== undefined || row.to < current) {
      nextSlot(slots)
      await this.#noted(home, slots)
    }
    slots.seen = this.#moment()
  }

  /** Call it when a row of an account is durable, before it is relied on: its put may be slow. */
  async confirmAfterBreak(home: string): Promise<void> {
    if (this.#isDoubtful(await this.#open(home))) await this.confirm(home)
  }

  #isDoubtful({ noted, seen }: HomeSlots): boolean {
    const { trustMs } = this.#bounds
    const now = this.#moment()
    const elapsedMs = Math.max(now.wallMs - seen.wallMs, now.monotonicMs - seen.monotonicMs)
    return noted !== undefined && elapsedMs > trustMs
  }

  #moment(): HomeSlots['seen'] {
    return { wallMs: this.#clock.now(), monotonicMs: this.#clock.monotonic() }
  }

  async #noted(home: string, slots: HomeSlots): Promise<void> {
    const noted = slots.noted ?? this.#note(home, slots)
    slots.noted = noted
    try {
      await noted
    } catch (error) {
      if (slots.noted === noted) slots.noted = undefined
      throw error
    }
  }

  /** A row there should move along. */
  isOld(home: string, slot: number): boolean {
    const slots = this.#known.get(home)
    return slots !== undefined && slot < slots.current - this.#bounds.slotsBack
  }

  /** A row is gone. */
  left(home: string, slot: number): void {
    const live = this.#known.get(home)?.live
    const count = live?.get(slot) ?? 0
    if (count > 1) live?.set(slot, count - 1)
    else live?.delete(slot)
  }

  /** Slots of an earlier life of this host that may hold rows. */
  async past(home: string): Promise<SlotRange | undefined> {
    return (await this.#open(home)).past
  }

  /** Slots that may hold rows of this life. */
  async own(home: string): Promise<SlotRange> {
    const { current, live } = await this.#open(home)
    return { from: Math.min(current, ...live.keys()), to: current }
  }

  /** All rows of the earlier life that could be found are cleared. */
  pastCleared(home: string): void {
    const slots = this.#known.get(home)
    if (slots !== undefined && ++slots.pastLooks >= pastLooks) slots.past = undefined
  }

  /**
   * Marks the row of a host that is gone, or removes it when its mark is old enough. To be called
   * repeatedly, with a clock that is not far off. Nothing happens while the host has rows left.
   */
  async prune(home: string, { host, range }: { host: string; range: Noted }): Promise<void> {
    for await (const _ of this.rowsIn({ home, host, range })) return
    const { from, to, gone } = range
    const nowSeconds = Math.floor(this.#clock.now() / 1000)
    const key = hostKey(home, host)
    if (gone === undefined) {
      const value = Buffer.from(JSON.stringify({ from, to, gone: nowSeconds } satisfies Noted))
      await this.#lookups.write([{ put: key, value }], writeTimeOf(to, markWrite))
    } else if (nowSeconds - gone > this.#bounds.goneSeconds)
      await this.#lookups.write([{ delete: key }], writeTimeOf(to, removal))
  }

  /** Other hosts that may have rows. */
  async *others(home: string): AsyncIterable<{ host: string; range: Noted }> {
    const prefix = hostsPrefix(home)
    for await (const { key, value } of this.#lookups.scan(prefix)) {
      const host = key.slice(prefix.length)
      if (host !== this.#hostId) yield { host, range: notedOf(value) }
    }
  }

  /** The rows of a host in these slots. Empty slots cost little. */
  async *rowsIn({ home, host = this.#hostId, range }: { home: string; host?: string; range: SlotRange }) {
    for (let first = range.from; first <= range.to; first += slotsPerRead) {
      const count = Math.min(slotsPerRead, range.to - first + 1)
      const prefixes = Array.from({ length: count }, (_, at) =>
        activeSlotPrefix({ home, host, slot: first + at }),
      )
      const found = await this.#lookups.firstOf(prefixes)
      for (const [at, prefix] of prefixes.entries()) {
        if (found[at] === undefined) continue
        for await (const { key } of this.#lookups.scan(prefix))
          yield { key, account: key.slice(prefix.length) }
      }
    }
  }

  #open(home: string): Promise<HomeSlots> {
    const known = this.#homes.get(home)
    if (known !== undefined) return known
    const opening = this.#read(home)
    this.#homes.set(home, opening)
    opening.catch(() => this.#homes.delete(home))
    return opening
  }

  async #read(home: string): Promise<HomeSlots> {
    const value = await this.#lookups.get(hostKey(home, this.#hostId))
    const past = value && notedOf(value)
    const slots: HomeSlots = {
      past,
      pastLooks: 0,
      isKnown: past !== undefined,
      seen: this.#moment(),
      current: past === undefined ? this.#clock.now() : past.to + 1,
      rows: 0,
      live: new Map(),
      noted: undefined,
    }
    this.#known.set(home, slots)
    return slots
  }

  /** Ordered by the slot, independent of clocks: only this host notes slots, and they only rise. */
  async #note(home: string, slots: HomeSlots): Promise<void> {
    await this.#write(home, slots)
    for (let leap = 0; !slots.isKnown; leap++) {
      const value = await this.#lookups.get(hostKey(home, this.#hostId))
      slots.isKnown = value !== undefined && notedOf(value).to >= slots.current
      if (slots.isKnown) break
      if (leap === leapsMax)
        throw new JournalFault('UNAVAILABLE', `the slots of ${this.#hostId} cannot be noted`)
      slots.current += firstLeap * 2 ** leap
      await this.#write(home, slots)
    }
    slots.seen = this.#moment()
  }

  async #write(home: string, { past, current, live }: HomeSlots): Promise<void> {
    const from = Math.min(current, past?.from ?? current, ...live.keys())
    const value = Buffer.from(JSON.stringify({ from, to: current } satisfies SlotRange))
    await this.#lookups.write([{ put: hostKey(home, this.#hostId), value }], writeTimeOf(current, ownWrite))
  }
}

function nextSlot(slots: HomeSlots): void {
  slots.current++
  slots.rows = 0
  slots.noted = undefined
}

function writeTimeOf(slot: number, which: bigint): bigint {
  return BigInt(slot) * writeTimesPerSlot + which
}

function notedOf(value: Uint8Array): Noted {
  return JSON.parse(Buffer.from(value).toString()) as Noted
}
