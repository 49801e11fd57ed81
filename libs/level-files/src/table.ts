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
import { isChecksumOf } from './stored-checksum.ts'

const footerBytes = 48
const magic = Buffer.from('57fb808b247547db', 'hex')
const checksumBytes = 4
const restartBytes = 4

interface Handle {
  offset: number
  size: number
}

/** The damage of a table, if any. */
export function tableDamage(table: Buffer): string | undefined {
  const footer = table.subarray(-footerBytes)
  if (table.length < footerBytes || !footer.subarray(-magic.length).equals(magic)) return 'its end is damaged'
  const handles = new Cursor(footer)
  const lists = [handles.handle(), handles.handle()]
  for (const list of lists) {
    if (!isWhole(table, list)) return damageAt(list)
    const end = list.offset + list.size
    const isCompressed = table[end] !== 0
    if (isCompressed) continue
    for (const block of handlesIn(table.subarray(list.offset, end)))
      if (!isWhole(table, block)) return damageAt(block)
  }
  return undefined
}

function damageAt({ offset }: Handle): string {
  return `the block at ${offset} is damaged`
}

function isWhole(table: Buffer, { offset, size }: Handle): boolean {
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
    yield entries.handle(valueBytes)
  }
}

class Cursor {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  /** Also behind a number that was not whole. */
  get isAtEnd(): boolean {
    return !(this.#at < this.#bytes.length)
  }

  skip(count: number): void {
    this.#at += count
  }

  /** NaN behind the end, which compares as no position. */
  varint(): number {
    let value = 0
    for (let factor = 1; ; factor *= 128) {
      const byte = this.#bytes[this.#at++] ?? Number.NaN
      value += (byte % 128) * factor
      if (!(byte >= 128)) return value
    }
  }

  /** @param bytes that it takes, where more than the handle may be there */
  handle(bytes?: number): Handle {
    const begin = this.#at
    const handle = { offset: this.varint(), size: this.varint() }
    if (bytes !== undefined) this.#at = begin + bytes
    return handle
  }
}
