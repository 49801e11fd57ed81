/**
 * Bytes on their way to a client: pulled from their source piece by piece. Each piece is written to
 * the socket before the next is requested, because a piece of the store is valid only up to that
 * moment. There is no stream around them: the pump writes to the response itself. When the client
 * is gone the source ends at once. A source that fails cuts the connection: a body is whole or
 * visibly broken.
 */
import type { ServerResponse } from 'node:http'
import { setImmediate } from 'node:timers/promises'
import type { WholeBytes } from '@holdfast/blob-store'
import type { AnswerShare } from '@holdfast/http-kit'

/** The minimum pace of a reader. */
export interface DownloadPace {
  /** This many bytes … */
  progressBytes: number
  /** … within this time. */
  progressMs: number
}

/** 874 bytes a second is slower than any usable network, and each slow reader holds a buffer. */
export const slowestDownloadPace: DownloadPace = { progressBytes: 256 * 1024, progressMs: 300_000 }

/** Assumed size of a piece that is not read yet. */
export const pieceBytes = 64 * 1024

/** Where neither the source nor the socket makes it wait, a body yields after this many bytes. */
export const turnBytes = 64 * 1024
/**
 * A piece counts as this many at least: reading one byte takes as long as reading some thousand.
 */
const leastPieceBytes = 16 * 1024

export class ResponseBody {
  readonly #source: AsyncIterator<Uint8Array>
  readonly #stop = new AbortController()
  readonly #onBytes: (count: number) => void
  readonly #pace: DownloadPace
  #first: IteratorResult<Uint8Array> | undefined
  /** The source has ended or failed: it need not be stopped. */
  #ended = false
  #reject: ((error: Error) => void) | undefined

  /**
   * @param open makes the source; its signal aborts when the bytes are no longer wanted.
   * @param onBytes called for every piece that the socket accepted.
   */
  constructor(
    open: (signal: AbortSignal) => AsyncIterable<Uint8Array>,
    onBytes: (count: number) => void,
    pace: DownloadPace = slowestDownloadPace,
  ) {
    this.#pace = pace
    this.#source = open(this.#stop.signal)[Symbol.asyncIterator]()
    this.#onBytes = onBytes
  }

  /**
   * Resolves when the first bytes are there: until then a fault can still get a proper answer.
   * Rejects with that fault.
   */
  async ready(): Promise<void> {
    this.#first = await this.#next()
  }

  /** The bytes are no longer wanted: frees the source. */
  cancel(): void {
    if (this.#ended) return
    this.#ended = true
    this.#stop.abort()
    // Not awaited: a source that waits for its disk must not delay the end of a closed connection.
    Promise.resolve(this.#source.return?.()).catch(() => undefined)
  }

  /**
   * Writes the body and ends the response; resolves then, or when the client is gone.
   * @param share of the bytes under way: each piece waits for room before it is made. The caller
   *   closes it.
   * @throws what the source threw, or that the reader was too slow: the connection is cut.
   */
  async sendTo(response: ServerResponse, share?: AnswerShare): Promise<void> {
    const slow = new SlowReader(this.#pace, () => this.#reject?.(new Error('the reader is too slow')))
    let gone = response.destroyed
    const leave = () => {
      gone = true
      this.cancel()
      share?.close()
      this.#reject?.(new Error('the client is gone'))
    }
    response.once('close', leave)
    try {
      if (gone) return
      let unbroken = 0
      let next = this.#first ?? (await this.#next())
      for (; !next.done; next = await this.#next()) {
        share?.keep(next.value.length)
        slow.expect(next.value.length)
        gone = !(await this.#write(response, next.value)) || gone
        if (gone) break
        this.#onBytes(next.value.length)
        unbroken += Math.max(next.value.length, leastPieceBytes)
        if (unbroken >= turnBytes) {
          unbroken = 0
          await (share === undefined ? setImmediate() : share.next())
        }
        const room = share?.take(pieceBytes)
        if (room !== undefined) await room
        if (gone) break
      }
      if (!gone) response.end()
    } catch (error) {
      response.destroy()
      if (!gone) throw error
    } finally {
      this.cancel()
      slow.stop()
      response.off('close', leave)
    }
  }

  async #next(): Promise<IteratorResult<Uint8Array>> {
    try {
      const next = await this.#source.next()
      if (next.done) this.#ended = true
      return next
    } catch (error) {
      this.#ended = true
      throw error
    }
  }

  /** False when the client did not accept it. */
  #write(response: ServerResponse, piece: Uint8Array): Promise<boolean> {
    return new Promise((resolve, reject) => {
      this.#reject = reject
      response.write(piece, (error) => resolve(!error))
    })
  }
}

/**
 * Ends the response with a body of one piece, and releases it when the socket has accepted it or
 * the client is gone. Most are accepted at once: only one that waits for its reader is watched, and
 * counted among the bytes under way.
 *
 * @param hold makes the body's share of these
 */
export function sendWhole(
  response: ServerResponse,
  whole: WholeBytes,
  onBytes: (count: number) => void,
  pace: DownloadPace = slowestDownloadPace,
  hold?: () => AnswerShare,
): void {
  const { socket } = response
  if (response.destroyed) {
    whole.release()
    return
  }
  const { length } = whole.bytes
  response.end(whole.bytes)
  if (socket?.writableLength === 0) {
    whole.release()
    // A write that failed leaves nothing in the buffer, too.
    if (!socket.destroyed && socket.errored === null) onBytes(length)
    return
  }
  const slow = new SlowReader(pace, () => response.destroy())
  slow.expect(length)
  const share = hold?.()
  share?.keep(length)
  // An answer is also `finished` when its client closes in the middle. This listener comes first,
  // because the others remove the socket.
  response.prependOnceListener('finish', () => {
    if (response.socket?.destroyed === false) onBytes(length)
  })
  response.once('close', () => {
    slow.stop()
    share?.close()
    whole.release()
  })
}

/** Detects a reader that is too slow. One timer per body. */
export class SlowReader {
  readonly #pace: DownloadPace
  readonly #timer: NodeJS.Timeout
  /** Total times that the current piece may take. */
  #left = 0

  constructor(pace: DownloadPace, drop: () => void) {
    this.#pace = pace
    this.#timer = setTimeout(() => {
      if (this.#left-- > 0) this.#timer.refresh()
      else drop()
    }, pace.progressMs)
    this.#timer.unref()
  }

  /** Starts a piece of this many bytes. */
  expect(bytes: number): void {
    this.#left = Math.ceil(bytes / this.#pace.progressBytes) - 1
    this.#timer.refresh()
  }

  stop(): void {
    clearTimeout(this.#timer)
  }
}
