/** A request's body, whole: for the small ones that are parsed. */
import type { IncomingMessage } from 'node:http'
import { GrowingBytes } from '@holdfast/kernel'
import { Refusal } from './refusals.ts'

/**
 * A client chooses how small its pieces are, and each costs a microsecond whatever its length. What
 * shorter ones lack counts against the longest body: a body byte by byte has 4 KiB at most.
 */
const pieceBytesMin = 64

/**
 * Tells the body, or a Refusal: error-bodySize when it is longer than `bytesMax`, error-body when
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
    // One that nobody hears would end the process.
    payload.on('error', () => {})
    told(error, error === undefined ? body.view() : undefined)
  }
  const whole = () => end()
  const cut = () => end(new Refusal('error-body'))
  payload.on('data', take).once('end', whole).once('error', cut).once('close', cut)
  if ((payload as IncomingMessage).destroyed) cut()
}
