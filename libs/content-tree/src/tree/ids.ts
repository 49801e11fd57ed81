/** UUIDs as four 32-bit words in the columns. */
import { isUuid } from '@holdfast/kernel'

const digits = Uint8Array.from('0123456789abcdef', (digit) => digit.charCodeAt(0))
const dash = 0x2d

/** Writes the words of a UUID; false when the text is none. */
export function wordsOfUuid(uuid: string, words: Uint32Array, at = 0): boolean {
  if (!isUuid(uuid)) return false
  words[at] = Number.parseInt(uuid.slice(0, 8), 16)
  words[at + 1] = Number.parseInt(uuid.slice(9, 13) + uuid.slice(14, 18), 16)
  words[at + 2] = Number.parseInt(uuid.slice(19, 23) + uuid.slice(24, 28), 16)
  words[at + 3] = Number.parseInt(uuid.slice(28, 36), 16)
  return true
}

/**
 * One text of one allocation, from one call with all of its characters. Joined parts would keep
 * some twenty objects for each id, which are more than the rest of an item of a listing.
 */
export function uuidOfWords(words: Uint32Array, at: number): string {
  const a = words[at] as number
  const b = words[at + 1] as number
  const c = words[at + 2] as number
  const d = words[at + 3] as number
  const of = (word: number, shift: number) => digits[(word >>> shift) & 15] as number
  // biome-ignore format: as the UUID is read
  return String.fromCharCode(
    of(a, 28), of(a, 24), of(a, 20), of(a, 16), of(a, 12), of(a, 8), of(a, 4), of(a, 0), dash,
    of(b, 28), of(b, 24), of(b, 20), of(b, 16), dash,
    of(b, 12), of(b, 8), of(b, 4), of(b, 0), dash,
    of(c, 28), of(c, 24), of(c, 20), of(c, 16), dash,
    of(c, 12), of(c, 8), of(c, 4), of(c, 0),
    of(d, 28), of(d, 24), of(d, 20), of(d, 16), of(d, 12), of(d, 8), of(d, 4), of(d, 0),
  )
}
