/** The body of a request as it comes, with a minimum pace for the client. */
import { releaseBuffer } from '@holdfast/blob-store'
import {
  type PiecewiseRequest,
  RefusalError,
  smallPieceBytes,
  takePieces,
  unavailableRetrySeconds,
} from '@holdfast/http-kit'
import { GrowingBytes } from '@holdfast/kernel'

/** The minimum pace of a client, and how often it is checked. */
export interface UploadPace {
  /** This many bytes … */
  progressBytes: number
  /** … within this time. */
  progressMs: number
  lookEveryMs: number
  /** The time for `progressBytes` while places are scarce. */
  scarceProgressMs: number
  /**
   * The limit of the debt of small pieces. A small piece adds to the debt the bytes that it lacks
   * to `smallPieceBytes`, because every piece costs time.
   */
  owedBytesMax: number
  /** Each check forgives this much. */
  forgottenBytes: number
}

/**
 * About 1 KB/s. A modem reaches it; a slower client that holds a stage is an attack. Pieces of one
 * byte: 65,000 at once and 2,000 a second, which is 0.1 s of the loop and 0.5 % of it.
 */
export const slowestUploadPace: UploadPace = {
  progressBytes: 64 * 1024,
  progressMs: 60_000,
  lookEveryMs: 5_000,
  scarceProgressMs: 10_000,
  owedBytesMax: 4 * 1024 * 1024,
  forgottenBytes: 640 * 1024,
}

/** What the reader needs from its host. */
export interface PaceKeeper {
  /** Others wait for the places of slow uploads. */
  isScarce(): boolean
  /**
   * Called for each `count` further small pieces.
   * @throws RefusalError, by the promise, when the client's network has sent too many of them
   */
  tookSmallPieces?(count: number): Promise<void> | undefined
}

const patient: PaceKeeper = { isScarce: () => false }

/** The number of small pieces after which they are reported. */
const smallPiecesReported = 4_096
/**
 * Pieces below this size gather in one block, of at most `gatheredBytesMax`, until the loop has
 * read its sockets: between two pieces the parser lets every promise run.
 */
const smallChunkBytes = 4 * 1024
const gatheredBytesMax = 64 * 1024

/** Chunks of 64 KiB that may wait for their reader before the socket is paused. */
const chunksAheadMax = 2

/**
 * The chunks of the body. A chunk is valid until the next is requested. Time spent on our side does
 * not count towards the client's pace. Stopping early leaves the request paused, so that an answer
 * can still be sent.
 *
 * Replaces `for await` over the request: a stream's own iterator has listeners and promises that
 * cost a small upload more than its bytes do.
 *
 * @throws when the client is gone before the body's end, or was cut off for sending too slowly.
 */
export function requestBytes(
  request: PiecewiseRequest,
  pace: UploadPace = slowestUploadPace,
  keeper: PaceKeeper = patient,
): RequestBytes {
  return new RequestBytes(request, pace, keeper)
}

function ignore(): void {}

export class RequestBytes implements AsyncIterableIterator<Buffer, undefined> {
  readonly #request: PiecewiseRequest
  readonly #pace: UploadPace
  readonly #keeper: PaceKeeper
  readonly #guard: NodeJS.Timeout
  readonly #endPieces: (() => void) | undefined
  /** What waits for the reader: these, then the small pieces that came after them, in one block. */
  readonly #chunks: Buffer[] = []
  readonly #gathered = new GrowingBytes()
  #wanted: PromiseWithResolvers<IteratorResult<Buffer, undefined>> | undefined
  #ended = false
  #failure: Error | undefined
  /** Since the last `progressBytes`. */
  #bytes = 0
  #waitedMs = 0
  #waitingSince: number | undefined
  /** The current debt of small pieces. */
  #owedBytes = 0
  #smallPieces = 0
  #smallPiecesReported = 0
  /** At the end of this turn of the loop small chunks that gathered in it are delivered. */
  #gathering: NodeJS.Immediate | undefined
  /** Cut off because similar uploads wait. */
  isCostly = false
  #left = false
  /** The socket is paused. */
  #stopped = false
  /** The chunk that the reader holds. */
  #given: Buffer | undefined

  constructor(request: PiecewiseRequest, pace: UploadPace, keeper: PaceKeeper) {
    this.#request = request
    this.#pace = pace
    this.#keeper = keeper
    this.#guard = setInterval(() => this.#look(), pace.lookEveryMs).unref()
    if (request.destroyed) this.#fail(new Error('the client is gone'))
    else if (request.readableEnded) this.#end()
    else {
      request.waitedTooLong = this.#refuse
      this.#endPieces = takePieces(request, this.#take)
      request.on('end', this.#end).on('error', this.#fail).on('close', this.#close)
    }
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  /** Ends the reading: the reader gets this error, and the rest is not read. */
  cutOff(error: Error): void {
    if (this.#left) return
    this.#chunks.length = 0
    this.#gathered.clear()
    this.#fail(error)
    if (!this.#request.destroyed) this.#pause()
  }

  /** Not `async`, which would make two more promises for each chunk. */
  next(): Promise<IteratorResult<Buffer, undefined>> {
    this.#releaseChunk()
    const chunk = this.#chunks.shift() ?? this.#gatheredBytes()
    if (chunk !== undefined) {
      this.#given = chunk
      this.#readOn()
      return Promise.resolve({ value: chunk, done: false })
    }
    if (this.#failure !== undefined) return Promise.reject(this.#failure)
    if (this.#ended) return Promise.resolve({ value: undefined, done: true })
    this.#readOn()
    this.#waitingSince = performance.now()
    this.#wanted = Promise.withResolvers()
    return this.#wanted.promise
  }

  async return(): Promise<IteratorResult<Buffer, undefined>> {
    this.#releaseChunk()
    this.#letGo()
    if (!this.#ended) this.#pause()
    return { value: undefined, done: true }
  }

  readonly #take = (chunk: Buffer): boolean => {
    this.#bytes += chunk.length
    const small = this.#request.smallPieces - this.#smallPieces
    if ((small > 0 || this.#owedBytes > 0) && !this.#isPaidFor(chunk.length, small)) return false
    if (this.#bytes >= this.#pace.progressBytes) {
      this.#bytes = 0
      this.#waitedMs = 0
    }
    if (chunk.length < smallChunkBytes) this.#gather(chunk)
    else if (this.#wanted !== undefined && this.#gathered.length === 0) this.#give(chunk)
    else {
      const before = this.#gatheredBytes()
      if (before !== undefined) this.#chunks.push(before)
      this.#chunks.push(chunk)
      this.#deliver()
    }
    if (this.#isFull) this.#stop()
    return !this.#stopped
  }

  #gather(chunk: Buffer): void {
    this.#gathered.append(chunk)
    this.#gathering ??= setImmediate(this.#gatheredAll)
  }

  readonly #gatheredAll = (): void => {
    this.#gathering = undefined
    this.#deliver()
  }

  readonly #refuse = (refusal: RefusalError): void => {
    this.isCostly = true
    this.cutOff(refusal)
  }

  /** Delivers what is there to the reader, if it waits. */
  #deliver(): void {
    if (this.#wanted === undefined) return
    const chunk = this.#chunks.shift() ?? this.#gatheredBytes()
    if (chunk !== undefined) this.#give(chunk)
  }

  #give(chunk: Buffer): void {
    this.#given = chunk
    this.#arrived()?.resolve({ value: chunk, done: false })
  }

  #stop(): void {
    this.#stopped = true
    this.#request.socket.pause()
  }

  #readOn(ended = false): void {
    if (!this.#stopped || (!ended && (this.#left || this.#isFull))) return
    this.#stopped = false
    this.#request.socket.resume()
  }

  /** Permanently: from now on others may resume the request and its socket. */
  #pause(): void {
    this.#stop()
    this.#request.pause()
  }

  /** Pauses the client. */
  get #isFull(): boolean {
    return this.#chunks.length >= chunksAheadMax || this.#gathered.length >= gatheredBytesMax
  }

  #gatheredBytes(): Buffer | undefined {
    if (this.#gathered.length === 0) return undefined
    const bytes = this.#gathered.view()
    this.#gathered.clear()
    return bytes
  }

  /** @param small pieces that these bytes came in, 0: one that is not small */
  #isPaidFor(bytes: number, small: number): boolean {
    this.#owedBytes = Math.max(0, this.#owedBytes + Math.max(1, small) * smallPieceBytes - bytes)
    this.#smallPieces += small
    for (
      ;
      this.#smallPieces - this.#smallPiecesReported >= smallPiecesReported;
      this.#smallPiecesReported += smallPiecesReported
    )
      this.#keeper.tookSmallPieces?.(smallPiecesReported)?.catch((error: Error) => this.cutOff(error))
    if (this.#owedBytes <= this.#pace.owedBytesMax) return true
    this.cutOff(new RefusalError('error-rateLimit', { retryAfter: Math.ceil(this.#pace.lookEveryMs / 1000) }))
    return false
  }

  readonly #end = (): void => {
    this.#ended = true
    this.#letGo()
    this.#deliver()
    this.#readOn(true)
    this.#arrived()?.resolve({ value: undefined, done: true })
  }

  readonly #fail = (error: Error): void => {
    if (this.#failure !== undefined || this.#ended) return
    this.#failure = error
    this.#letGo()
    this.#arrived()?.reject(error)
  }

  readonly #close = (): void => this.#fail(new Error('the client is gone'))

  /** Ends the wait of the reader. */
  #arrived() {
    const wanted = this.#wanted
    this.#wanted = undefined
    if (this.#waitingSince !== undefined) this.#waitedMs += performance.now() - this.#waitingSince
    this.#waitingSince = undefined
    return wanted
  }

  #releaseChunk(): void {
    const chunk = this.#given
    this.#given = undefined
    if (chunk !== undefined) releaseBuffer(chunk)
  }

  #look(): void {
    const waiting = this.#waitingSince === undefined ? 0 : performance.now() - this.#waitingSince
    const waitedMs = this.#waitedMs + waiting
    this.#owedBytes = Math.max(0, this.#owedBytes - this.#pace.forgottenBytes)
    if (waitedMs > this.#pace.progressMs) this.#request.destroy(new Error('the client sends too slowly'))
    else if (waitedMs > this.#pace.scarceProgressMs && this.#keeper.isScarce())
      this.cutOff(new RefusalError('error-unavailable', { retryAfter: unavailableRetrySeconds }))
  }

  #letGo(): void {
    if (this.#left) return
    clearInterval(this.#guard)
    if (this.#gathering !== undefined) clearImmediate(this.#gathering)
    this.#left = true
    this.#endPieces?.()
    const request = this.#request
    request.off('end', this.#end).off('close', this.#close).off('error', this.#fail)
    // An error without a listener would end the process. Nothing of this reader is kept with the
    // request, which lives until its answer.
    request.on('error', ignore)
    if (request.waitedTooLong !== undefined) request.waitedTooLong = ignore
  }
}
