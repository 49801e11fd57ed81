/** A request's body, whole: for the small ones that are parsed. */
import { GrowingBytes, RefusalError } from '@holdfast/kernel'
import { type PiecewiseRequest, smallPieceBytes } from './piecewise-request.ts'

/**
 * Gives the body, or a RefusalError: error-bodySize when it is longer than `bytesMax`, error-body
 * when it is cut off. Unlike fastify's reader it keeps no list of the pieces.
 */
export function readBody(
  payload: PiecewiseRequest,
  { bytesMax, announced }: { bytesMax: number; announced: string | undefined },
  done: (error: Error | undefined, body: Buffer | undefined) => void,
): void {
  if (Number(announced) > bytesMax) {
    done(new RefusalError('error-bodySize'), undefined)
    return
  }
  const body = new GrowingBytes()
  const take = (piece: Buffer) => {
    // Small pieces cost as much as larger ones. A body that arrives byte by byte may have at most
    // 4 KiB.
    const costsBytes = payload.smallPieces * smallPieceBytes
    if (body.length + piece.length > bytesMax || costsBytes > bytesMax)
      end(new RefusalError('error-bodySize'))
    else body.append(piece)
  }
  const end = (error?: Error) => {
    payload.off('data', take).off('end', whole).off('error', cut).off('close', cut)
    // An unhandled error would end the process.
    payload.on('error', () => {})
    done(error, error === undefined ? body.view() : undefined)
  }
  const whole = () => end()
  const cut = () => end(new RefusalError('error-body'))
  payload.on('data', take).once('end', whole).once('error', cut).once('close', cut)
  if (payload.destroyed) cut()
}
