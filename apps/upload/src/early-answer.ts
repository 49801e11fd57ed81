/**
 * Refuses an upload whose bytes are still coming. Closing at once would reset the connection, and
 * the client would see that instead of the reason. So the whole answer is sent, incoming bytes are
 * discarded for a while, and then the connection closes.
 */
import { Readable } from 'node:stream'
import {
  httpCodeOf,
  logFailure,
  type PiecewiseRequest,
  RefusalError,
  refusalOf,
  takePieces,
} from '@holdfast/http-kit'
import type { FastifyReply, FastifyRequest } from 'fastify'

const lingerBytes = 8 * 1024 * 1024
const lingerMs = 10_000
/**
 * The minimum that a piece counts, because small ones cost as much time, and the minimum for one of
 * a few bytes: 128 of those are enough.
 */
const pieceBytesMin = 1024
const tinyCountsAs = 64 * 1024

/**
 * @throws the error itself when the whole body has arrived: then it is answered like any other; a
 *   refusal that is not sent when the client is gone.
 *
 * @param isCostly reading the rest costs more than an answer that may be lost
 */
export function answerEarly(
  request: FastifyRequest,
  reply: FastifyReply,
  error: unknown,
  isCostly = false,
): FastifyReply {
  if (request.raw.complete) {
    request.raw.socket.resume()
    throw error
  }
  if (request.raw.destroyed) throw new RefusalError('error-body')
  const refusal = refusalOf(error)
  const code = httpCodeOf(refusal.status)
  logFailure(error, request, refusal)
  if (refusal.retryAfter !== undefined) reply.header('retry-after', String(refusal.retryAfter))
  const envelope = Buffer.from(JSON.stringify({ status: refusal.status }))
  // Requests of our hosts are such.
  const unread = isCostly ? undefined : (request.raw as PiecewiseRequest)
  return reply
    .code(code)
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
