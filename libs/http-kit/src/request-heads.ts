/**
 * Checks of request heads that the HTTP parser accepts. Another server on the way may read such a
 * head differently. Then the two disagree about where the next request begins.
 */
import type { IncomingMessage } from 'node:http'

/** The start of an absolute-form target; the path follows. */
const origin = /^https?:\/\/[^/?#]*/i
/** The characters of RFC 3986 for a host and its port. */
const hostCharacters = /^[\w.~!$&'()*+,;=%:[\]-]*$/

/** Proxies may ask for `http://host/path`. Routes compare the path. */
export function originForm(target: string): string {
  if (target.startsWith('/') || !origin.test(target)) return target
  const rest = target.replace(origin, '')
  return rest.startsWith('/') ? rest : `/${rest}`
}

/** One Host; HTTP/1.0 may omit it. Of two Host headers, a proxy may have used the other one. */
export function hasSoundHost({ httpVersion, rawHeaders }: IncomingMessage): boolean {
  let count = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string
    if (name.length !== 4 || name.toLowerCase() !== 'host') continue
    if (!hostCharacters.test(rawHeaders[at + 1] as string)) return false
    count++
  }
  return count === 1 || (count === 0 && httpVersion === '1.0')
}
