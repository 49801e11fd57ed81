/**
 * LevelDB's tables (its doc/table_format.md):
 *
 *     data blocks … | filter block | meta index block | index block | footer: handles of both,
 *                    padding, magic (48)
 *     block on disk: contents | type (1 byte, 0 = not compressed) | masked CRC-32C of both (4,
 *                    little-endian)
 *     handle: offset and size as varints. Values of the meta index are handles of filter blocks,
 *             those of the index handles of data blocks
 */
import { Cursor, varint } from './numbers.ts'
import { checksumOf, isChecksumOf } from './stored-checksum.ts'

export const footerBytes = 48
const magic = Buffer.from('57fb808b247547db', 'hex')
const checksumBytes = 4
/** Behind the contents of a block. */
export const trailerBytes = 1 + checksumBytes
const restartBytes = 4

/** @param size without the trailer */
export interface Handle {
  offset: number
  size: number
}

/** The damage of a table, if any. */
export function tableDamage(table: Buffer): string | undefined {
  const footer = table.subarray(-footerBytes)
  if (table.length < footerBytes || !footer.subarray(-magic.length).equals(magic)) return 'its end is damaged'
  const { meta, index } = listsOf(table)
  for (const list of [meta, index]) {
    if (!isWhole(table, list)) return damageAt(list)
    if (isCompressed(table, list)) continue
    for (const block of handlesIn(contentsAt(table, list))) if (!isWhole(table, block)) return damageAt(block)
  }
  return undefined
}

function damageAt({ offset }: Handle): string {
  return `the block at ${offset} is damaged`
}

/** Of a whole block. */
export function isCompressed(table: Buffer, { offset, size }: Handle): boolean {
  return table[offset + size] !== 0
}

export function contentsAt(table: Buffer, { offset, size }: Handle): Buffer {
  return table.subarray(offset, offset + size)
}

export function isWhole(table: Buffer, { offset, size }: Handle): boolean {
  const end = offset + size + 1
  if (!(end + checksumBytes <= table.length)) return false
  return isChecksumOf(table.subarray(offset, end), table.readUInt32LE(end))
}

/** The list itself has its checksum. */
function* handlesIn(list: Buffer): Iterable<Handle> {
  const restarts = list.length < restartBytes ? 0 : list.readUInt32LE(list.length - restartBytes)
  const entries = new Cursor(list.subarray(0, Math.max(0, list.length - restartBytes * (restarts + 1))))
  while (!entries.isAtEnd) {
    entries.varint() // shared with the key before
    const keyBytes = entries.varint()
    const valueBytes = entries.varint()
    entries.skip(keyBytes)
    const { at } = entries
    yield readHandle(entries)
    entries.skip(at + valueBytes - entries.at)
  }
}

/** As its footer says, which has no checksum. */
export function listsOf(table: Buffer): { meta: Handle; index: Handle } {
  const handles = new Cursor(table.subarray(-footerBytes))
  return { meta: readHandle(handles), index: readHandle(handles) }
}

export function handleIn(value: Buffer): Handle {
  return readHandle(new Cursor(value))
}

function readHandle(cursor: Cursor): Handle {
  return { offset: cursor.varint(), size: cursor.varint() }
}

export function encodedHandle({ offset, size }: Handle): Buffer {
  return Buffer.concat([varint(offset), varint(size)])
}

/** A block that is not compressed, as it is on disk. */
export function storedBlock(contents: Buffer): Buffer {
  const typed = Buffer.concat([contents, Buffer.alloc(1)])
  return Buffer.concat([typed, checksumOf(typed)])
}

export function footerOf(lists: { meta: Handle; index: Handle }): Buffer {
  const footer = Buffer.alloc(footerBytes)
  Buffer.concat([encodedHandle(lists.meta), encodedHandle(lists.index)]).copy(footer)
  magic.copy(footer, footerBytes - magic.length)
  return footer
}
