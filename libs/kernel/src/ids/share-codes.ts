/**
 * Share codes: a keyed permutation of a counter, cycle-walking into 62^8 (or, for legacy folders,
 * 62^6). Each counter is used once, so each code is new; nothing can be guessed without the key.
 */
import { Permutation } from './permutation.ts'

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** Words that are never codes, because a path or a client gives them a meaning. Lower case. */
const reserved = new Set([
  'contents',
  'accounts',
  'download',
  'recycled',
  'profiles',
  'search',
  'import',
  'upload',
  'status',
])

/**
 * Consecutive codes of one account: counters are allocated to accounts in blocks of this size, and
 * a block has one route. Legacy codes are few, and each has its own route.
 */
export const codesPerBlock = 64

/** Codes made ahead for callers that count upwards, such as the lease of counters. */
const codesAhead = 32

export class ShareCodes {
  readonly #permutation: Permutation
  readonly #length: 6 | 8
  readonly #size: bigint
  /** Codes of the counters from `#aheadFrom` on. */
  #ahead: string[] = []
  #aheadFrom = 0
  /** The counter after the one used last. */
  #next = -1

  /** @param key 32 bytes, another for each length. */
  constructor(key: Uint8Array, { length }: { length: 6 | 8 }) {
    this.#length = length
    this.#size = 62n ** BigInt(length)
    this.#permutation = new Permutation(key, { halfBits: length === 8 ? 24 : 18, rounds: 10 })
  }

  get length(): 6 | 8 {
    return this.#length
  }

  /** Counters that share one route. */
  get perBlock(): number {
    return this.#length === 8 ? codesPerBlock : 1
  }

  /** Number of counters: 0 .. size-1. */
  get size(): number {
    return Number(this.#size)
  }

  /** @param counter 0 .. size-1, each used once. */
  code(counter: number): string {
    const goesOn = counter === this.#next
    this.#next = counter + 1
    if (goesOn && this.#ahead[counter - this.#aheadFrom] === undefined && counter + codesAhead <= this.size) {
      this.#ahead = this.codes(counter, codesAhead)
      this.#aheadFrom = counter
    }
    return this.#ahead[counter - this.#aheadFrom] ?? this.#codeOf(counter)
  }

  #codeOf(counter: number): string {
    let value = BigInt(counter)
    for (;;) {
      value = this.#permutation.forward(value)
      if (value >= this.#size) continue
      const text = this.#write(value)
      if (!isReservedWord(text)) return text
    }
  }

  /**
   * The counter that makes this code, issued or not. @throws RangeError for what is no code of this
   * length
   */
  counterOf(code: string): number {
    let value = this.#read(code)
    do value = this.#permutation.backward(value)
    while (!this.#isCode(value))
    return Number(value)
  }

  #read(code: string): bigint {
    if (code.length !== this.#length || isReservedWord(code))
      throw new RangeError(`${code} is no share code of ${this.#length} characters`)
    return read(code)
  }

  /** Otherwise the walk continues. */
  #isCode(value: bigint): boolean {
    return value < this.#size && !isReservedWord(this.#write(value))
  }

  /** The counters of many codes, at a fraction of the cost. @throws RangeError as `counterOf`. */
  countersOf(codes: readonly string[]): number[] {
    const counters = new Array<number>(codes.length)
    let open = codes.map((code, index) => ({ index, value: this.#read(code) }))
    while (open.length > 0) {
      const values = this.#permutation.backwardAll(open.map(({ value }) => value))
      open = open.map(({ index }, place) => ({ index, value: values[place] as bigint }))
      open = open.filter(({ index, value }) => {
        const isOver = this.#isCode(value)
        if (isOver) counters[index] = Number(value)
        return !isOver
      })
    }
    return counters
  }

  /** The codes of counters first … first+count-1, at a tenth of the cost. */
  codes(first: number, count: number): string[] {
    const codes = new Array<string>(count)
    let open = Array.from({ length: count }, (_, index) => ({ index, value: BigInt(first + index) }))
    while (open.length > 0) {
      const values = this.#permutation.forwardAll(open.map(({ value }) => value))
      open = open.map(({ index }, place) => ({ index, value: values[place] as bigint }))
      open = open.filter(({ index, value }) => {
        const text = value < this.#size ? this.#write(value) : undefined
        const isCode = text !== undefined && !isReservedWord(text)
        if (isCode) codes[index] = text
        return !isCode
      })
    }
    return codes
  }

  #write(value: bigint): string {
    let text = ''
    // 62^8 is below 2^53, and numbers divide at a third of the cost.
    for (let rest = Number(value); text.length < this.#length; rest = Math.floor(rest / 62))
      text = alphabet[rest % 62] + text
    return text
  }
}

function read(code: string): bigint {
  let value = 0
  for (const character of code) {
    const digit = alphabet.indexOf(character)
    if (digit < 0) throw new RangeError(`${code} is no share code`)
    value = value * 62 + digit
  }
  return BigInt(value)
}

/** True for words that have the form of share codes and are never issued. */
export function isReservedWord(text: string): boolean {
  return reserved.has(text.toLowerCase())
}

const codeForm = /^(?:[A-Za-z0-9]{8}|[A-Za-z0-9]{6})$/

/** True for anything written as a share code, issued or not. */
export function isShareCode(text: string): boolean {
  return codeForm.test(text)
}
