/**
 * Copies that must not be deleted for a while: a pin covers the time between a commit and its
 * reference. Pins are kept in memory. If the process with the store also takes the uploads, pins
 * and uploads end together. If other processes take the uploads, these continue while this process
 * restarts: then every copy counts as pinned after a start, for as long as the longest pin.
 *
 * Every commit leaves a pin for minutes, so at thousands of uploads a second there are a million of
 * them. They are in an open-addressed table of numbers, 24 bytes a place. A copy is identified by
 * 64 bits of its blob id and incarnation; if two ever share them, one is kept a little longer,
 * which is harmless.
 */
import type { Clock } from '@holdfast/kernel'

/** Minimum number of places; doubled as pins come, halved as they end. */
const placesMin = 1024
/** Above this fill level the table is rebuilt without the ended pins. */
const fillMax = 0.6

export class Pins {
  readonly #clock: Clock
  readonly #allUntilMs: number
  /** Two words a place. */
  #names = new Uint32Array(2 * placesMin)
  /** Monotonic milliseconds; 0: the place was never used. */
  #ends = new Float64Array(placesMin)
  #used = 0

  /** @param allForMs how long every copy counts as pinned from now on; default 0 */
  constructor(clock: Clock, { allForMs = 0 }: { allForMs?: number } = {}) {
    this.#clock = clock
    this.#allUntilMs = allForMs === 0 ? Number.NEGATIVE_INFINITY : clock.monotonic() + allForMs
  }

  extend(id: Uint8Array, incarnation: Uint8Array, ttlMs: number): void {
    if (this.#used >= this.#ends.length * fillMax) this.#renew()
    const end = this.#clock.monotonic() + ttlMs
    this.#put(word(id, incarnation, 0), word(id, incarnation, 4), end)
  }

  holds(id: Uint8Array, incarnation: Uint8Array): boolean {
    const nowMs = this.#clock.monotonic()
    if (nowMs < this.#allUntilMs) return true
    const place = this.#placeOf(word(id, incarnation, 0), word(id, incarnation, 4))
    return (this.#ends[place] as number) > nowMs
  }

  drop(id: Uint8Array, incarnation: Uint8Array): void {
    const place = this.#placeOf(word(id, incarnation, 0), word(id, incarnation, 4))
    // Ended, not empty: others may follow in the probe sequence.
    if (this.#ends[place] !== 0) this.#ends[place] = Number.MIN_VALUE
  }

  #put(high: number, low: number, end: number): void {
    const place = this.#placeOf(high, low)
    const known = this.#ends[place] as number
    if (known === 0) this.#used++
    this.#names[2 * place] = high
    this.#names[2 * place + 1] = low
    this.#ends[place] = Math.max(known, end, Number.MIN_VALUE)
  }

  /** The place of the name, or where it would be inserted. */
  #placeOf(high: number, low: number): number {
    const mask = this.#ends.length - 1
    for (let place = low & mask; ; place = (place + 1) & mask) {
      if (this.#ends[place] === 0) return place
      if (this.#names[2 * place] === high && this.#names[2 * place + 1] === low) return place
    }
  }

  #renew(): void {
    const names = this.#names
    const ends = this.#ends
    const now = this.#clock.monotonic()
    const live = ends.reduce((count, end) => count + (end > now ? 1 : 0), 0)
    let places = placesMin
    while (live >= (places * fillMax) / 2) places *= 2
    this.#names = new Uint32Array(2 * places)
    this.#ends = new Float64Array(places)
    this.#used = 0
    for (let place = 0; place < ends.length; place++) {
      const end = ends[place] as number
      if (end > now) this.#put(names[2 * place] as number, names[2 * place + 1] as number, end)
    }
  }
}

/** Four bytes of the incarnation, which are random, mixed with four of the blob id. */
function word(id: Uint8Array, incarnation: Uint8Array, at: number): number {
  return (wordAt(id, at) ^ wordAt(incarnation, at)) >>> 0
}

function wordAt(bytes: Uint8Array, at: number): number {
  return (
    (bytes[at] as number) |
    ((bytes[at + 1] as number) << 8) |
    ((bytes[at + 2] as number) << 16) |
    ((bytes[at + 3] as number) << 24)
  )
}
