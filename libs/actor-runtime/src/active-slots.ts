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
 * row of a slot is put. A restarted host finds its own row and continues behind its last slot.
 */
import type { LookupStore } from '@holdfast/journal'
import { activeSlotPrefix, hostKey, hostsPrefix } from './lookup-rows.ts'

export interface SlotRange {
  from: number
  to: number
}

/** Slots that one read covers. */
const slotsPerRead = 100

interface HomeSlots {
  /** Of an earlier life of this host, until all rows in them are cleared. */
  past: SlotRange | undefined
  current: number
  /** Number put into the current one. */
  rows: number
  /** Existing rows, by slot. */
  live: Map<number, number>
  noted: Promise<void> | undefined
}

export class ActiveSlots {
  readonly #lookups: LookupStore
  readonly #hostId: string
  readonly #bounds: { rowsPerSlot: number; slotsBack: number }
  readonly #homes = new Map<string, Promise<HomeSlots>>()
  readonly #known = new Map<string, HomeSlots>()

  constructor(
    lookups: LookupStore,
    { hostId, ...bounds }: { hostId: string; rowsPerSlot: number; slotsBack: number },
  ) {
    this.#lookups = lookups
    this.#hostId = hostId
    this.#bounds = bounds
  }

  /** A place for one row. @throws what the lookups throw: there is none. */
  async take(home: string): Promise<number> {
    const slots = await this.#open(home)
    if (slots.rows >= this.#bounds.rowsPerSlot) {
      slots.current++
      slots.rows = 0
      slots.noted = undefined
    }
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

  /** So that the first row need not wait for it. */
  async begin(home: string): Promise<void> {
    await this.#noted(home, await this.#open(home))
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

  /** All rows of the earlier life are cleared. */
  pastCleared(home: string): void {
    const slots = this.#known.get(home)
    if (slots !== undefined) slots.past = undefined
  }

  /** Other hosts that may have rows. */
  async *others(home: string): AsyncIterable<{ host: string; range: SlotRange }> {
    const prefix = hostsPrefix(home)
    for await (const { key, value } of this.#lookups.scan(prefix)) {
      const host = key.slice(prefix.length)
      if (host !== this.#hostId) yield { host, range: rangeOf(value) }
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
    const past = value && rangeOf(value)
    const slots = { past, current: (past?.to ?? 0) + 1, rows: 0, live: new Map(), noted: undefined }
    this.#known.set(home, slots)
    return slots
  }

  /** Ordered by the slot, independent of clocks: only this host writes it, and slots only rise. */
  async #note(home: string, { past, current, live }: HomeSlots): Promise<void> {
    const from = Math.min(current, past?.from ?? current, ...live.keys())
    const value = Buffer.from(JSON.stringify({ from, to: current } satisfies SlotRange))
    await this.#lookups.write([{ put: hostKey(home, this.#hostId), value }], BigInt(current))
  }
}

function rangeOf(value: Uint8Array): SlotRange {
  return JSON.parse(Buffer.from(value).toString()) as SlotRange
}
