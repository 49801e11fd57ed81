/**
 * Internet addresses and ranges as owners write them in direct links: `192.0.2.7`, `192.0.2.0/24`,
 * `2001:db8::/32`.
 */

export interface AddressRange {
  /** 4 or 6: v4-mapped v6 addresses count as v4. */
  version: 4 | 6
  /** The first address, as a number. */
  first: bigint
  /** Number of significant bits. */
  prefix: number
}

/**
 * The range, or undefined when the text is neither an address nor a CIDR range. Bits behind the
 * prefix are ignored.
 */
export function parseRange(text: string): AddressRange | undefined {
  const [address = '', prefixText, ...rest] = text.split('/')
  if (rest.length > 0) return undefined
  const parsed = parseAddress(address)
  if (parsed === undefined) return undefined
  if (prefixText === undefined) return { ...parsed.plain, prefix: parsed.plain.version === 4 ? 32 : 128 }
  if (!/^(?:0|[1-9]\d{0,2})$/.test(prefixText)) return undefined
  const prefix = Number(prefixText)
  if (prefix > (parsed.writtenVersion === 4 ? 32 : 128)) return undefined
  if (parsed.writtenVersion === parsed.plain.version) return { ...parsed.plain, prefix }
  return prefix >= 96 ? { ...parsed.plain, prefix: prefix - 96 } : undefined
}

/** Whether the address, written in any form, lies in the range. */
export function inRange(address: string, range: AddressRange): boolean {
  const plain = parseAddress(address)?.plain
  if (plain === undefined || plain.version !== range.version) return false
  const shift = BigInt((plain.version === 4 ? 32 : 128) - range.prefix)
  return plain.first >> shift === range.first >> shift
}

interface Address {
  version: 4 | 6
  first: bigint
}

function parseAddress(text: string): { plain: Address; writtenVersion: 4 | 6 } | undefined {
  const v4 = parseV4(text)
  if (v4 !== undefined) return { plain: { version: 4, first: v4 }, writtenVersion: 4 }
  const v6 = parseV6(text)
  if (v6 === undefined) return undefined
  const plain: Address =
    v6 >> 32n === 0xffffn ? { version: 4, first: v6 & 0xffffffffn } : { version: 6, first: v6 }
  return { plain, writtenVersion: 6 }
}

function parseV4(text: string): bigint | undefined {
  const parts = text.split('.')
  if (parts.length !== 4) return undefined
  let value = 0n
  for (const part of parts) {
    if (!/^(?:0|[1-9]\d{0,2})$/.test(part) || Number(part) > 255) return undefined
    value = (value << 8n) | BigInt(part)
  }
  return value
}

function parseV6(text: string): bigint | undefined {
  if (text.length > 45) return undefined
  const halves = text.split('::')
  if (halves.length > 2) return undefined
  const [head, tail] = halves.map((half, index) =>
    half === '' ? [] : groupsOf(half, index === halves.length - 1),
  )
  if (head === undefined) return undefined
  if (halves.length === 1) return head.length === 8 ? join(head) : undefined
  if (tail === undefined || head.length + tail.length > 7) return undefined
  return join([...head, ...new Array<number>(8 - head.length - tail.length).fill(0), ...tail])
}

/**
 * Groups of 16 bits. A dotted part at the end makes two groups. Undefined when one is malformed.
 */
function groupsOf(text: string, isEnd: boolean): number[] | undefined {
  const groups: number[] = []
  const parts = text.split(':')
  for (const [index, part] of parts.entries()) {
    if (isEnd && index === parts.length - 1 && part.includes('.')) {
      const v4 = parseV4(part)
      if (v4 === undefined) return undefined
      groups.push(Number(v4 >> 16n), Number(v4 & 0xffffn))
    } else if (/^[0-9a-fA-F]{1,4}$/.test(part)) {
      groups.push(Number.parseInt(part, 16))
    } else return undefined
  }
  return groups
}

function join(groups: number[]): bigint {
  return groups.reduce((value, group) => (value << 16n) | BigInt(group), 0n)
}
