/** Client addresses as keys of budgets and bans. */
import ipaddr from 'ipaddr.js'

/** A v4 address as it is written canonically: nearly all that is asked about, and told by this alone. */
const plainV4 = /^(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)){3}$/
const mappedV4 = '::ffff:'

/** Canonical text; a v4 address mapped into v6 becomes the v4 address, a zone is dropped. `unknown` when it is none. */
export function normalAddress(address: string | undefined): string {
  if (address === undefined) return 'unknown'
  const unmapped = address.startsWith(mappedV4) ? address.slice(mappedV4.length) : address
  if (plainV4.test(unmapped)) return unmapped
  const text = address.replace(/%.*$/, '')
  if (!ipaddr.isValid(text)) return 'unknown'
  return ipaddr.process(text).toString()
}

/** What shares a budget: a v4 address, or the /64 of a v6 address. */
export function networkOf(address: string): string {
  if (plainV4.test(address)) return address
  return prefixOf(address, { v4: 32, v6: 64 })
}

/** The larger network that newcomers share while a table is full: /16 of v4, /32 of v6. */
export function outerNetworkOf(address: string): string {
  return prefixOf(address, { v4: 16, v6: 32 })
}

function prefixOf(text: string, bits: { v4: number; v6: number }): string {
  if (!ipaddr.isValid(text)) return text
  const address = ipaddr.process(text)
  const length = address.kind() === 'ipv4' ? bits.v4 : bits.v6
  const bytes = address.toByteArray()
  for (let at = 0; at < bytes.length; at++) {
    const kept = Math.min(8, Math.max(0, length - at * 8))
    bytes[at] = (bytes[at] ?? 0) & (0xff << (8 - kept)) & 0xff
  }
  const network = ipaddr.fromByteArray(bytes).toString()
  return length === bytes.length * 8 ? network : `${network}/${length}`
}
