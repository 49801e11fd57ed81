/** The lists of what operators block, and how the names in each are written. */

/** `content`: bytes, by their md5 or BLAKE3. */
export const blockLists = ['content'] as const

export type BlockList = (typeof blockLists)[number]

/** How many names each list may have, with those that were lifted lately: some 200 bytes each. */
export const namesMax: Readonly<Record<BlockList, number>> = { content: 100_000 }

/** The one spelling of a name, or undefined when the text is none. */
export function nameOf(list: BlockList, text: string): string | undefined {
  return parsers[list](text.trim())
}

const parsers: Readonly<Record<BlockList, (text: string) => string | undefined>> = {
  content: (text) => (/^(?:[0-9a-f]{32}|[0-9a-f]{64})$/i.test(text) ? text.toLowerCase() : undefined),
}
