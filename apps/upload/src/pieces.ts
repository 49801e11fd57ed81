/** The pieces of a request's body as the parser finds them, past the request's stream. */
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'

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
export function takePieces(request: IncomingMessage, take: (piece: Buffer) => boolean): () => void {
  request.push = (piece: Buffer | null): boolean => {
    if (piece === null || request.readableLength > 0) return Readable.prototype.push.call(request, piece)
    return take(piece)
  }
  request.on('data', take)
  return () => {
    request.push = Readable.prototype.push
    request.off('data', take)
  }
}
