/**
 * Checks of request heads that the HTTP parser accepts. Another server on the way may read such a
 * head differently. Then the two disagree about where the next request begins.
 */
import type { IncomingMessage } from 'node:http'

/** A name, which may be empty, or an address of v6, which may have a zone; and a port, RFC 3986. */
const authority = /^(?:[\w.~!$&'()*+,;=%-]*|\[[\da-f:.]+(?:%[\w.~%-]+)?\])(?::\d*)?$/i
/** The start of an absolute-form target, where a user may be named; the path follows. */
const origin = /^https?:\/\/(?:[^/?#@]*@)?([^/?#@]+)(?=[/?#]|$)/i

/** Hosts that were found sound. Clients of a service name a few. */
const soundHosts = new Set<string>()
const soundHostsMax = 100
const soundHostLengthMax = 300

/**
 * The target as routes compare it: its path and query. Proxies may ask for `http://host/path`, and
 * OPTIONS for `*`. @returns undefined: it is none of these
 */
export function originForm({ method, url: target = '' }: IncomingMessage): string | undefined {
  if (target.startsWith('/')) return target
  if (target === '*') return method === 'OPTIONS' ? target : undefined
  const [start, host] = origin.exec(target) ?? []
  if (start === undefined || host === undefined) return undefined
  if (!authority.test(host) || !URL.canParse(start)) return undefined
  const rest = target.slice(start.length)
  return rest.startsWith('/') ? rest : `/${rest}`
}

/** One Host; HTTP/1.0 may omit it. Of two Host headers, a proxy may have used the other one. */
export function hasSoundHost({ httpVersion, rawHeaders }: IncomingMessage): boolean {
  let count = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string
    if (name.length !== 4 || name.toLowerCase() !== 'host') continue
    if (!isSoundHost(rawHeaders[at + 1] as string)) return false
    count++
  }
  return count === 1 || (count === 0 && httpVersion === '1.0')
}

function isSoundHost(host: string): boolean {
  if (soundHosts.has(host)) return true
  if (!authority.test(host)) return false
  if (soundHosts.size >= soundHostsMax) soundHosts.clear()
  if (host.length <= soundHostLengthMax) soundHosts.add(host)
  return true
}
