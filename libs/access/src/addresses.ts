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

/**
 * The one spelling of a range, or undefined when `parseRange` does not take the text. Its first
 * address is computed here: a `BlockList` keeps the text that it got.
 */
export function spelledRange(text: string): string | undefined {
  const parsed = parseSubnet(text)
  if (parsed === undefined) return undefined
  const { plain, bits, family } = parsed
  if (family === 'ipv4') {
    const first = numberOf(plain.split('.').map(Number), 8) & maskOf(bits, 32)
    const spelled = partsOf(first, { count: 4, bits: 8 }).join('.')
    return bits === 32 ? spelled : `${spelled}/${bits}`
  }
  const first = numberOf(groupsOf(plain), 16) & maskOf(bits, 128)
  const groups = partsOf(first, { count: 8, bits: 16 }).map((group) => group.toString(16))
  const { address } = new SocketAddress({ address: groups.join(':'), family: 'ipv6' })
  return bits === 128 ? address : `${address}/${bits}`
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

/** A list for each family: one with both compares IPv4 addresses with IPv6 ranges. */
function rangeOf(subnets: readonly Subnet[]): AddressRange {
  const lists = { ipv4: new BlockList(), ipv6: new BlockList() }
  for (const { plain, bits, family } of subnets) lists[family].addSubnet(plain, bits, family)
  return {
    has(other) {
      const seen = parseAddress(other)
      return seen !== undefined && lists[seen.family].check(seen.plain, seen.family)
    },
  }
}

/** The eight groups of an IPv6 address, which may end with an IPv4 address. */
function groupsOf(text: string): number[] {
  const halves = text.split('::').map((half) => half.split(':').filter((one) => one !== ''))
  const [before = [], after] = halves.map((groups) => groups.flatMap(groupsIn))
  if (after === undefined) return before
  return [...before, ...Array.from({ length: 8 - before.length - after.length }, () => 0), ...after]
}

function groupsIn(text: string): number[] {
  if (!text.includes('.')) return [Number.parseInt(text, 16)]
  const [a = 0, b = 0, c = 0, d = 0] = text.split('.').map(Number)
  return [a * 256 + b, c * 256 + d]
}

function numberOf(parts: readonly number[], bits: number): bigint {
  return parts.reduce((sum, part) => (sum << BigInt(bits)) | BigInt(part), 0n)
}

function partsOf(number: bigint, { count, bits }: { count: number; bits: number }): number[] {
  const part = (at: number) => Number((number >> BigInt(bits * at)) & ((1n << BigInt(bits)) - 1n))
  return Array.from({ length: count }, (_, at) => part(count - 1 - at))
}

function maskOf(bits: number, all: number): bigint {
  return ((1n << BigInt(bits)) - 1n) << BigInt(all - bits)
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
