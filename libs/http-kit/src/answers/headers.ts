/** The headers that all answers of a host have. */
import type { ServerResponse } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'

const corsHeaders = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers': 'Content-Range, ETag, Retry-After, RateLimit',
}

export const methods = 'GET, HEAD, POST, PUT, DELETE, OPTIONS'

export const preflightHeaders = {
  'access-control-allow-methods': methods,
  'access-control-allow-headers':
    'Authorization, Content-Type, Idempotency-Key, Prefer, Range, X-BL, X-Request-Id, X-Website-Token',
  'access-control-max-age': '86400',
}

/** Headers that all answers of a host have. */
export function sharedHeaders(cors: boolean): Readonly<Record<string, string>> {
  return {
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    ...(cors ? corsHeaders : {}),
  }
}

/**
 * Ends fastify's part of the answer, for bodies that are written without a stream. The head has all
 * headers that were set. The caller writes the body to the result and ends it.
 */
export function takeOver(
  request: FastifyRequest,
  reply: FastifyReply,
  { code, headers }: { code: number; headers: Record<string, string> },
): ServerResponse {
  request.hostMetrics.began(reply)
  reply.hijack()
  const own = reply.getHeaders() as Record<string, string>
  return reply.raw.writeHead(code, { ...hostHeaders(request), ...own, ...headers })
}

/** Headers of every answer, unless its operation sets others. */
function hostHeaders(request: FastifyRequest): Record<string, string> {
  const headers: Record<string, string> = {
    'x-request-id': request.id,
    ...request.sharedHeaders,
    'cache-control': 'no-store',
  }
  const shown = request.rateLimit
  if (shown !== null && shown !== undefined) {
    headers['ratelimit-policy'] = `"${shown.policy}";q=${shown.quota};w=${shown.windowSeconds}`
    headers.ratelimit = `"${shown.policy}";r=${shown.remaining};t=${shown.resetSeconds}`
  }
  return headers
}

export function finishHeaders(request: FastifyRequest, reply: FastifyReply) {
  request.hostMetrics.began(reply)
  const own = reply.getHeaders()
  const headers = hostHeaders(request)
  for (const name in headers) if (own[name] === undefined) reply.header(name, headers[name])
}
