/**
 * Who may use the admin host: a client with the admin token, or, without one, root and the user of
 * the service on this machine (`local-caller.ts`). The metrics token opens `/metrics` alone.
 *
 * "On this machine" is accepted only for a plain connection from loopback. A web page in a browser
 * on this machine reaches loopback too: by a name that it rebinds to 127.0.0.1 (its Host is then
 * that name) or by a request across origins (the browser then adds Origin or Sec-Fetch-Site). A
 * reverse proxy on this machine forwards others (Forwarded headers, or its own Host name, or the
 * HTTP/1.0 that nginx uses for a plain `proxy_pass` without other settings). None of these passes
 * without the token, which no page can make a browser send.
 *
 * It cannot detect a proxy that speaks HTTP/1.1, adds no header, and calls us by a loopback
 * address. Do not put the admin host behind one.
 */

import type { IncomingHttpHeaders } from 'node:http'
import { normalAddress } from '@holdfast/http-kit'
import { isSameSecret } from './same-secret.ts'

export type AccessDecision = 'allowed' | 'error-token' | 'error-forbidden'

export interface AdminCaller {
  /** The address of the connection itself, never one from a header. */
  remoteAddress: string
  headers: IncomingHttpHeaders
  /** `1.1` when it is absent. */
  httpVersion?: string
  /** Whether the connection is that of a user who needs no token; asked of loopback ones alone. */
  isOperator: () => Promise<boolean>
}

export async function judge(
  { remoteAddress, headers, httpVersion, isOperator }: AdminCaller,
  /** Each of them is enough. */
  tokens: readonly (string | undefined)[],
): Promise<AccessDecision> {
  const sent = bearerOf(headers.authorization)
  if (headers.authorization !== undefined)
    return sent !== undefined && tokens.some((token) => token !== undefined && isSameSecret(sent, token))
      ? 'allowed'
      : 'error-token'
  if (!isLoopback(remoteAddress) || wasForwarded(headers) || httpVersion === '1.0') return 'error-token'
  if (!namesThisMachine(headers.host) || comesFromAPage(headers)) return 'error-forbidden'
  return (await isOperator()) ? 'allowed' : 'error-token'
}

function bearerOf(authorization: string | undefined): string | undefined {
  return /^Bearer +(\S+)$/i.exec(authorization ?? '')?.[1]
}

function isLoopback(address: string): boolean {
  const plain = normalAddress(address)
  return plain === '::1' || plain?.startsWith('127.') === true
}

/**
 * Headers besides `X-Forwarded-…` in which proxies and content networks name the client's address.
 */
const forwardings = new Set([
  'forwarded',
  'via',
  'x-real-ip',
  'x-client-ip',
  'x-cluster-client-ip',
  'x-original-forwarded-for',
  'x-envoy-external-address',
  'true-client-ip',
  'cf-connecting-ip',
  'fastly-client-ip',
  'cdn-loop',
])

function wasForwarded(headers: IncomingHttpHeaders): boolean {
  for (const name in headers) if (forwardings.has(name) || name.startsWith('x-forwarded-')) return true
  return false
}

/**
 * Addresses and localhost cannot be rebound; a name can. A client on loopback uses these; any other
 * address means that a proxy was called by it.
 */
function namesThisMachine(host: string | undefined): boolean {
  const name = (host ?? '').replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1')
  return name.toLowerCase() === 'localhost' || isLoopback(name)
}

function comesFromAPage(headers: IncomingHttpHeaders): boolean {
  const site = headers['sec-fetch-site']
  return headers.origin !== undefined || (site !== undefined && site !== 'none')
}
