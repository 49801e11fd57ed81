/** The lists of what operators block, and how the names in each are written. */
import { spelledRange } from '@holdfast/access'
import { isUuid } from '@holdfast/kernel'

/**
 * `content`: bytes, by their md5 or BLAKE3. `account`: accounts, by id. `network`: clients, by
 * address or CIDR range. `invitation`: addresses whose invitations do not count.
 */
export const blockLists = ['content', 'account', 'network', 'invitation'] as const

export type BlockList = (typeof blockLists)[number]

/** Ranges with fewer bits shut out a large part of all clients. */
const wideBits = { ipv4: 8, ipv6: 16 }

/** Whether a network, as `listedName` spells it, is so wide that it may be a slip: `0.0.0.0/0`. */
export function isWide(network: string): boolean {
  const [address = '', bits] = network.split('/')
  if (bits === undefined) return false
  return Number(bits) < (address.includes(':') ? wideBits.ipv6 : wideBits.ipv4)
}

/** How many names each list may have, with those that were lifted lately: some 200 bytes each. */
export const namesMax: Readonly<Record<BlockList, number>> = {
  content: 100_000,
  account: 100_000,
  // Each request's address is compared with all of them.
  network: 1_000,
  invitation: 100_000,
}

/** The one spelling of a name, or undefined when the text is none. */
export function listedName(list: BlockList, text: string): string | undefined {
  return parsers[list](text.trim())
}

const parsers: Readonly<Record<BlockList, (text: string) => string | undefined>> = {
  content: (text) => (/^(?:[0-9a-f]{32}|[0-9a-f]{64})$/i.test(text) ? text.toLowerCase() : undefined),
  account: (text) => (isUuid(text.toLowerCase()) ? text.toLowerCase() : undefined),
  network: spelledRange,
  invitation: (text) => (/^[!-?A-~]{1,64}@[a-z\d.-]{1,255}$/i.test(text) ? text.toLowerCase() : undefined),
}
