/**
 * How a start knows that the catalogue is complete and from the last clean shutdown. RocksDB
 * silently drops everything after a damaged entry of its own log: the catalogue is then that of an
 * earlier time, perhaps of an earlier shutdown, which calls the open extent `paused` although a
 * later run wrote to it. So each clean shutdown generates a mark, writes it to the catalogue with
 * its last batch, and then to a file beside it. A start removes the file before it writes anything
 * else. Only if both exist and are equal the shutdown was clean and the catalogue is current.
 *
 * The file also has the name and the digest of the list of the catalogue's tables. If the end of
 * that list is lost, tables are lost, while the log may still have the mark. The file, one block:
 * the mark, 16 bytes; the digest of the list, 32; the length of its name, 1; the name; at 4064 the
 * SHA-256 of all before, 32.
 */
import { hash } from 'node:crypto'
import { join } from 'node:path'
import { alignedBytes } from '@holdfast/kernel'
import type { TableList } from '../catalogue/table-list.ts'
import type { Disk } from '../disk/disk.ts'
import { isUnopenable } from '../disk/faults.ts'
import { blockBytes } from '../format.ts'
import type { Log } from '../log.ts'

/** Random, so that no other shutdown has the same. */
export const endMarkBytes = 16
/** The key of the mark in the catalogue. The mark is there while the store is closed. */
export const endMarkKey = Buffer.from('mclean')

const markFileName = 'orderly-end'
const digestBytes = 32
const nameAt = endMarkBytes + digestBytes
const sumAt = blockBytes - digestBytes

export class CleanShutdownMarker {
  readonly #disk: Disk
  readonly #directory: string
  readonly #path: string
  readonly #log: Log

  /** @param directory of the store. */
  constructor(disk: Disk, directory: string, log: Log) {
    this.#disk = disk
    this.#directory = directory
    this.#path = join(directory, markFileName)
    this.#log = log
  }

  /** @param mark the catalogue's, if it has one. */
  async wasMarked(mark: Buffer | undefined): Promise<boolean> {
    if (mark?.length !== endMarkBytes) return false
    return (await this.#read())?.subarray(0, endMarkBytes).equals(mark) === true
  }

  /** As the last clean shutdown left it. Undefined: unknown, as after earlier releases. */
  async leftList(): Promise<TableList | undefined> {
    const block = await this.#read()
    if (block === undefined || !sumOf(block).equals(block.subarray(sumAt))) return undefined
    const length = block.readUInt8(nameAt)
    if (length === 0) return undefined
    const file = block.toString('latin1', nameAt + 1, nameAt + 1 + length)
    return { file, digest: Buffer.from(block.subarray(endMarkBytes, nameAt)) }
  }

  /** A file that the disk cannot read is no mark: the start scans more. */
  async #read(): Promise<Buffer | undefined> {
    if (!(await this.#disk.list(this.#directory)).includes(markFileName)) return undefined
    try {
      return await this.#readBlock()
    } catch (error) {
      if (!isUnopenable(error, this.#path)) throw error
      const { message } = error as Error
      this.#log.error({ file: markFileName, error: message }, 'the mark of the clean shutdown cannot be read')
      return undefined
    }
  }

  async #readBlock(): Promise<Buffer | undefined> {
    const file = await this.#disk.open(this.#path, { create: false })
    try {
      const block = alignedBytes(blockBytes)
      return (await file.read(block, 0)) === blockBytes ? block : undefined
    } finally {
      await file.close()
    }
  }

  /**
   * Called once the catalogue has the mark, synced, and is closed.
   * @param list undefined: it has none.
   */
  async mark(mark: Buffer, list: TableList | undefined): Promise<void> {
    const block = alignedBytes(blockBytes)
    block.set(mark)
    if (list !== undefined) {
      block.set(list.digest, endMarkBytes)
      block.writeUInt8(list.file.length, nameAt)
      block.write(list.file, nameAt + 1, 'latin1')
    }
    block.set(sumOf(block), sumAt)
    const file = await this.#disk.open(this.#path, { create: true })
    try {
      await file.write(block, 0)
      await file.sync()
    } finally {
      await file.close()
    }
    await this.#disk.syncDirectory(this.#directory)
  }

  /** Called before anything is written. Durable when it resolves. */
  async unmark(): Promise<void> {
    await this.#disk.remove(this.#path)
    await this.#disk.syncDirectory(this.#directory)
  }
}

function sumOf(block: Buffer): Buffer {
  return hash('sha256', block.subarray(0, sumAt), 'buffer')
}
