/**
 * Names inside an archive: the names of a tree's items, made safe to unpack anywhere.
 *
 * Windows refuses `<>:"/\|?*`, control characters, device names (also with an extension) and drops
 * trailing dots and spaces; Linux refuses names over 255 bytes; Windows and macOS do not
 * distinguish `A` from `a`. Direction marks display `txt.exe` as `exe.txt`.
 */

/** The longest component that every common file system accepts, bytes of UTF-8. */
export const nameBytesMax = 255

// biome-ignore lint/suspicious/noControlCharactersInRegex: the rule removes control characters
const unsafe = /[\u0000-\u001f\u007f-\u009f<>:"/\\|?*]/g
/** Marks, embeddings, overrides and isolates of direction. */
const directions = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g
const device = /^(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(?: *\.|$)/i

/**
 * Characters that change the displayed order of a name. For names in responses; stored ones stay as
 * they were sent.
 */
export function withoutDirections(name: string): string {
  return name.replace(directions, '_')
}

/** One path component: never empty, `.` or `..`, and without a separator. */
export function cleanName(name: string): string {
  const safe = withoutDirections(name.toWellFormed().replace(unsafe, '_'))
  const named = device.test(safe) ? `_${safe}` : safe
  return cut(withoutLooseEnd(named), '') || '_'
}

/**
 * UTF-16 units of names handled between two yields. Each name counts as `unitsOfName` more. The
 * slowest names, runs of combining marks, then take a millisecond: 0.4 µs a unit to normalise.
 */
const sliceUnits = 2_048
const unitsOfName = 16

/**
 * Clean names of the children of one folder, all different without case. The first child with a
 * name keeps it, later ones become `name (2).ext`; a child that was named `name (2).ext` from the
 * beginning keeps that name. Linear in the number of names.
 */
export function* uniqueNames(names: readonly string[]): Generator<void, string[]> {
  const taken = new Set<string>()
  const late: number[] = []
  const unique: string[] = []
  const slice = new Slice()
  for (const [index, name] of names.entries()) {
    if (slice.isFull(name)) yield
    const clean = cleanName(name)
    const key = foldCase(clean)
    if (taken.has(key)) late.push(index)
    else taken.add(key)
    unique.push(clean)
  }
  const numbers = new FreeNumbers(taken)
  for (const index of late) unique[index] = yield* numbers.add(unique[index] as string)
  return unique
}

/** What was handled since the last yield. */
class Slice {
  #units = 0

  /** Counts a name that is about to be handled. @returns whether to yield before it */
  isFull(name: string): boolean {
    const isFull = this.#units >= sliceUnits
    if (isFull) this.#units = 0
    this.#units += name.length + unitsOfName
    return isFull
  }
}

/**
 * Finds the lowest free numbers. Shortening may remove all that distinguished a long name, so
 * numbers are counted by the shortened name: a taken number is met once, not once for each name.
 */
class FreeNumbers {
  readonly #taken: Set<string>
  /** The next number to try, by the name as shortened for a number of that length. */
  readonly #next = new Map<string, number>()
  readonly #slice = new Slice()

  constructor(taken: Set<string>) {
    this.#taken = taken
  }

  *add(name: string): Generator<void, string> {
    for (let digits = 1; ; digits++) {
      const base = foldCase(cut(name, ` (${'0'.repeat(digits)})`))
      const end = 10 ** digits
      let number = this.#next.get(base) ?? (digits === 1 ? 2 : end / 10)
      for (; number < end; number++) {
        if (this.#slice.isFull(name)) yield
        const numbered = cut(name, ` (${number})`)
        const key = foldCase(numbered)
        if (this.#taken.has(key)) continue
        this.#taken.add(key)
        this.#next.set(base, number + 1)
        return numbered
      }
      this.#next.set(base, end)
    }
  }
}

/** `suffix` before the extension, with the stem shortened so that all fits. */
function cut(name: string, suffix: string): string {
  if (suffix === '' && Buffer.byteLength(name) <= nameBytesMax) return name
  const dot = name.lastIndexOf('.')
  const extension = dot > 0 && Buffer.byteLength(name.slice(dot)) <= 32 ? name.slice(dot) : ''
  const stem = extension === '' ? name : name.slice(0, dot)
  const room = nameBytesMax - Buffer.byteLength(suffix) - Buffer.byteLength(extension)
  return `${firstBytes(stem, room)}${suffix}${extension}`
}

/**
 * Whole code points of at most `bytes` bytes, without characters at the end that Windows would
 * drop.
 */
function firstBytes(text: string, bytes: number): string {
  if (Buffer.byteLength(text) <= bytes) return text
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(bytes))
  return withoutLooseEnd(text.slice(0, read))
}

/**
 * Replaces the dots and spaces at its end by `_`. Written by hand: a regular expression anchored
 * only at the end takes quadratic time.
 */
function withoutLooseEnd(text: string): string {
  let end = text.length
  while (end > 0 && (text[end - 1] === '.' || text[end - 1] === ' ')) end--
  return end === text.length ? text : `${text.slice(0, end)}_`
}

/**
 * Coarser than any file system's idea of "the same name": a needless number is harmless, a lost
 * file is not. Lower case comes first, because `ẞ` has no other upper case: `ß`, `ẞ` and `ss` are
 * one name on disks of macOS.
 */
function foldCase(name: string): string {
  return name.normalize('NFC').toLowerCase().toUpperCase().toLowerCase().normalize('NFC')
}
