/** Every random draw of a run comes from here: a seed reproduces the run. */
import type { Randomness } from '@holdfast/kernel'

/** mulberry32, with the shapes of draws that a simulation needs. */
export class Dice implements Randomness {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** 0 ≤ n < 1. */
  fraction(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let z = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1)
    z ^= z + Math.imul(z ^ (z >>> 7), z | 61)
    return ((z ^ (z >>> 14)) >>> 0) / 2 ** 32
  }

  /** 0 … sides-1. */
  roll(sides: number): number {
    return Math.floor(this.fraction() * sides)
  }

  chance(probability: number): boolean {
    return this.fraction() < probability
  }

  between(least: number, most: number): number {
    return least + this.fraction() * (most - least)
  }

  pick<T>(from: readonly T[]): T {
    return from[this.roll(from.length)] as T
  }

  bytes(count: number): Buffer {
    const bytes = Buffer.alloc(count)
    for (let at = 0; at < count; at++) bytes[at] = this.roll(256)
    return bytes
  }

  /** A separate stream, so that one part's draws do not shift another's. */
  fork(): Dice {
    return new Dice(Math.floor(this.fraction() * 2 ** 32))
  }
}
