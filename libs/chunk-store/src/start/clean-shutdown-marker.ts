/**
 * How a start knows that the catalogue is complete and from the last clean shutdown. RocksDB
 * silently drops everything after a damaged entry of its own log: the catalogue is then that of an
 * earlier time, perhaps of an earlier shutdown, which calls the open extent `paused` although a
 * later run wrote to it. So each clean shutdown generates a mark, writes it to the catalogue with
 * its last batch, and then to a file beside it. A start removes the file before it writes anything
 * else. Only if both exist and are equal the shutdown was clean and the catalogue is current.
 */
import { join } from 'node:path'
import { alignedBytes } from '@holdfast/kernel'
import type { Disk } from '../disk/disk.ts'
import { isUnopenable } from '../disk/faults.ts'
import { blockBytes } from '../format.ts'
import type { Log } from '../log.ts'

/** Random, so that no other shutdown has the same. */
export const endMarkBytes = 16
/** The key of the mark in the catalogue. The mark is there while the store is closed. */
export const endMarkKey = Buffer.from('mclean')

const markFileName = 'orderly-end'

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

  /**
   * A file that the disk cannot read is no mark: the start scans more.
   * @param mark the catalogue's, if it has one.
   */
  async wasMarked(mark: Buffer | undefined): Promise<boolean> {
    if (mark?.length !== endMarkBytes) return false
    if (!(await this.#disk.list(this.#directory)).includes(markFileName)) return false
    try {
      return await this.#says(mark)
    } catch (error) {
      if (!isUnopenable(error, this.#path)) throw error
      const { message } = error as Error
      this.#log.error({ file: markFileName, error: message }, 'the mark of the clean shutdown cannot be read')
      return false
    }
  }

  async #says(mark: Buffer): Promise<boolean> {
    const file = await this.#disk.open(this.#path, { create: false })
    try {
      const block = alignedBytes(blockBytes)
      return (await file.read(block, 0)) === blockBytes && block.subarray(0, endMarkBytes).equals(mark)
    } finally {
      await file.close()
    }
  }

  /** Called once the catalogue has the mark, synced, and nothing more is written. */
  async mark(mark: Buffer): Promise<void> {
    const block = alignedBytes(blockBytes)
    block.set(mark)
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
