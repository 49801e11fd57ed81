/** A request's body, whole: for the small ones that are parsed. */
import type { IncomingMessage } from 'node:http'
import { GrowingBytes } from '@holdfast/kernel'
import { Refusal } from './refusals.ts'

/**
 * A client chooses the size of its pieces, and each piece costs a microsecond at any length. A
 * shorter piece counts as this many bytes towards the longest body: a body sent byte by byte has 4
 * KiB at most.
 */
const pieceBytesMin = 64

/**
 * Gives the body, or a Refusal: error-bodySize when it is longer than `bytesMax`, error-body when
 * it is cut off. Unlike fastify's reader it keeps no list of the pieces.
 */
export function readBody(
  payload: NodeJS.ReadableStream,
  { bytesMax, announced }: { bytesMax: number; announced: string | undefined },
  told: (error: Error | undefined, body: Buffer | undefined) => void,
): void {
  if (Number(announced) > bytesMax) {
    told(new Refusal('error-bodySize'), undefined)
    return
  }
  const body = new GrowingBytes()
  let lacking = 0
  const take = (piece: Buffer) => {
    lacking += Math.max(0, pieceBytesMin - piece.length)
    if (body.length + piece.length > bytesMax || lacking > bytesMax) end(new Refusal('error-bodySize'))
    else body.append(piece)
  }
  const end = (error?: Error) => {
    payload.off('data', take).off('end', whole).off('error', cut).off('close', cut)
    // An unhandled error would end the process.
    payload.on('error', () => {})
    told(error, error === undefined ? body.view() : undefined)
  }
  const whole = () => end()
  const cut = () => end(new Refusal('error-body'))
  payload.on('data', take).once('end', whole).once('error', cut).once('close', cut)
  if ((payload as IncomingMessage).destroyed) cut()
}
