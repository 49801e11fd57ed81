/** LevelDB's numbers of variable length: seven bits a byte, the lowest first. */

/** Reads one value after the other. */
export class Cursor {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  /** Also behind a number that was not whole. */
  get isAtEnd(): boolean {
    return !(this.#at < this.#bytes.length)
  }

  /** NaN behind a number that was not whole. */
  get at(): number {
    return this.#at
  }

  skip(count: number): void {
    this.#at += count
  }

  /** NaN behind the end, which compares as no position. */
  varint(): number {
    let value = 0
    for (let factor = 1; ; factor *= 128) {
      const byte = this.#bytes[this.#at++] ?? Number.NaN
      value += (byte % 128) * factor
      if (!(byte >= 128)) return value
    }
  }

  /** For numbers that may be above 2^53; undefined behind the end. */
  largeVarint(): bigint | undefined {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.#bytes[this.#at++]
      if (byte === undefined) return undefined
      value |= BigInt(byte % 128) << shift
      if (byte < 128) return value
    }
  }

  /** Behind its length; undefined if it is not whole. */
  prefixed(): Buffer | undefined {
    const bytes = this.varint()
    const begin = this.#at
    this.#at += bytes
    return this.#at <= this.#bytes.length ? this.#bytes.subarray(begin, this.#at) : undefined
  }
}

export function varint(value: number | bigint): Buffer {
  const bytes: number[] = []
  let rest = BigInt(value)
  for (; rest >= 128n; rest >>= 7n) bytes.push(Number(rest % 128n) + 128)
  return Buffer.from([...bytes, Number(rest)])
}

/** Behind its length. */
export function prefixed(bytes: Uint8Array): Buffer {
  return Buffer.concat([varint(bytes.length), bytes])
}
