/**
 * Who may use a direct link. A direct link is its own access path: it ignores the folder's public
 * flag and password, and applies its own restrictions. Addresses and basic auth are reliable
 * checks; domains depend on what the browser reports.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import { domainToASCII } from 'node:url'
import { parseRange } from './addresses.ts'

export interface DirectLinkInfo {
  /** Unix seconds; 0: no expiry. */
  expireTime: number
  /** Addresses and CIDR ranges; empty: any. */
  sourceIpsAllowed: readonly string[]
  domainsAllowed: readonly string[]
  domainsBlocked: readonly string[]
  /** Empty: none needed. `hash` is SHA-256 of salt ‖ password. */
  auth: readonly { user: string; salt: Uint8Array; hash: Uint8Array }[]
}

export interface DirectLinkUse {
  /** Unix seconds. */
  now: number
  sourceIp: string
  /** Host of Origin, else of Referer; empty: neither was sent. */
  domain: string
  user: string | undefined
  password: string | undefined
}

/**
 * `forbidden`: 403 by address or domain. `passwordRequired` and `passwordWrong`: 401, basic
 * credentials missing or wrong.
 */
export type DirectLinkAccess = 'open' | 'notFound' | 'forbidden' | 'passwordRequired' | 'passwordWrong'

export function directLinkAccess(link: DirectLinkInfo, use: DirectLinkUse): DirectLinkAccess {
  if (link.expireTime !== 0 && use.now >= link.expireTime) return 'notFound'
  if (!addressAllowed(link.sourceIpsAllowed, use.sourceIp)) return 'forbidden'
  if (!domainAllowed(link, normalDomain(use.domain))) return 'forbidden'
  if (link.auth.length === 0) return 'open'
  if (use.user === undefined || use.password === undefined) return 'passwordRequired'
  return credentialsMatch(link.auth, use.user, use.password) ? 'open' : 'passwordWrong'
}

function addressAllowed(allowed: readonly string[], address: string): boolean {
  if (allowed.length === 0) return true
  return allowed.some((text) => parseRange(text)?.has(address) === true)
}

/**
 * With allowed domains a request must name one of them. With only blocked domains a request without
 * a domain passes.
 */
function domainAllowed(
  link: Pick<DirectLinkInfo, 'domainsAllowed' | 'domainsBlocked'>,
  domain: string | undefined,
): boolean {
  if (domain !== undefined && link.domainsBlocked.some((blocked) => covers(blocked, domain))) return false
  if (link.domainsAllowed.length === 0) return true
  return domain !== undefined && link.domainsAllowed.some((allowed) => covers(allowed, domain))
}

/** The longest domain, RFC 1035. */
const nameLengthMax = 253

/** A domain covers itself and its subdomains. */
function covers(pattern: string, domain: string): boolean {
  const wanted = normalDomain(pattern)
  return wanted !== undefined && (domain === wanted || domain.endsWith(`.${wanted}`))
}

/**
 * Lower case, punycode, without port, closing dot, leading `*.` or `.`, scheme and path. Undefined
 * when nothing is left, or when the text is longer than a domain name. Owners paste addresses as
 * well as names.
 */
export function normalDomain(text: string): string | undefined {
  const host = text
    .trim()
    .replace(/^[a-z][a-z0-9+.-]*:\/\//i, '')
    .replace(/[/?#].*$/s, '')
    .replace(/^\*?\./, '')
  const bare = host.startsWith('[') ? host.replace(/\](?::\d*)?$/, ']') : host.replace(/:\d*$/, '')
  const name = bare.replace(/\.$/, '')
  // Compared as written: a URL parser would read a number of zeros as an address.
  if (name.length > nameLengthMax) return undefined
  const ascii = domainToASCII(name)
  return ascii === '' || ascii.length > nameLengthMax ? undefined : ascii
}

/** Compares every entry, so that the time does not reveal which user names exist. */
function credentialsMatch(auth: DirectLinkInfo['auth'], user: string, password: string): boolean {
  let match = false
  for (const entry of auth) {
    const hash = createHash('sha256').update(entry.salt).update(password).digest()
    const same = entry.hash.length === hash.length && timingSafeEqual(entry.hash, hash)
    match = (same && entry.user === user) || match
  }
  return match
}
