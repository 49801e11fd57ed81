/**
 * The checksums in LevelDB's files, which its binding does not let LevelDB verify: those of the
 * records of logs and of the blocks of tables. Formats: LevelDB's doc/log_format.md and
 * doc/table_format.md.
 */

import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { crc32c } from '@node-rs/crc32'
import { isZero } from '../../format.ts'

const logBlockBytes = 32 * 1024
const logHeaderBytes = 7
const recordTypesMost = 4
const footerBytes = 48
const tableMagic = Buffer.from('57fb808b247547db', 'hex')
/** Behind each block of a table: its compression, and the checksum of both. */
const blockTrailerBytes = 5

/** A directory that does not exist has no damage. @throws Error that begins with `Corruption` */
export async function verifyLevelFiles(path: string): Promise<void> {
  const names = await readdir(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  for (const name of names) {
    const verify = /\.(ldb|sst)$/.test(name) ? verifyTable : name.endsWith('.log') ? verifyLog : undefined
    const why = verify?.(await readFile(join(path, name)))
    if (why !== undefined) throw new Error(`Corruption: ${why} in ${name}`)
  }
}

/**
 * The end of a log may be torn: it was being written when the process or the machine ended. A
 * record that is not whole is damage when a whole one follows.
 */
export function verifyLog(log: Buffer): string | undefined {
  let torn: number | undefined
  for (let block = 0; block < log.length; block += logBlockBytes) {
    const end = Math.min(log.length, block + logBlockBytes)
    let at = block
    while (end - at >= logHeaderBytes) {
      const bytes = wholeRecord(log.subarray(at, end))
      if (bytes === undefined) {
        if (!isZero(log.subarray(at, end))) torn ??= at
        break
      }
      if (torn !== undefined) return `a record at ${torn} is damaged`
      at += bytes
    }
  }
  return undefined
}

/** @returns its length with the header. */
function wholeRecord(rest: Buffer): number | undefined {
  const length = rest.readUInt16LE(4)
  const type = rest[6] as number
  const bytes = logHeaderBytes + length
  if (type < 1 || type > recordTypesMost || bytes > rest.length) return undefined
  return unmaskCrc(rest.readUInt32LE(0)) === crc32c(rest.subarray(6, bytes)) ? bytes : undefined
}

export function verifyTable(table: Buffer): string | undefined {
  if (table.length < footerBytes || !table.subarray(-8).equals(tableMagic)) return 'its end is damaged'
  const footer = new Cursor(table.subarray(-footerBytes))
  const blocks = [footer.handle(), footer.handle()]
  for (const found of blocks) {
    const block = found && wholeBlock(table, found)
    if (block === undefined) return `the block at ${found?.offset} is damaged`
    for (const inner of handlesIn(block)) {
      if (inner === undefined || wholeBlock(table, inner) === undefined)
        return `the block at ${inner?.offset} is damaged`
    }
  }
  return undefined
}

interface Handle {
  offset: number
  size: number
}

function wholeBlock(table: Buffer, { offset, size }: Handle): Buffer | undefined {
  const end = offset + size
  if (end + blockTrailerBytes > table.length) return undefined
  const hasItsChecksum = unmaskCrc(table.readUInt32LE(end + 1)) === crc32c(table.subarray(offset, end + 1))
  // Written without compression.
  return hasItsChecksum && table[end] === 0 ? table.subarray(offset, end) : undefined
}

/** The values of an index: where blocks are. */
function handlesIn(index: Buffer): (Handle | undefined)[] {
  const restarts = index.length < 4 ? 0 : index.readUInt32LE(index.length - 4)
  const entries = new Cursor(index.subarray(0, Math.max(0, index.length - 4 * (restarts + 1))))
  const handles: (Handle | undefined)[] = []
  while (!entries.isAtEnd) {
    entries.varint() // shared with the key before
    const keyBytes = entries.varint()
    const valueBytes = entries.varint()
    entries.skip(keyBytes ?? 0)
    handles.push(new Cursor(entries.take(valueBytes ?? 0)).handle())
  }
  return handles
}

class Cursor {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#bytes.length
  }

  skip(count: number): void {
    this.#at += count
  }

  take(count: number): Buffer {
    this.#at += count
    return this.#bytes.subarray(this.#at - count, this.#at)
  }

  varint(): number | undefined {
    let value = 0
    for (let shift = 0; shift < 49; shift += 7) {
      const byte = this.#bytes[this.#at++]
      if (byte === undefined) return undefined
      value += (byte & 0x7f) * 2 ** shift
      if (byte < 0x80) return value
    }
    return undefined
  }

  handle(): Handle | undefined {
    const offset = this.varint()
    const size = this.varint()
    return offset === undefined || size === undefined ? undefined : { offset, size }
  }
}

/** Stored checksums are rotated and shifted, so that bytes with their checksum have another one. */
function unmaskCrc(stored: number): number {
  const rotated = (stored - 0xa282ead8) >>> 0
  return ((rotated >>> 17) | (rotated << 15)) >>> 0
}
