/**
 * Client addresses as keys of budgets and bans. `URL` spells a v6 address as RFC 5952 asks: 1 µs,
 * where a library in JavaScript takes 5. It matters where thousands of connections come at once.
 */
import { isIPv6 } from 'node:net'
import { rangesOf } from '@holdfast/access'
import type { FastifyRequest } from 'fastify'

/** A v4 address in canonical form: the common case, recognised by this alone. */
const plainV4 = /^(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)){3}$/
const mappedV4 = '::ffff:'

/**
 * Canonical text. A v4 address mapped into v6 becomes the v4 address; a zone is dropped, and so is
 * a port as some proxies write it (`1.2.3.4:5555`, `[2001:db8::1]:80`). Undefined when it is no
 * address.
 */
export function normalAddress(address: string | undefined): string | undefined {
  if (address === undefined) return undefined
  const unmapped = address.startsWith(mappedV4) ? address.slice(mappedV4.length) : address
  if (plainV4.test(unmapped)) return unmapped
  if (!unmapped.includes('%') && isIPv6(unmapped)) return canonicalV6(unmapped)
  const text = withoutPort(address.trim()).split('%', 1)[0] as string
  // Proxies never send short forms of v4 ("127.1", "0x7f.1").
  if (plainV4.test(text)) return text
  return isIPv6(text) ? canonicalV6(text) : undefined
}

function canonicalV6(address: string): string {
  const canonical = new URL(`http://[${address}]`).hostname.slice(1, -1)
  return canonical.startsWith(mappedV4) ? mappedIn(canonical) : canonical
}

/** @param canonical `::ffff:102:304`, or a v6 address of other groups behind the same beginning */
function mappedIn(canonical: string): string {
  const groups = canonical.slice(mappedV4.length).split(':')
  if (groups.length !== 2) return canonical
  const bytes = groups.map((group) => Number.parseInt(group, 16)).flatMap((two) => [two >> 8, two & 0xff])
  return bytes.join('.')
}

function withoutPort(text: string): string {
  const bracketed = /^\[([^\]]*)\](?::\d{1,5})?$/.exec(text)
  if (bracketed !== null) return bracketed[1] as string
  const [host = '', port, ...more] = text.split(':')
  return port !== undefined && more.length === 0 && /^\d{1,5}$/.test(port) ? host : text
}

/**
 * The client's address as trusted proxies report it; v4-mapped v6 as v4. If a proxy passes on text
 * that is no address, the result is that proxy's address: invalid values must not become one
 * client.
 */
export function clientAddress(request: FastifyRequest): string {
  request.address ||= addressOf(request)
  return request.address
}

function addressOf(request: FastifyRequest): string {
  const plain = normalAddress(request.ip)
  if (plain !== undefined) return plain
  const known = request.ips?.map((one) => normalAddress(one)).findLast((one) => one !== undefined)
  return known ?? normalAddress(request.socket?.remoteAddress) ?? 'unknown'
}

export type TrustProxy = string[] | number | false

const namedNetworks: Record<string, string[]> = {
  loopback: ['127.0.0.0/8', '::1/128'],
  linklocal: ['169.254.0.0/16', 'fe80::/10'],
  uniquelocal: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7'],
}

/**
 * Which senders of X-Forwarded-For are trusted: the named ones, or a number of nearest hops. Never
 * all.
 * @returns a function of an address, in any form that `normalAddress` reads, and its hop: 0 is the
 *   peer of the connection
 */
export function proxyTrust(proxies: TrustProxy): (address: string, hop: number) => boolean {
  if (proxies === false) return () => false
  if (typeof proxies === 'number') return (_address, hop) => hop < proxies
  const trusted = rangesOf(proxies.flatMap((name) => namedNetworks[name] ?? name))
  return (address) => {
    const plain = normalAddress(address)
    return plain !== undefined && trusted.has(plain)
  }
}

/** The unit of a budget: a v4 address, or the /64 of a v6 address. */
export function networkOf(address: string): string {
  return prefixOf(address, 64) ?? address
}

/**
 * The /48 of a v6 address: what one customer or one rented server gets at most, 65,536 networks.
 * Undefined for everything else: v4 networks are expensive.
 */
export function siteOf(address: string): string | undefined {
  return prefixOf(address, 48)
}

/** The larger network that new keys share while a table is full: /16 of v4, /32 of v6. */
export function outerNetworkOf(address: string): string {
  if (plainV4.test(address)) return `${address.split('.', 2).join('.')}.0.0/16`
  return prefixOf(address, 32) ?? address
}

const groupsOfV6 = 8
const bitsOfGroup = 16

/**
 * Called for each connection and request.
 * @param text as `normalAddress` gives it, or another key of a budget: an account's id
 * @param bits at most 64, so that the rest is the longest run of zeros
 * @returns undefined unless it is a v6 address
 */
function prefixOf(text: string, bits: 32 | 48 | 64): string | undefined {
  if (!text.includes(':') || !isIPv6(text)) return undefined
  const [head = '', tail] = text.split('::')
  const groups = head === '' ? [] : head.split(':')
  if (tail !== undefined) {
    const last = tail === '' ? [] : tail.split(':')
    while (groups.length + last.length < groupsOfV6) groups.push('0')
    groups.push(...last)
  }
  groups.length = bits / bitsOfGroup
  while (groups.at(-1) === '0') groups.pop()
  return `${groups.join(':')}::/${bits}`
}
