/**
 * Short buffers that live long, apart from those that live for a moment: a Buffer of Node's own pool keeps 8 KiB of it alive, and with it
 * whatever short-lived neighbours it had. Here neighbours come and go together.
 */
export class Slab {
  readonly #bytes: number
  readonly #fill: (slab: Buffer) => Buffer
  #rest: Buffer = Buffer.alloc(0)

  /** @param bytes of a slab. @param fill what stands in a fresh one. */
  constructor(bytes: number, fill: (slab: Buffer) => Buffer = (slab) => slab) {
    this.#bytes = bytes
    this.#fill = fill
  }

  /** The next bytes, nobody else's. @param count at most a slab's. */
  take(count: number): Buffer {
    if (this.#rest.length < count) this.#rest = this.#fill(Buffer.allocUnsafeSlow(this.#bytes))
    const taken = this.#rest.subarray(0, count)
    this.#rest = this.#rest.subarray(count)
    return taken
  }
}
