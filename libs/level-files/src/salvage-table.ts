/**
 * Replaces a damaged table by one of the same length, which the manifest has, with every whole data
 * block where it was:
 *
 *     data blocks, zeros where one is damaged | filter and meta index if both are whole, else an
 *     empty meta index | zeros | index of the whole blocks | footer
 *
 * Filters go by the offsets of blocks, so they stay right. The index has an entry less for each
 * damaged block, and no key of it is longer than before: it fits. If the index itself is damaged,
 * the blocks are found by their structure (`find-blocks.ts`).
 *
 * A damaged block may have held every key behind the key of the index entry before it, up to and
 * including the key of its own index entry.
 */
import { blockFrom, blockOf, type Entry } from './block.ts'
import { CompressedTableError } from './errors.ts'
import { type FoundBlocks, findBlocks } from './find-blocks.ts'
import { separator, userKey } from './internal-key.ts'
import {
  contentsAt,
  encodedHandle,
  footerBytes,
  footerOf,
  type Handle,
  handleIn,
  isCompressed,
  isWhole,
  listsOf,
  storedBlock,
  tableDamage,
  trailerBytes,
} from './table.ts'

/** User keys: behind `after`, through `through`. Undefined: from the first, to the last. */
export interface KeyRange {
  after: Uint8Array | undefined
  through: Uint8Array | undefined
}

export interface SalvagedTable {
  /** It has `bytes`. */
  table: Buffer
  /** Ascending. Keys outside of them are read as before. */
  lost: KeyRange[]
  damage: string
}

interface Survey {
  listed: Entry[]
  lost: KeyRange[]
  /** Whole, with the filter that it names. */
  meta: Meta | undefined
}

interface Meta {
  handle: Handle
  filter: Handle
}

/**
 * The replacement of a table and what it lacks; undefined if the table is whole.
 *
 * @param bytes its length in the manifest; the file may be shorter, or empty if it is missing
 * @param bounds of the keys that it can have, as `boundsOf`
 * @throws CompressedTableError if it is damaged where that must be read
 */
export function salvagedTable(
  file: Buffer,
  { bytes, bounds }: { bytes: number; bounds: KeyRange | undefined },
): SalvagedTable | undefined {
  const table = Buffer.alloc(bytes)
  file.copy(table)
  const damage = file.length < bytes ? `it has ${file.length} of ${bytes} bytes` : tableDamage(table)
  if (damage === undefined) return undefined
  const { listed, lost, meta } = survey(table, bounds)
  return { table: written(table, listed, meta), lost: within(lost, bounds), damage }
}

function survey(table: Buffer, bounds: KeyRange | undefined): Survey {
  const lists = listsOf(table)
  const index = indexAt(table, lists.index)
  if (index !== undefined) return { ...listedBy(table, index), meta: metaAt(table, lists.meta) }
  const found = findBlocks(table)
  const meta = metaAt(table, lists.meta) ?? metaAt(table, found.meta)
  if (found.index !== undefined) return { ...listedBy(table, found.index), meta }
  return { ...listedByKeys(found, { behind: meta?.filter.offset, bounds }), meta }
}

function indexAt(table: Buffer, handle: Handle): Entry[] | undefined {
  if (!isWhole(table, handle)) return undefined
  if (isCompressed(table, handle)) throw new CompressedTableError()
  const isLast = handle.offset + handle.size + trailerBytes === table.length - footerBytes
  return isLast ? blockIn(table, handle) : undefined
}

function metaAt(table: Buffer, handle: Handle | undefined): Meta | undefined {
  if (handle === undefined || !isWhole(table, handle) || isCompressed(table, handle)) return undefined
  const [entry] = blockIn(table, handle) ?? []
  if (entry === undefined) return undefined
  const filter = handleIn(entry.value)
  return isWhole(table, filter) ? { handle, filter } : undefined
}

function blockIn(table: Buffer, handle: Handle): Entry[] | undefined {
  const block = blockFrom(contentsAt(table, handle))
  return block?.bytes === handle.size ? block.entries : undefined
}

function listedBy(table: Buffer, index: Entry[]): { listed: Entry[]; lost: KeyRange[] } {
  const listed: Entry[] = []
  const lost: KeyRange[] = []
  let after: Uint8Array | undefined
  for (const entry of index) {
    const through = userKey(entry.key)
    if (isReadable(table, handleIn(entry.value))) {
      listed.push(entry)
      after = through
    } else if (lost.length > 0 && lost.at(-1)?.after === after) lost[lost.length - 1] = { after, through }
    else lost.push({ after, through })
  }
  return { listed, lost }
}

function isReadable(table: Buffer, handle: Handle): boolean {
  return isWhole(table, handle) && (isCompressed(table, handle) || blockIn(table, handle) !== undefined)
}

/**
 * A block that is missing between two others may have held a newer entry of the second's first key,
 * and only older ones of the first's last key.
 *
 * @param behind the end of the data blocks, if known
 */
function listedByKeys(
  { data }: FoundBlocks,
  { behind, bounds }: { behind: number | undefined; bounds: KeyRange | undefined },
): { listed: Entry[]; lost: KeyRange[] } {
  const listed: Entry[] = []
  const lost: KeyRange[] = []
  let end = 0
  let after: Uint8Array | undefined
  for (const [n, { offset, size, first, last }] of data.entries()) {
    if (offset !== end) lost.push({ after, through: userKey(first) })
    listed.push({ key: separator(last, data[n + 1]?.first), value: encodedHandle({ offset, size }) })
    end = offset + size + trailerBytes
    after = userKey(last)
  }
  if (end !== behind) lost.push({ after, through: bounds?.through })
  return { listed, lost }
}

/** Cut to the bounds; without those that hold no key. */
function within(ranges: KeyRange[], bounds: KeyRange | undefined): KeyRange[] {
  return ranges
    .map(({ after, through }) => ({
      after: after ?? bounds?.after,
      through: least(through, bounds?.through),
    }))
    .filter(({ after, through }) => !after || !through || Buffer.compare(after, through) < 0)
}

function least(one: Uint8Array | undefined, two: Uint8Array | undefined): Uint8Array | undefined {
  if (one === undefined || two === undefined) return one ?? two
  return Buffer.compare(one, two) < 0 ? one : two
}

function written(table: Buffer, listed: Entry[], meta: Meta | undefined): Buffer {
  const copy = Buffer.alloc(table.length)
  let dataEnd = 0
  const keep = ({ offset, size }: Handle) => {
    table.copy(copy, offset, offset, offset + size + trailerBytes)
    return offset + size + trailerBytes
  }
  for (const { value } of listed) dataEnd = keep(handleIn(value))
  const index = storedBlock(blockOf(listed))
  const indexAt = table.length - footerBytes - index.length
  const empty = storedBlock(blockOf([]))
  const isKept = meta !== undefined && meta.handle.offset + meta.handle.size + trailerBytes <= indexAt
  const metaAt = isKept ? meta.handle.offset : indexAt - empty.length
  if (metaAt < dataEnd) throw new Error(`no room for an index of ${index.length} bytes behind ${dataEnd}`)
  if (isKept) for (const handle of [meta.filter, meta.handle]) keep(handle)
  else empty.copy(copy, metaAt)
  index.copy(copy, indexAt)
  footerOf({
    meta: { offset: metaAt, size: isKept ? meta.handle.size : empty.length - trailerBytes },
    index: { offset: indexAt, size: index.length - trailerBytes },
  }).copy(copy, table.length - footerBytes)
  return copy
}
