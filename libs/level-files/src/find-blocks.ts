/**
 * Finds the blocks of a table whose index is lost.
 *
 * The structure of a block says where it ends (`block.ts`), then its checksum is compared. Blocks
 * lie one behind the other, so the next one begins there. Where that is not so, each byte is tried:
 * entries are skipped by their lengths, so a position that is no block costs a few bytes, also
 * where blocks are large. What looks like a block may be part of a value, so its keys must also
 * come behind those of the block before it.
 */
import { type Block, blockFrom, type Entry, firstKey } from './block.ts'
import { CompressedTableError } from './errors.ts'
import { compareInternal, isInternalKey } from './internal-key.ts'
import { footerBytes, type Handle, isWhole, trailerBytes } from './table.ts'

/**
 * LevelDB ends a block at the first entry that fills it, at 4 KiB by default, so each entry begins
 * within that. There is room for other settings.
 */
const spanMax = 64 * 1024
/** Bytes of a compressed block, far above LevelDB's default. */
const compressedMax = 64 * 1024
/** Type of a compressed block. */
const snappy = 1
const filterKeyPrefix = Buffer.from('filter.')
/** Type and sequence of an internal key. */
const keyBytesMin = 8

export interface DataBlock extends Handle {
  first: Buffer
  last: Buffer
}

export interface FoundBlocks {
  data: DataBlock[]
  meta: Handle | undefined
  /** Its entries, if it is whole. */
  index: Entry[] | undefined
}

/** @throws CompressedTableError */
export function findBlocks(table: Buffer): FoundBlocks {
  if (beginsCompressed(table)) throw new CompressedTableError()
  const found: FoundBlocks = { data: [], meta: undefined, index: undefined }
  const end = table.length - footerBytes
  /** Where a block begins if the one before it has its length. */
  let expectedAt = 0
  for (let at = 0; at < end; ) {
    const isExpected = at === expectedAt
    const block = blockAt(table, at, isExpected ? undefined : spanMax)
    const behind = at + (block?.bytes ?? 0) + trailerBytes
    const isFound = block !== undefined && isWhole(table, { offset: at, size: block.bytes })
    if (isFound) take(found, at, block, behind === end)
    // The length of an expected block counts even if its contents are damaged. Elsewhere it may be
    // part of a value.
    if (isFound || (block !== undefined && isExpected)) expectedAt = at = behind
    else at++
  }
  return found
}

function blockAt(table: Buffer, at: number, spanMax: number | undefined): Block | undefined {
  // Most positions end here, so nothing is allocated before.
  const isPossible = table[at] === 0 && (table[at + 1] as number) >= keyBytesMin
  if (!isPossible) return undefined
  const bytes = table.subarray(at, table.length - footerBytes)
  const key = firstKey(bytes)
  return isInternalKey(key) || isFilterKey(key) ? blockFrom(bytes, spanMax) : undefined
}

function isFilterKey(key: Buffer): boolean {
  return key.subarray(0, filterKeyPrefix.length).equals(filterKeyPrefix)
}

function take(found: FoundBlocks, offset: number, { entries, bytes }: Block, isLast: boolean): void {
  const [first, last] = [entries[0]?.key, entries.at(-1)?.key]
  const handle = { offset, size: bytes }
  if (isLast) found.index = entries
  else if (first !== undefined && isFilterKey(first)) found.meta = handle
  else if (first !== undefined && last !== undefined && areBehind(found.data.at(-1), entries))
    found.data.push({ ...handle, first, last })
}

function areBehind(block: DataBlock | undefined, entries: Entry[]): boolean {
  let before = block?.last
  for (const { key } of entries) {
    if (!isInternalKey(key) || (before !== undefined && compareInternal(before, key) >= 0)) return false
    before = key
  }
  return true
}

/** Whether the first block is whole and compressed. Its end is where the checksum fits. */
function beginsCompressed(table: Buffer): boolean {
  const sizeMax = Math.min(compressedMax, table.length - trailerBytes)
  for (let size = 1; size <= sizeMax; size++) {
    const handle = { offset: 0, size }
    if (table[size] === snappy && isWhole(table, handle)) return true
  }
  return false
}
