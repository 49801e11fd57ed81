/** Numbers that a seed repeats: mulberry32. */
export class SeededNumbers {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** 0 ≤ x < 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }

  /** 0 ≤ n < below, whole. */
  below(below: number): number {
    return Math.floor(this.next() * below)
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  pick<T>(among: readonly T[]): T {
    return among[this.below(among.length)] as T
  }

  /** Bytes for this number, the same in every run. */
  static bytes(number: number, length: number): Buffer {
    const random = new SeededNumbers(number)
    const bytes = Buffer.alloc(length + 4)
    for (let at = 0; at < length; at += 4) bytes.writeUInt32LE(Math.floor(random.next() * 4_294_967_296), at)
    return bytes.subarray(0, length)
  }
}
