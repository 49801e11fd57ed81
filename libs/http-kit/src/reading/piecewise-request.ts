/** The pieces of a request's body as the parser finds them. */
import { IncomingMessage } from 'node:http'
import type { RefusalError } from '@holdfast/kernel'
import { GrowingBytes } from '@holdfast/kernel'

/**
 * Bytes of a small piece. A client chooses how small its pieces are. Each costs one or two
 * microseconds at any length.
 */
export const smallPieceBytes = 64
/** One read of the socket with fewer pieces is not examined. */
const fewPieces = 16
/**
 * Small pieces of one read after which `foundSmallPieces` is called. They take a millisecond. A
 * read may hold 11,000.
 */
const smallPiecesARead = 512

/** Takes a piece. @returns whether more may be read from the socket */
type TakePiece = (piece: Buffer) => boolean

export class PiecewiseRequest extends IncomingMessage {
  /** Called at most once for each read that holds many small pieces, with the time of its begin. */
  foundSmallPieces: ((sinceMs: number) => void) | undefined
  /** Called when reading the body was paused too long. Undefined: the connection is closed. */
  waitedTooLong: ((refusal: RefusalError) => void) | undefined
  /** Called when the body is complete or its connection ended. */
  arrivedWhole: (() => void) | undefined
  /** Receives the pieces in place of the stream. */
  taker: TakePiece | undefined
  /** Small pieces of the body up to now. Those that are gathered count one by one. */
  smallPieces = 0
  /** Small pieces of the current read. */
  #smallOfRead = 0
  #sinceMs = 0
  /**
   * The small pieces of the current read from the sixteenth on, in one buffer. A stream would keep
   * an object for each.
   */
  #gathered: GrowingBytes | undefined

  override push(piece: Buffer | null, encoding?: BufferEncoding): boolean {
    if (piece !== null && piece.length < smallPieceBytes && this.#isOneOfMany()) {
      this.#gathered ??= new GrowingBytes()
      this.#gathered.append(piece)
      return true
    }
    this.#passGathered()
    if (piece === null) this.arrivedWhole?.()
    return this.#pass(piece, encoding)
  }

  #pass(piece: Buffer | null, encoding?: BufferEncoding): boolean {
    if (piece === null || this.taker === undefined || this.readableLength > 0)
      return super.push(piece, encoding)
    return this.taker(piece)
  }

  #passGathered(): void {
    const gathered = this.#gathered
    if (gathered === undefined) return
    this.#gathered = undefined
    this.#pass(gathered.view())
  }

  #isOneOfMany(): boolean {
    this.smallPieces++
    this.#smallOfRead++
    if (this.#smallOfRead === fewPieces) {
      this.#sinceMs = performance.now()
      setImmediate(() => {
        this.#smallOfRead = 0
        this.#passGathered()
      })
    } else if (this.#smallOfRead === smallPiecesARead) this.foundSmallPieces?.(this.#sinceMs)
    return this.#smallOfRead >= fewPieces
  }
}

/**
 * A stream keeps an object for each piece that its reader does not take at once, and accepts 64 KiB
 * more after it is asked to pause: 10 MB for pieces of one byte. This keeps nothing.
 *
 * It first delivers what the stream already has. The stream's own end and error events stay.
 *
 * @param take receives each piece. @returns whether more may be read from the socket; after false
 *   the rest of the current read still comes
 * @returns a function that ends it: later pieces go to the stream
 */
export function takePieces(request: PiecewiseRequest, take: TakePiece): () => void {
  request.taker = take
  request.on('data', take)
  return () => {
    request.taker = undefined
    request.off('data', take)
  }
}
