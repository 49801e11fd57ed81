/** The pieces of a request's body as the parser finds them, past the request's stream. */
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'

/**
 * A stream keeps an object for each piece that its reader does not take at once, and goes on to
 * take in 64 KiB when it is told to pause: 10 MB of pieces of one byte. Here nothing is kept.
 *
 * What the stream has already is told first. Its events of the end and of errors stay as they are.
 *
 * @param take is told each piece. @returns whether more may be read from the socket; after a no the
 * rest of what was read from it still comes
 * @returns what ends it: later pieces go to the stream
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
