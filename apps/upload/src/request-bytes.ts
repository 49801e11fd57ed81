/** The body of a request as it comes, from a client that must not be too slow. */
import type { IncomingMessage } from 'node:http'
import { giveBack } from '@holdfast/blob-store'

/** What a client must send, and how often that is looked at. */
export interface Pace {
  /** So many bytes … */
  progressBytes: number
  /** … within so long. */
  progressMs: number
  lookEveryMs: number
}

/** About 1 KB/s. A modem does; holding a stage for a trickle is an attack. */
const slowest: Pace = { progressBytes: 64 * 1024, progressMs: 60_000, lookEveryMs: 5_000 }

/** Chunks of 64 KiB that may wait for their reader before the socket is told to wait. */
const chunksAheadMax = 2

/**
 * The chunks of the body; a chunk is gone once the next one is asked for. Time in which we are not waiting for the client does not count against him. Stopping early leaves the
 * request paused, so that an answer can still be given.
 *
 * Stands where `for await` over the request could: without a stream's own iterator, whose listeners and promises cost a small upload more than
 * its bytes do.
 *
 * @throws when the client is gone before the body's end, or was cut off for sending too slowly.
 */
export function requestBytes(request: IncomingMessage, pace: Pace = slowest): AsyncIterable<Buffer> {
  return { [Symbol.asyncIterator]: () => new RequestBytes(request, pace) }
}

class RequestBytes implements AsyncIterator<Buffer, undefined> {
  readonly #request: IncomingMessage
  readonly #pace: Pace
  readonly #guard: NodeJS.Timeout
  readonly #chunks: Buffer[] = []
  #wanted: PromiseWithResolvers<IteratorResult<Buffer, undefined>> | undefined
  #ended = false
  #failure: Error | undefined
  /** Since the last `progressBytes`. */
  #bytes = 0
  #waitedMs = 0
  #waitingSince: number | undefined
  /** What our reader has. */
  #given: Buffer | undefined

  constructor(request: IncomingMessage, pace: Pace) {
    this.#request = request
    this.#pace = pace
    this.#guard = setInterval(() => this.#look(), pace.lookEveryMs).unref()
    if (request.destroyed) this.#fail(new Error('the client is gone'))
    else if (request.readableEnded) this.#end()
    else request.on('data', this.#take).on('end', this.#end).on('error', this.#fail).on('close', this.#close)
  }

  async next(): Promise<IteratorResult<Buffer, undefined>> {
    this.#giveBack()
    const chunk = this.#chunks.shift()
    if (chunk !== undefined) {
      this.#given = chunk
      if (this.#chunks.length < chunksAheadMax && this.#request.isPaused()) this.#request.resume()
      return { value: chunk, done: false }
    }
    if (this.#failure !== undefined) throw this.#failure
    if (this.#ended) return { value: undefined, done: true }
    if (this.#request.isPaused()) this.#request.resume()
    this.#waitingSince = performance.now()
    this.#wanted = Promise.withResolvers()
    return this.#wanted.promise
  }

  async return(): Promise<IteratorResult<Buffer, undefined>> {
    this.#giveBack()
    this.#letGo()
    if (!this.#ended) this.#request.pause()
    return { value: undefined, done: true }
  }

  readonly #take = (chunk: Buffer): void => {
    this.#bytes += chunk.length
    const wanted = this.#arrived()
    if (this.#bytes >= this.#pace.progressBytes) {
      this.#bytes = 0
      this.#waitedMs = 0
    }
    if (wanted !== undefined) {
      this.#given = chunk
      wanted.resolve({ value: chunk, done: false })
      return
    }
    this.#chunks.push(chunk)
    if (this.#chunks.length >= chunksAheadMax) this.#request.pause()
  }

  readonly #end = (): void => {
    this.#ended = true
    this.#letGo()
    this.#arrived()?.resolve({ value: undefined, done: true })
  }

  readonly #fail = (error: Error): void => {
    if (this.#failure !== undefined || this.#ended) return
    this.#failure = error
    this.#letGo()
    this.#arrived()?.reject(error)
  }

  readonly #close = (): void => this.#fail(new Error('the client is gone'))

  /** Whoever waits; his waiting ends. */
  #arrived() {
    const wanted = this.#wanted
    this.#wanted = undefined
    if (this.#waitingSince !== undefined) this.#waitedMs += performance.now() - this.#waitingSince
    this.#waitingSince = undefined
    return wanted
  }

  #giveBack(): void {
    const chunk = this.#given
    this.#given = undefined
    if (chunk !== undefined) giveBack(chunk)
  }

  #look(): void {
    const waiting = this.#waitingSince === undefined ? 0 : performance.now() - this.#waitingSince
    if (this.#waitedMs + waiting <= this.#pace.progressMs) return
    this.#request.destroy(new Error('the client sends too slowly'))
  }

  #letGo(): void {
    clearInterval(this.#guard)
    // The listener for errors stays: one that nobody hears would end the process.
    this.#request.off('data', this.#take).off('end', this.#end).off('close', this.#close)
  }
}
