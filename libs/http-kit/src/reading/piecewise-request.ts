/** The pieces of a request's body as the parser finds them. */
import { IncomingMessage } from 'node:http'
import type { RefusalError } from '@holdfast/kernel'
import { GrowingBytes } from '@holdfast/kernel'

/** A client chooses how small its pieces are. Each costs one or two microseconds at any length. */
export const smallPieceBytes = 64
/** Fewer in one read of the socket are not examined. */
const fewPieces = 16
/** This many small pieces of one read take a millisecond. The read may hold 11,000. */
const smallPiecesARead = 512

/** Takes a piece. @returns whether more may be read from the socket */
type TakePiece = (piece: Buffer) => boolean

export class PiecewiseRequest extends IncomingMessage {
  /** Called once a read with the time at which it began: it holds many small pieces. */
  foundSmallPieces: ((sinceMs: number) => void) | undefined
  /** Called when the body waited too long to be read on. Otherwise the connection is closed. */
  waitedTooLong: ((refusal: RefusalError) => void) | undefined
  /** Called once nothing more comes of the body. */
  arrivedWhole: (() => void) | undefined
  /** Gets the pieces past the stream. */
  taker: TakePiece | undefined
  /** So far. Many of them arrive as one. */
  smallPieces = 0
  /** In this read. */
  #smallOfRead = 0
  #sinceMs = 0
  /** Small pieces of this read, from the sixteenth on: a stream keeps an object for each. */
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
 * more after it is told to pause: 10 MB for pieces of one byte. This keeps nothing.
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
