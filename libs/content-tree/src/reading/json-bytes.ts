/** Bytes of texts and direct links in an answer of JSON. */
import type { DirectLink } from '@holdfast/wire'

/** Id, times, flags and the link's URL. */
const directLinkBytes = 400
const directLinkEntryBytes = 3

/** @param name of the link's target */
export function linksBytes(links: readonly DirectLink[] | undefined, name: string): number {
  if (links === undefined) return 0
  let bytes = links.length * (directLinkBytes + urlBytes(name))
  for (const { sourceIpsAllowed, domainsAllowed, domainsBlocked, auth } of links) {
    for (const list of [sourceIpsAllowed, domainsAllowed, domainsBlocked])
      for (const entry of list) bytes += directLinkEntryBytes + jsonBytes(entry)
    for (const { user } of auth) bytes += directLinkEntryBytes + jsonBytes(user)
  }
  return bytes
}

/** UTF-8 bytes of the text in a JSON string. */
export function jsonBytes(text: string): number {
  let bytes = text.length
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code < 0x20) bytes += 5
    else if (code === 0x22 || code === 0x5c) bytes++
    else if (code >= 0x80) bytes += code < 0x800 || (code >= 0xd800 && code < 0xe000) ? 1 : 2
  }
  return bytes
}

/** Bytes of the text as a part of a URL's path. */
export function urlBytes(text: string): number {
  let bytes = text.length
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code >= 0x80) bytes += code < 0x800 || (code >= 0xd800 && code < 0xe000) ? 5 : 8
    else if (!isPlain(code)) bytes += 2
  }
  return bytes
}

/** Letters, digits, dot, dash and underscore; other characters without an escape are rare. */
function isPlain(code: number): boolean {
  const letter = code | 0x20
  return (
    (letter >= 0x61 && letter <= 0x7a) ||
    (code >= 0x30 && code <= 0x39) ||
    code === 0x2e ||
    code === 0x2d ||
    code === 0x5f
  )
}
