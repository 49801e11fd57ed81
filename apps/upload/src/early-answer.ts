/**
 * Refusing an upload whose bytes are still coming. Closing at once would reset the connection, and
 * the client would see that instead of the reason. So the whole answer is sent, what comes is read
 * away for a while, and then the connection closes.
 */
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { httpCodeOf, logFailure, Refusal, refusalOf } from '@holdfast/http-kit'
import type { FastifyReply, FastifyRequest } from 'fastify'

const lingerBytes = 8 * 1024 * 1024
const lingerMs = 10_000
/** What a piece counts at least: small ones cost no less time. */
const pieceBytesMin = 1024

/**
 * @throws the error itself when the body is here already: then it is answered like any other; a
 * refusal nobody hears when the client is gone.
 */
export function answerEarly(request: FastifyRequest, reply: FastifyReply, error: unknown): FastifyReply {
  if (request.raw.complete) throw error
  if (request.raw.destroyed) throw new Refusal('error-body')
  const refusal = refusalOf(error)
  const code = httpCodeOf(refusal.status)
  logFailure(error, request, refusal)
  if (refusal.retryAfter !== undefined) reply.header('retry-after', String(refusal.retryAfter))
  const envelope = Buffer.from(JSON.stringify({ status: refusal.status }))
  return reply
    .code(code)
    .header('connection', 'close')
    .header('content-length', String(envelope.length))
    .type('application/json; charset=utf-8')
    .send(Readable.from(lingering(envelope, request.raw), { objectMode: false }))
}

/**
 * The length is announced, so the client has the answer whole before this ends and the connection
 * with it.
 */
async function* lingering(envelope: Buffer, body: IncomingMessage): AsyncGenerator<Buffer> {
  yield envelope
  await readAway(body)
}

function readAway(body: IncomingMessage): Promise<void> {
  return new Promise((resolve) => {
    let bytes = 0
    const done = () => {
      clearTimeout(deadline)
      body.off('data', count).off('end', done).off('close', done).off('error', done)
      body.pause()
      resolve()
    }
    const count = (chunk: Buffer) => {
      bytes += Math.max(chunk.length, pieceBytesMin)
      if (bytes > lingerBytes) done()
    }
    const deadline = setTimeout(done, lingerMs)
    if (body.complete || body.destroyed) return done()
    body.on('data', count).once('end', done).once('close', done).once('error', done)
    body.resume()
  })
}
