/**
 * Short buffers that live long, apart from those that live for a moment: a Buffer of Node's own
 * pool keeps 8 KiB of it alive, and with it whatever short-lived neighbours it had. Here neighbours
 * come and go together.
 */
export class Slab {
  readonly #bytes: number
  readonly #fill: (slab: Buffer) => Buffer
  #slab: Buffer = Buffer.alloc(0)
  #taken = 0

  /** @param bytes of a slab. @param fill what stands in a fresh one. */
  constructor(bytes: number, fill: (slab: Buffer) => Buffer = (slab) => slab) {
    this.#bytes = bytes
    this.#fill = fill
  }

  /** The next bytes, nobody else's. @param count at most a slab's. */
  take(count: number): Buffer {
    if (this.#slab.length - this.#taken < count) {
      this.#slab = this.#fill(Buffer.allocUnsafeSlow(this.#bytes))
      this.#taken = 0
    }
    const from = this.#taken
    this.#taken += count
    return this.#slab.subarray(from, this.#taken)
  }

  copy(bytes: Uint8Array): Buffer {
    const copy = this.take(bytes.length)
    copy.set(bytes)
    return copy
  }
}
