/**
 * Bytes on their way to a client: pulled from their source piece by piece, each given to the socket before the next is asked for.
 *
 * Looks like a stream to fastify, which ends it when the client goes; but it is its own pump, because a piece of the store is ours only until
 * the next is asked for, and a plain pipe would ask too early. A source that fails cuts the connection: a body is whole or visibly broken.
 */
import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'

/** What a reader must take. */
export interface Pace {
  /** So many bytes … */
  progressBytes: number
  /** … within so long. */
  progressMs: number
}

/** 874 bytes a second is slower than any network that is of use, and each slow reader holds a buffer. */
const slowest: Pace = { progressBytes: 256 * 1024, progressMs: 300_000 }

export class ResponseBody extends Readable {
  readonly #source: AsyncIterator<Uint8Array>
  readonly #stop = new AbortController()
  readonly #onBytes: (count: number) => void
  readonly #pace: Pace
  #first: Promise<IteratorResult<Uint8Array>> | undefined
  /** The source has given all it had: nobody need be told to stop. */
  #exhausted = false

  /**
   * @param open makes the source; its signal says that nobody wants the bytes any more.
   * @param onBytes is told of every piece that the socket took.
   */
  constructor(
    open: (signal: AbortSignal) => AsyncIterable<Uint8Array>,
    onBytes: (count: number) => void,
    pace: Pace = slowest,
  ) {
    super({ autoDestroy: true })
    this.#pace = pace
    this.#source = open(this.#stop.signal)[Symbol.asyncIterator]()
    this.#onBytes = onBytes
  }

  /** Resolves when the first bytes are there: until then a fault can still be answered properly. Rejects with that fault. */
  async ready(): Promise<void> {
    this.#first = this.#source.next()
    try {
      await this.#first
    } catch (error) {
      this.destroy()
      throw error
    }
  }

  override pipe<T extends NodeJS.WritableStream>(destination: T): T {
    this.#pump(destination as unknown as ServerResponse).then(
      () => {
        this.push(null)
        this.resume()
      },
      (error: Error) => this.destroy(error),
    )
    return destination
  }

  override _read(): void {
    // Nobody reads from here: the pump writes.
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    if (!this.#exhausted) this.#stop.abort()
    // Not awaited: a source that waits for its disk must not hold up the end of a connection that is gone.
    Promise.resolve(this.#source.return?.()).catch(() => undefined)
    done(error)
  }

  async #pump(response: ServerResponse): Promise<void> {
    const { progressBytes, progressMs } = this.#pace
    const guard = setTimeout(() => this.destroy(new Error('the reader is too slow')), progressMs)
    guard.unref()
    try {
      let next = await (this.#first ?? this.#source.next())
      for (; !next.done; next = await this.#source.next()) {
        for (let at = 0; at < next.value.length; at += progressBytes) {
          const part = next.value.subarray(at, at + progressBytes)
          await this.#write(response, part)
          guard.refresh()
          this.#onBytes(part.length)
        }
      }
      this.#exhausted = true
      if (!this.destroyed) response.end()
    } finally {
      clearTimeout(guard)
    }
  }

  #write(response: ServerResponse, part: Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.destroyed) return reject(new Error('the response has ended'))
      const ended = () => reject(new Error('the response has ended'))
      this.once('close', ended)
      response.write(part, (error) => {
        this.off('close', ended)
        if (error) reject(error)
        else resolve()
      })
    })
  }
}
