/**
 * Short buffers that live long, apart from short-lived ones: a Buffer from Node's own pool keeps 8
 * KiB of it alive, including its short-lived neighbours. Here neighbours live and end together.
 */
export class Slab {
  readonly #bytes: number
  readonly #fill: (slab: Buffer) => Buffer
  #slab: Buffer = Buffer.alloc(0)
  #taken = 0

  /** @param bytes of a slab. @param fill initial content. */
  constructor(bytes: number, fill: (slab: Buffer) => Buffer = (slab) => slab) {
    this.#bytes = bytes
    this.#fill = fill
  }

  /** The next bytes, exclusively. @param count at most a slab's. */
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
