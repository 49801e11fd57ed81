/**
 * Bytes that come in pieces, gathered in one block. A list of the pieces would cost some 100 bytes
 * for each, and a client chooses how many it sends: 64 KiB in pieces of one byte would take 7 MB.
 *
 * The first piece gets a block of its own length, because most content comes in one piece. From the
 * second on the block doubles, so that appending costs constant time per byte.
 */
export class GrowingBytes {
  #block: Buffer = empty
  #start = 0
  #end = 0

  get length(): number {
    return this.#end - this.#start
  }

  /** Bytes of memory held. */
  get capacity(): number {
    return this.#block.length
  }

  /** Copies the bytes. */
  append(bytes: Uint8Array): void {
    const { length } = this
    if (bytes.length > this.#block.length - this.#end) {
      if (length === 0) {
        this.#block = Buffer.from(bytes)
        this.#start = 0
        this.#end = bytes.length
        return
      }
      const wanted = length + bytes.length
      const block = Buffer.allocUnsafeSlow(
        Math.max(growthBytesMin, wanted, Math.min(2 * length, wanted + growthBytesMax)),
      )
      this.#block.copy(block, 0, this.#start, this.#end)
      this.#block = block
      this.#start = 0
      this.#end = length
    }
    this.#block.set(bytes, this.#end)
    this.#end += bytes.length
  }

  /** All of them; a view that is valid until the next `append`. */
  view(): Buffer {
    if (this.#start === 0 && this.#end === this.#block.length) return this.#block
    return this.#block.subarray(this.#start, this.#end)
  }

  /** Drops this many of the first bytes. */
  drop(count: number): void {
    this.#start += count
    if (this.#start >= this.#end) this.clear()
  }

  /** Drops all. Views stay valid. */
  clear(): void {
    this.#block = empty
    this.#start = 0
    this.#end = 0
  }
}

const empty: Buffer = Buffer.alloc(0)
const growthBytesMin = 4 * 1024
/** Above this size a block no longer doubles: its contents are expected to be small. */
const growthBytesMax = 1024 * 1024
