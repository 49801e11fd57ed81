/** `Range: bytes=…` of RFC 9110 §14: which parts of a representation a request asks for. Pure. */

/** `start` … `end`, end exclusive. */
export interface ByteRange {
  start: number
  end: number
}

/** No player sends more than this in one header: the header is ignored and everything is sent. */
const rangesMax = 64

/**
 * @returns undefined when the header has no effect and everything is to be sent: another unit, bad
 *   syntax, too many ranges, an empty file (some clients send a range for it). An empty list when
 *   no range can be satisfied (416). Else the ranges in the requested order.
 *   Overlapping or touching ranges are merged, so that no header makes the response larger than the
 *   whole.
 */
export function parseRanges(header: string | undefined, size: number): ByteRange[] | undefined {
  if (header === undefined || size === 0) return undefined
  const set = /^bytes=(.*)$/i.exec(header.trim())?.[1]
  if (set === undefined) return undefined
  const specs = set.split(',', rangesMax + 1).map((spec) => spec.trim())
  if (specs.length > rangesMax) return undefined
  const ranges: ByteRange[] = []
  for (const spec of specs.filter((one) => one !== '')) {
    const [, first, last] = /^(\d*)-(\d*)$/.exec(spec) ?? []
    if (first === undefined || last === undefined || (first === '' && last === '')) return undefined
    const range = first === '' ? suffix(Number(last), size) : between(Number(first), last, size)
    if (range === undefined) return undefined
    if (range.start < range.end) ranges.push(range)
  }
  return specs.every((spec) => spec === '') ? undefined : merge(ranges)
}

/** A header that asks for everything: `bytes=0-`, and the variants that some clients send. */
export function isFromStart(header: string): boolean {
  return /^bytes\s*=\s*0*-?$/.test(header.trim())
}

function suffix(length: number, size: number): ByteRange {
  return { start: Math.max(size - length, 0), end: length === 0 ? 0 : size }
}

/** Empty when it begins behind the end; undefined when it ends before it begins. */
function between(first: number, last: string, size: number): ByteRange | undefined {
  if (last !== '' && Number(last) < first) return undefined
  if (first >= size) return { start: 0, end: 0 }
  return { start: first, end: last === '' ? size : Math.min(Number(last) + 1, size) }
}

/**
 * Each range absorbs the later ones that overlap or touch it; the order of the first of them is
 * kept.
 */
function merge(ranges: ByteRange[]): ByteRange[] {
  const merged: ByteRange[] = []
  for (const range of ranges) {
    const grown = { ...range }
    for (let at = merged.length - 1; at >= 0; at--) {
      const other = merged[at] as ByteRange
      if (other.start > grown.end || grown.start > other.end) continue
      grown.start = Math.min(grown.start, other.start)
      grown.end = Math.max(grown.end, other.end)
      merged.splice(at, 1)
    }
    merged.push(grown)
  }
  return merged
}
