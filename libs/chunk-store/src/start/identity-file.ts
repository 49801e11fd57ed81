/**
 * Which store a directory has: its id and its secret, beside the catalogue and the extents, which
 * have them too. A start without a catalogue knows by it which extents are its own, also among
 * those of other stores, and when no header of an extent can be read.
 *
 * It is written at the first start, before there is an extent, and again when it is missing or
 * damaged. A start with a catalogue does not need this file, so if the file cannot be written, the
 * store only logs that.
 */
import { join } from 'node:path'
import { alignedBytes, isShortage, isUnreadable } from '@holdfast/kernel'
import type { Disk, DiskFile } from '../disk/disk.ts'
import { isUnopenable } from '../disk/faults.ts'
import {
  blockBytes,
  decodeStoreIdentity,
  encodeStoreIdentity,
  identityBytes,
  type StoreIdentity,
} from '../format.ts'
import type { Log } from '../log.ts'

export const identityFileName = 'identity'

export class IdentityFile {
  readonly #disk: Disk
  readonly #directory: string
  readonly #path: string
  readonly #log: Log

  /** @param directory of the store. */
  constructor(disk: Disk, directory: string, log: Log) {
    this.#disk = disk
    this.#directory = directory
    this.#path = join(directory, identityFileName)
    this.#log = log
  }

  /** Undefined when there is none, or no copy in it is whole. */
  async read(): Promise<StoreIdentity | undefined> {
    const bytes = await this.#read()
    return decodeStoreIdentity(bytes) ?? decodeStoreIdentity(bytes.subarray(blockBytes))
  }

  /** Writes it unless both copies say this already. Durable when it resolves, or it is logged. */
  async keep(identity: StoreIdentity): Promise<void> {
    const wanted = alignedBytes(identityBytes)
    encodeStoreIdentity(identity, wanted)
    try {
      if ((await this.#read()).equals(wanted)) return
      const file = await this.#disk.open(this.#path, { create: true })
      try {
        await file.write(wanted, 0)
        await file.sync()
      } finally {
        await file.close()
      }
      await this.#disk.syncDirectory(this.#directory)
    } catch (error) {
      const { message } = error as Error
      this.#log.warn({ file: identityFileName, error: message }, 'the identity of the store is not written')
    }
  }

  /** Zeros where nothing can be read. */
  async #read(): Promise<Buffer> {
    const blocks = alignedBytes(identityBytes)
    let file: DiskFile
    try {
      file = await this.#disk.open(this.#path, { create: false })
    } catch (error) {
      if (isShortage(error) || !isUnopenable(error, this.#path)) throw error
      return blocks
    }
    try {
      for (const at of [0, blockBytes])
        await file.readUncached(blocks.subarray(at, at + blockBytes), at).catch((error) => {
          if (!isUnreadable(error)) throw error
          blocks.fill(0, at, at + blockBytes)
        })
      return blocks
    } finally {
      await file.close()
    }
  }
}
