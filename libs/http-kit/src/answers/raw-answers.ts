/**
 * Refusals outside of fastify's life cycle: to requests whose head it cannot take, and to sockets
 * without a request that could be answered.
 */
import { randomUUID } from 'node:crypto'
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { isFramed, RefusalError } from '@holdfast/kernel'
import type { RequestMetrics } from '../metrics/request-metrics.ts'
import { methods, sharedHeaders } from './headers.ts'
import { httpCodeOf, type KnownStatus, unavailableRetrySeconds } from './refusals.ts'

export class RawAnswers {
  readonly #headers: Readonly<Record<string, string>>
  readonly #metrics: RequestMetrics

  constructor({ cors, metrics }: { cors: boolean; metrics: RequestMetrics }) {
    this.#headers = sharedHeaders(cors)
    this.#metrics = metrics
  }

  refuse(response: ServerResponse, refusal: RefusalError, requestId: string): void {
    this.#metrics.refused(refusal.status)
    const body = JSON.stringify({ status: refusal.status })
    response.writeHead(httpCodeOf(refusal.status), {
      'x-request-id': requestId,
      ...this.#headers,
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-store',
      'content-length': Buffer.byteLength(body),
    })
    response.end(body)
  }

  /** The head cannot be used, and it is unknown where the request ends. */
  refuseHead(response: ServerResponse): void {
    response.setHeader('connection', 'close')
    this.refuse(response, new RefusalError('error-request'), randomUUID())
  }

  refuseExpectation(request: IncomingMessage, response: ServerResponse): void {
    if (isFramed(request)) this.refuse(response, new RefusalError('error-expect'), randomUUID())
    else this.refuseHead(response)
  }

  /** Malformed HTTP has no request that could be answered, only a socket. */
  refuseSocket(error: Error & { code?: string }, socket: Socket): void {
    const status = answerSocket(error, socket)
    if (status !== undefined) this.#metrics.refused(status)
  }
}

/** @returns undefined: the client is gone */
function answerSocket(error: Error & { code?: string }, socket: Socket): KnownStatus | undefined {
  if (error.code === 'ECONNRESET' || socket.destroyed || !socket.writable) {
    socket.destroy()
    return undefined
  }
  const status =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? 'error-headerSize'
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? 'error-timeout'
        : 'error-request'
  socket.end(refusalText(status), () => socket.destroy())
  return status
}

/** The answer to a connection, not to a request. The connection is closed after it. */
export function refusalText(status: KnownStatus): string {
  const code = httpCodeOf(status)
  const body = JSON.stringify({ status })
  return (
    `HTTP/1.1 ${code} ${STATUS_CODES[code]}\r\nContent-Type: application/json; charset=utf-8\r\n` +
    `Content-Length: ${Buffer.byteLength(body)}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n` +
    `${code === 429 || code === 503 ? `Retry-After: ${unavailableRetrySeconds}\r\n` : ''}` +
    `${code === 405 ? `Allow: ${methods}\r\n` : ''}Connection: close\r\n\r\n${body}`
  )
}
