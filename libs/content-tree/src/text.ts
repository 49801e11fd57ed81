/** How names and tags are compared. */

// biome-ignore lint/suspicious/noControlCharactersInRegex: the range is ASCII
const asciiOnly = /^[\x00-\x7f]*$/

/** Folding it takes next to no time. */
export function isAscii(text: string): boolean {
  return asciiOnly.test(text)
}

/** NFC, ignoring case: equal for texts that a reader considers the same word. */
export function foldText(text: string): string {
  if (isAscii(text)) return text.toLowerCase()
  // Upper case first unites what lower case alone keeps apart: ß and SS, the two lower-case sigmas.
  return text.normalize('NFC').toUpperCase().toLowerCase().replaceAll('ς', 'σ').normalize('NFC')
}

export function composeText(text: string): string {
  return isAscii(text) ? text : text.normalize('NFC')
}

/** Approximate memory of a string. */
export function textBytes(text: string): number {
  return text === '' ? 0 : 32 + text.length
}
