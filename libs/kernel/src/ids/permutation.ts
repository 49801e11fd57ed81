/**
 * Keyed permutations of 2·w-bit numbers (w ≤ 61): a balanced Feistel network whose round function
 * is AES-256 of (round, half). Ids and share codes are such permutations of counters and locators:
 * unique by construction, and unreadable and unguessable without the key.
 *
 * The parameters here can never change: every issued id depends on them.
 */
import { type Cipheriv, createCipheriv } from 'node:crypto'

export class Permutation {
  readonly #aes: Cipheriv
  readonly #halfBits: bigint
  readonly #mask: bigint
  readonly #rounds: number
  readonly #block = Buffer.alloc(16)
  /** The mask in two words. */
  readonly #maskHigh: number
  readonly #maskLow: number

  /**
   * @param key 32 bytes. @param halfBits 1..61. @param rounds even, 6 for wide halves, 10 for
   * narrow ones.
   */
  constructor(key: Uint8Array, { halfBits, rounds }: { halfBits: number; rounds: number }) {
    this.#aes = createCipheriv('aes-256-ecb', key, null).setAutoPadding(false)
    this.#halfBits = BigInt(halfBits)
    this.#mask = (1n << this.#halfBits) - 1n
    this.#rounds = rounds
    this.#maskHigh = Number(this.#mask >> 32n)
    this.#maskLow = Number(this.#mask & 0xffffffffn)
  }

  forward(value: bigint): bigint {
    let left = value >> this.#halfBits
    let right = value & this.#mask
    for (let round = 0; round < this.#rounds; round++) {
      const next = left ^ this.#mix(round, right)
      left = right
      right = next
    }
    return (left << this.#halfBits) | right
  }

  /**
   * `forward` of many values, each at a tenth of its cost: one call of the cipher a round, and
   * numbers instead of bigints.
   */
  forwardAll(values: readonly bigint[]): bigint[] {
    return inParts(values, (part) => this.#forwardSome(part))
  }

  backwardAll(values: readonly bigint[]): bigint[] {
    return inParts(values, (part) => this.#backwardSome(part))
  }

  #forwardSome(values: readonly bigint[]): bigint[] {
    let { left, right } = this.#halvesOf(values)
    const blocks = Buffer.alloc(values.length * 16)
    for (let round = 0; round < this.#rounds; round++) {
      this.#mixAll(left, { round, of: right, blocks })
      ;[left, right] = [right, left]
    }
    return this.#joined(left, right)
  }

  #backwardSome(values: readonly bigint[]): bigint[] {
    let { left, right } = this.#halvesOf(values)
    const blocks = Buffer.alloc(values.length * 16)
    for (let round = this.#rounds - 1; round >= 0; round--) {
      this.#mixAll(right, { round, of: left, blocks })
      ;[left, right] = [right, left]
    }
    return this.#joined(left, right)
  }

  #halvesOf(values: readonly bigint[]): { left: Halves; right: Halves } {
    const left = new Halves(values.map((value) => value >> this.#halfBits))
    return { left, right: new Halves(values.map((value) => value & this.#mask)) }
  }

  /** @param options.blocks room for the input of the round function. */
  #mixAll(half: Halves, { round, of, blocks }: { round: number; of: Halves; blocks: Buffer }): void {
    of.write(blocks, round)
    half.mix(this.#aes.update(blocks), { high: this.#maskHigh, low: this.#maskLow })
  }

  #joined(left: Halves, right: Halves): bigint[] {
    return Array.from({ length: left.length }, (_, index) => {
      return (left.value(index) << this.#halfBits) | right.value(index)
    })
  }

  backward(value: bigint): bigint {
    let left = value >> this.#halfBits
    let right = value & this.#mask
    for (let round = this.#rounds - 1; round >= 0; round--) {
      const previous = right ^ this.#mix(round, left)
      right = left
      left = previous
    }
    return (left << this.#halfBits) | right
  }

  #mix(round: number, half: bigint): bigint {
    this.#block.writeBigUInt64BE(BigInt(round), 0)
    this.#block.writeBigUInt64BE(half, 8)
    return this.#aes.update(this.#block).readBigUInt64BE(0) & this.#mask
  }
}

function inParts(values: readonly bigint[], work: (part: readonly bigint[]) => bigint[]): bigint[] {
  const results: bigint[] = []
  for (let at = 0; at < values.length; at += valuesAtOnce)
    for (const result of work(values.slice(at, at + valuesAtOnce))) results.push(result)
  return results
}

/** Larger blocks gain nothing; this much stays in the processor's cache. */
const valuesAtOnce = 256

/** One half of many values, in words of 32 bits. */
class Halves {
  readonly #high: Uint32Array
  readonly #low: Uint32Array

  constructor(values: readonly bigint[]) {
    this.#high = Uint32Array.from(values, (value) => Number(value >> 32n))
    this.#low = Uint32Array.from(values, (value) => Number(value & 0xffffffffn))
  }

  get length(): number {
    return this.#low.length
  }

  value(index: number): bigint {
    return (BigInt(this.#high[index] as number) << 32n) | BigInt(this.#low[index] as number)
  }

  /** Input of the round function: round and half, 8 bytes big-endian each. */
  write(blocks: Buffer, round: number): void {
    for (let index = 0; index < this.#low.length; index++) {
      blocks.writeUInt32BE(round, index * 16 + 4)
      blocks.writeUInt32BE(this.#high[index] as number, index * 16 + 8)
      blocks.writeUInt32BE(this.#low[index] as number, index * 16 + 12)
    }
  }

  mix(mixed: Buffer, mask: { high: number; low: number }): void {
    for (let index = 0; index < this.#low.length; index++) {
      this.#high[index] = (this.#high[index] as number) ^ (mixed.readUInt32BE(index * 16) & mask.high)
      this.#low[index] = (this.#low[index] as number) ^ (mixed.readUInt32BE(index * 16 + 4) & mask.low)
    }
  }
}
