/**
 * Where a request carries its account token: the Authorization header, the query of a GET, the body
 * of any other method. Other places are ignored. Two places with different values are refused, and
 * so is a token sent twice in one place.
 */

import { RefusalError } from '@holdfast/kernel'
import type { FastifyRequest } from 'fastify'
import { RepeatedParameter } from './bodies.ts'

/** The token as sent; undefined when none was. @throws RefusalError error-token */
export function tokenOf(request: FastifyRequest): string | undefined {
  const fromHeader = bearerOf(request)
  const isRead = request.method === 'GET' || request.method === 'HEAD'
  const fields = (isRead ? request.query : request.body) as Record<string, unknown> | undefined | null
  const sent = fields && Object.hasOwn(fields, 'token') ? fields.token : undefined
  if (sent instanceof RepeatedParameter) throw new RefusalError('error-token')
  if (sent !== undefined && sent !== null && typeof sent !== 'string') throw new RefusalError('error-token')
  return oneToken(fromHeader, sent ?? undefined)
}

/**
 * The one value of two places; empty ones count as none.
 * @throws RefusalError error-token when they differ
 */
export function oneToken(first: string | undefined, second: string | undefined): string | undefined {
  if (!second) return first || undefined
  if (first && first !== second) throw new RefusalError('error-token')
  return second
}

/** The bearer token of the header alone. @throws RefusalError error-token when two differ */
export function bearerOf(request: FastifyRequest): string | undefined {
  if (request.headers.authorization === undefined) return undefined
  let token: string | undefined
  const raw = request.raw.rawHeaders
  for (let at = 0; at < raw.length; at += 2) {
    if (raw[at]?.toLowerCase() !== 'authorization') continue
    const [, value] = /^bearer[ \t]+(\S+)[ \t]*$/i.exec(raw[at + 1] ?? '') ?? []
    token = oneToken(token, value)
  }
  return token
}

/**
 * The token of a browser that is signed in at the pages. Only downloads accept it: they change
 * nothing.
 */
export function accountCookieOf(request: FastifyRequest): string | undefined {
  return /(?:^|;)\s*accountToken=([A-Za-z0-9_-]+)/.exec(request.headers.cookie ?? '')?.[1]
}
