/**
 * Checks LevelDB's tables before anything is read from them.
 *
 * LevelDB has a CRC-32C for every block, but the binding does not make it compare them. A flipped
 * bit in a value passes (our rows detect it), one in a key makes the row unfindable, one in the
 * structure of a block fails an assertion and ends the process. So the blocks are compared here, at
 * opening. Layout (LevelDB's doc/table_format.md):
 *
 *     data blocks … | meta index block | index block | footer: two handles, padding, magic (48)
 *     block on disk: contents | type (1 byte, 0 = not compressed) | masked CRC-32C of both (4,
 *                    little-endian)
 *     handle: offset and size as varints; values of the index block are handles of data blocks
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

/**
 * Bytes of tables compared at each opening, newest first: about a second. The rest is left to the
 * rows' own checksums.
 */
export const checkedBytesMax = 256 * 1024 * 1024

const footerBytes = 48
const magic = Buffer.from('57fb808b247547db', 'hex')

export interface Table {
  number: number
  bytes: number
}

/** The tables that are in use, from the property `leveldb.sstables`; newest first. */
export function liveTables(property: string): Table[] {
  const tables = [...property.matchAll(/^ (\d+):(\d+)\[/gm)].map((found) => ({
    number: Number(found[1]),
    bytes: Number(found[2]),
  }))
  return tables.sort((one, two) => two.number - one.number)
}

/**
 * Names of damaged tables, with the damage, among as many as are compared at an opening.
 *
 * LevelDB compacts meanwhile: a missing table is damage only if it is still in use afterwards.
 * @param live the tables in use at the time of the call.
 */
export async function damagedTables(directory: string, live: () => Table[]): Promise<string[]> {
  const damaged: string[] = []
  let checked = 0
  for (const { number, bytes } of live()) {
    checked += bytes
    if (checked > checkedBytesMax) break
    const table = await contentsOf(directory, number)
    const isGone = table === undefined && !live().some((other) => other.number === number)
    if (isGone) continue
    const fault = table === undefined ? 'is missing' : tableFault(table)
    if (fault !== undefined) damaged.push(`table ${number} ${fault}`)
  }
  return damaged
}

/** The damage of a table, if any. */
export function tableFault(table: Buffer): string | undefined {
  const footer = table.subarray(-footerBytes)
  if (table.length < footerBytes || !footer.subarray(-magic.length).equals(magic)) return 'has no footer'
  const handles = new Varints(footer)
  const meta = handles.handle()
  const index = handles.handle()
  for (const block of [meta, index]) if (!hasItsChecksum(table, block)) return `is damaged at ${block.offset}`
  const isCompressed = table[index.offset + index.size] !== 0
  if (isCompressed) return undefined
  for (const block of handlesOf(table.subarray(index.offset, index.offset + index.size))) {
    if (!hasItsChecksum(table, block)) return `is damaged at ${block.offset}`
  }
  return undefined
}

interface Handle {
  offset: number
  size: number
}

function hasItsChecksum(table: Buffer, { offset, size }: Handle): boolean {
  const end = offset + size + 1
  if (!(end + 4 <= table.length)) return false
  const crc = crc32c(table.subarray(offset, end))
  const masked = (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0
  return table.readUInt32LE(end) === masked
}

/** Handles of the data blocks; the index block itself has been compared. */
function* handlesOf(index: Buffer): Iterable<Handle> {
  const restarts = index.readUInt32LE(index.length - 4)
  const entries = new Varints(index.subarray(0, index.length - 4 * (restarts + 1)))
  while (!entries.ended) {
    entries.next()
    const keyBytes = entries.next()
    const valueBytes = entries.next()
    entries.skip(keyBytes)
    yield entries.handle(valueBytes)
  }
}

class Varints {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get ended(): boolean {
    return this.#at >= this.#bytes.length
  }

  /** NaN behind the end, which compares as no position. */
  next(): number {
    let value = 0
    for (let factor = 1; ; factor *= 128) {
      const byte = this.#bytes[this.#at++] ?? Number.NaN
      value += (byte % 128) * factor
      if (!(byte >= 128)) return value
    }
  }

  skip(bytes: number): void {
    this.#at += bytes
  }

  handle(bytes?: number): Handle {
    const begin = this.#at
    const handle = { offset: this.next(), size: this.next() }
    if (bytes !== undefined) this.#at = begin + bytes
    return handle
  }
}

/** A table's bytes under either of its names; undefined when there is neither. */
async function contentsOf(directory: string, number: number): Promise<Buffer | undefined> {
  const base = String(number).padStart(6, '0')
  for (const name of [`${base}.ldb`, `${base}.sst`]) {
    try {
      return await readFile(join(directory, name))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
  }
  return undefined
}

/** CRC-32C (Castagnoli, reflected), four bytes a step. */
export function crc32c(bytes: Uint8Array): number {
  const [t0, t1, t2, t3] = crcTables
  let crc = 0xffffffff
  let at = 0
  for (const end = bytes.length - 3; at < end; at += 4) {
    crc ^=
      (bytes[at] as number) |
      ((bytes[at + 1] as number) << 8) |
      ((bytes[at + 2] as number) << 16) |
      ((bytes[at + 3] as number) << 24)
    crc =
      (t3[crc & 0xff] as number) ^
      (t2[(crc >>> 8) & 0xff] as number) ^
      (t1[(crc >>> 16) & 0xff] as number) ^
      (t0[crc >>> 24] as number)
  }
  for (; at < bytes.length; at++) crc = (t0[(crc ^ (bytes[at] as number)) & 0xff] as number) ^ (crc >>> 8)
  return ~crc >>> 0
}

const crcTables = makeCrcTables()

function makeCrcTables(): [Int32Array, Int32Array, Int32Array, Int32Array] {
  const first = Int32Array.from({ length: 256 }, (_, byte) => {
    let crc = byte
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1
    return crc
  })
  const next = (before: Int32Array) => before.map((crc) => (first[crc & 0xff] as number) ^ (crc >>> 8))
  const second = next(first)
  const third = next(second)
  return [first, second, third, next(third)]
}
