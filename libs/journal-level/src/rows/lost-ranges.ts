/**
 * Ranges of keys in which rows were lost with a part of the disk.
 *
 * What a range held is unknown, so a key in it that has no row proves nothing. The ranges are kept
 * for good, in one row.
 */
import type { KeyRange } from '@holdfast/level-files'

/** Ends of keys: from the first, before the second. */
export interface KeySpan {
  gte: Uint8Array
  lt: Uint8Array
}

/**
 * Ranges that are kept: some 200 bytes each. Beyond it neighbours become one, which also covers the
 * keys between them.
 */
const keptRangesMax = 1_000

export class LostRanges {
  #ranges: readonly KeyRange[] = []

  constructor(ranges: readonly KeyRange[] = []) {
    this.replace(ranges)
  }

  get count(): number {
    return this.#ranges.length
  }

  replace(ranges: readonly KeyRange[]): void {
    this.#ranges = merged(ranges)
  }

  has(key: Uint8Array): boolean {
    return this.#ranges.some((range) => isBehindStart(range, key) && isBeforeEnd(range, key))
  }

  touches(span: KeySpan): boolean {
    return this.#ranges.some((range) => touches(range, span))
  }

  [Symbol.iterator](): Iterator<KeyRange> {
    return this.#ranges.values()
  }
}

export function touches(range: KeyRange, { gte, lt }: KeySpan): boolean {
  return isBehindStart(range, lt) && isBeforeEnd(range, gte)
}

function isBehindStart({ after }: KeyRange, key: Uint8Array): boolean {
  return after === undefined || Buffer.compare(after, key) < 0
}

export function isBeforeEnd({ through }: KeyRange, key: Uint8Array): boolean {
  return through === undefined || Buffer.compare(key, through) <= 0
}

/** All keys of a kind: each is longer than the kind. */
export function rangeOf({ gte, lt }: KeySpan): KeyRange {
  return { after: gte, through: lt }
}

/** In order, without overlaps. */
function merged(ranges: readonly KeyRange[]): KeyRange[] {
  const all: KeyRange[] = []
  for (const range of ranges.toSorted(byStart)) {
    const last = all.at(-1)
    if (last !== undefined && joins(last, range)) last.through = laterEnd(last, range)
    else all.push({ ...range })
  }
  while (all.length > keptRangesMax) {
    const [one, other] = all.splice(-2) as [KeyRange, KeyRange]
    all.push({ after: one.after, through: other.through })
  }
  return all
}

function byStart({ after: one }: KeyRange, { after: other }: KeyRange): number {
  if (one === undefined || other === undefined) return Number(one !== undefined) - Number(other !== undefined)
  return Buffer.compare(one, other)
}

function joins({ through }: KeyRange, { after }: KeyRange): boolean {
  return through === undefined || after === undefined || Buffer.compare(after, through) <= 0
}

function laterEnd({ through: one }: KeyRange, { through: other }: KeyRange): Uint8Array | undefined {
  if (one === undefined || other === undefined) return undefined
  return Buffer.compare(one, other) < 0 ? other : one
}

/** Each end as its length and one (2), 0 for an open end, then the key. */
export function encodeRanges(ranges: Iterable<KeyRange>): Buffer {
  const parts: Uint8Array[] = []
  for (const { after, through } of ranges)
    for (const end of [after, through]) {
      const length = Buffer.alloc(2)
      length.writeUInt16BE(end === undefined ? 0 : end.length + 1)
      parts.push(length, end ?? Buffer.alloc(0))
    }
  return Buffer.concat(parts)
}

export function decodeRanges(bytes: Buffer): KeyRange[] {
  const ranges: KeyRange[] = []
  let at = 0
  const end = () => {
    const length = bytes.readUInt16BE(at)
    at += 2
    if (length === 0) return undefined
    at += length - 1
    return Buffer.from(bytes.subarray(at - length + 1, at))
  }
  while (at < bytes.length) ranges.push({ after: end(), through: end() })
  return ranges
}

/** For people. */
export function rangeInWords({ after, through }: KeyRange): string {
  const from = after === undefined ? 'from the first key' : `behind ${textOf(after)}`
  return `${from} ${through === undefined ? 'to the last' : `through ${textOf(through)}`}`
}

function textOf(key: Uint8Array): string {
  return JSON.stringify(Buffer.from(key).toString('latin1'))
}
