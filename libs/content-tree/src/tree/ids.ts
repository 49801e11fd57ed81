/** UUIDs as four 32-bit words in the columns. */

const hexOfByte = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))
const uuidForm = /^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$/

/** Writes the words of a UUID; false when the text is none. */
export function wordsOfUuid(uuid: string, words: Uint32Array, at = 0): boolean {
  if (!uuidForm.test(uuid)) return false
  words[at] = Number.parseInt(uuid.slice(0, 8), 16)
  words[at + 1] = Number.parseInt(uuid.slice(9, 13) + uuid.slice(14, 18), 16)
  words[at + 2] = Number.parseInt(uuid.slice(19, 23) + uuid.slice(24, 28), 16)
  words[at + 3] = Number.parseInt(uuid.slice(28, 36), 16)
  return true
}

export function uuidOfWords(words: Uint32Array, at: number): string {
  const a = hexOfWord(words[at] as number)
  const b = hexOfWord(words[at + 1] as number)
  const c = hexOfWord(words[at + 2] as number)
  const d = hexOfWord(words[at + 3] as number)
  return `${a}-${b.slice(0, 4)}-${b.slice(4)}-${c.slice(0, 4)}-${c.slice(4)}${d}`
}

function hexOfWord(word: number): string {
  return (
    (hexOfByte[word >>> 24] as string) +
    hexOfByte[(word >>> 16) & 255] +
    hexOfByte[(word >>> 8) & 255] +
    hexOfByte[word & 255]
  )
}
