/**
 * Who may use the moderation page in a browser.
 *
 * The callers of the admin host may: root and the user of the service on this machine, and those
 * with the admin token. A browser sends the token once by a form and then has it as a cookie. A
 * browser must not act for another site. So if a request names its site, this must be our own. A
 * change must name its site, and must contain a mark that only our own pages contain.
 */

import { createHmac, randomBytes } from 'node:crypto'
import type { Clock } from '@holdfast/kernel'
import type { FastifyRequest } from 'fastify'
import { judge } from './guard.ts'
import { isSameSecret } from './same-secret.ts'

export type PageVerdict = 'allowed' | 'error-token' | 'error-forbidden'

const cookieName = 'holdfast-moderation'
const sessionSeconds = 12 * 60 * 60

export interface PageSessionsOptions {
  adminToken: string | undefined
  isOperator: (request: FastifyRequest) => Promise<boolean>
  clock: Pick<Clock, 'now'>
}

export class PageSessions {
  readonly #options: PageSessionsOptions
  /** Form marks and sessions end with the process. */
  readonly #secret = randomBytes(32)

  constructor(options: PageSessionsOptions) {
    this.#options = options
  }

  async judge(request: FastifyRequest): Promise<PageVerdict> {
    if (!isOwnSite(request)) return 'error-forbidden'
    if (this.#session(request) !== undefined) return 'allowed'
    // The other rules against foreign pages are checked above.
    const { origin: _, 'sec-fetch-site': __, ...headers } = request.headers
    const { socket, httpVersion } = request.raw
    const remoteAddress = socket.remoteAddress ?? ''
    const isOperator = () => this.#options.isOperator(request)
    return judge({ remoteAddress, headers, httpVersion, isOperator }, [this.#options.adminToken])
  }

  /** Forms of our pages contain it. */
  markFor(request: FastifyRequest): string {
    return this.#sign(`mark ${this.#session(request) ?? ''}`)
  }

  isMarked(request: FastifyRequest, mark: unknown): boolean {
    return typeof mark === 'string' && isSameSecret(mark, this.markFor(request))
  }

  /**
   * A cookie for a connection by TLS is never sent by another one.
   *
   * @returns the cookie; undefined: that is not the admin token.
   */
  signIn({ protocol }: Pick<FastifyRequest, 'protocol'>, token: unknown): string | undefined {
    const { adminToken, clock } = this.#options
    if (typeof token !== 'string' || adminToken === undefined || !isSameSecret(token, adminToken))
      return undefined
    const ends = String(Math.floor(clock.now() / 1000) + sessionSeconds)
    const value = `${ends}.${this.#sign(`session ${ends}`)}`
    return `${cookieName}=${value}; Path=/moderation; Max-Age=${sessionSeconds}; HttpOnly; SameSite=Strict${protocol === 'https' ? '; Secure' : ''}`
  }

  /** The text of a valid session. */
  #session({ headers }: FastifyRequest): string | undefined {
    const match = new RegExp(`(?:^|; )${cookieName}=(\\d{1,12})\\.([\\w-]{43})(?:;|$)`).exec(
      headers.cookie ?? '',
    )
    if (match === null || this.#options.adminToken === undefined) return undefined
    const [, ends = '', signature = ''] = match
    const isValid = isSameSecret(signature, this.#sign(`session ${ends}`))
    return isValid && Number(ends) * 1000 > this.#options.clock.now() ? `${ends}.${signature}` : undefined
  }

  #sign(text: string): string {
    return createHmac('sha256', this.#secret).update(text).digest('base64url')
  }
}

/** Every browser names the site of a form; current ones name that of each request. */
function isOwnSite({ headers, method }: FastifyRequest): boolean {
  const site = headers['sec-fetch-site']
  if (site !== undefined && site !== 'none' && site !== 'same-origin') return false
  if (headers.origin === undefined) return method === 'GET' || method === 'HEAD'
  return URL.parse(headers.origin)?.host === headers.host
}
