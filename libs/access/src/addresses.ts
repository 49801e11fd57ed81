/**
 * Internet addresses and ranges as owners write them in direct links: `192.0.2.7`, `192.0.2.0/24`,
 * `2001:db8::/32`. Mapped IPv6 addresses count as IPv4.
 */
import { BlockList, isIP, SocketAddress } from 'node:net'

export interface AddressRange {
  has(address: string): boolean
}

/**
 * The range, or undefined when the text is neither an address nor a CIDR range. Bits behind the
 * prefix are ignored.
 */
export function parseRange(text: string): AddressRange | undefined {
  const parsed = parseSubnet(text)
  return parsed && rangeOf([parsed])
}

/** Whether `parseRange` takes it: for one of many that are only checked. */
export function isRange(text: string): boolean {
  return parseSubnet(text) !== undefined
}

/** All of these as one; a text that `parseRange` does not take is left out. */
export function rangesOf(texts: Iterable<string>): AddressRange {
  return rangeOf([...texts].map(parseSubnet).filter((parsed) => parsed !== undefined))
}

interface Subnet {
  plain: string
  bits: number
  family: 'ipv4' | 'ipv6'
}

function rangeOf(subnets: readonly Subnet[]): AddressRange {
  const list = new BlockList()
  for (const { plain, bits, family } of subnets) list.addSubnet(plain, bits, family)
  const families = new Set(subnets.map(({ family }) => family))
  return {
    has(other) {
      const seen = parseAddress(other)
      return seen !== undefined && families.has(seen.family) && list.check(seen.plain, seen.family)
    },
  }
}

function parseSubnet(text: string): Subnet | undefined {
  const [address = '', prefix, ...rest] = text.split('/')
  const parsed = parseAddress(address)
  if (parsed === undefined || rest.length > 0) return undefined
  const { plain, family, mappedBits } = parsed
  const bitsMax = family === 'ipv4' ? 32 : 128
  if (prefix !== undefined && !/^(?:0|[1-9]\d{0,2})$/.test(prefix)) return undefined
  const bits = prefix === undefined ? bitsMax : Number(prefix) - mappedBits
  if (bits < 0 || bits > bitsMax) return undefined
  return { plain, bits, family }
}

/** @returns bits that a mapped address has before its IPv4 part. */
function parseAddress(text: string) {
  const version = isIP(text)
  // A zone means something on one machine only.
  if (version === 0 || text.includes('%')) return undefined
  if (version === 4) return { plain: text, family: 'ipv4', mappedBits: 0 } as const
  const { address } = new SocketAddress({ address: text, family: 'ipv6' })
  const v4 = /^::ffff:([\d.]+)$/.exec(address)?.[1]
  return v4 === undefined
    ? ({ plain: address, family: 'ipv6', mappedBits: 0 } as const)
    : ({ plain: v4, family: 'ipv4', mappedBits: 96 } as const)
}
