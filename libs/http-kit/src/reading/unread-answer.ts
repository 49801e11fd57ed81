/**
 * Refuses a request whose body is still coming. Closing at once would reset the connection, and the
 * client, or a proxy before it, would see that instead of the reason. So the whole answer is sent,
 * incoming bytes are discarded for a while, and then the connection closes.
 */
import { Readable } from 'node:stream'
import type { RefusalError } from '@holdfast/kernel'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { httpCodeOf } from '../answers/refusals.ts'
import { PiecewiseRequest, takePieces } from './piecewise-request.ts'

const lingerBytes = 8 * 1024 * 1024
const lingerMs = 10_000
/** A smaller piece counts as this many bytes, because it costs as much time. */
const pieceBytesMin = 1024
/** A piece of a few bytes counts as this many: after 128 of them the connection closes. */
const tinyCountsAs = 64 * 1024

/** @param isCostly reading the rest costs more than an answer that may be lost */
export function answerUnread(
  request: FastifyRequest,
  reply: FastifyReply,
  { refusal, isCostly }: { refusal: RefusalError; isCostly: boolean },
): FastifyReply {
  if (refusal.retryAfter !== undefined) reply.header('retry-after', String(refusal.retryAfter))
  const envelope = Buffer.from(JSON.stringify({ status: refusal.status }))
  const unread = !isCostly && request.raw instanceof PiecewiseRequest ? request.raw : undefined
  return reply
    .code(httpCodeOf(refusal.status))
    .header('connection', 'close')
    .header('content-length', String(envelope.length))
    .type('application/json; charset=utf-8')
    .send(Readable.from(lingering(envelope, unread), { objectMode: false }))
}

/** The length is announced, so the client has the whole answer before the connection ends. */
async function* lingering(envelope: Buffer, body: PiecewiseRequest | undefined): AsyncGenerator<Buffer> {
  yield envelope
  if (body !== undefined) await readAway(body)
}

function readAway(body: PiecewiseRequest): Promise<void> {
  return new Promise((resolve) => {
    let bytes = 0
    let isDone = body.complete || body.destroyed
    const done = () => {
      isDone = true
      clearTimeout(deadline)
      body.off('end', done).off('close', done).off('error', done)
      resolve()
    }
    let { smallPieces } = body
    const count = ({ length }: Buffer) => {
      bytes += Math.max(length, pieceBytesMin) + (body.smallPieces - smallPieces) * tinyCountsAs
      smallPieces = body.smallPieces
      if (bytes > lingerBytes && !isDone) done()
      return !isDone
    }
    const deadline = setTimeout(done, lingerMs)
    if (isDone) return done()
    // Bytes beyond the bound are dropped, too, until the connection is closed.
    takePieces(body, count)
    body.once('end', done).once('close', done).once('error', done)
    body.resume()
    body.socket.resume()
  })
}
