/**
 * Reserved disk space, released when another program fills the disk to the last byte: a deletion
 * must be written before it frees anything, and so must the catalogue.
 */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Disk } from '../disk/disk.ts'
import type { Log } from '../log.ts'
import { alignedBytes } from '../memory/buffer-pool.ts'

const stepBytes = 1024 * 1024

export class Ballast {
  readonly #disk: Disk
  readonly #directory: string
  readonly #bytes: number
  readonly #log: Log
  /** Undefined: part of it may exist, from an earlier process or from a failed attempt. */
  #held: boolean | undefined
  #busy: Promise<void> | undefined

  /** @param bytes a multiple of 1 MiB; 0: none. */
  constructor(disk: Disk, directory: string, bytes: number, log: Log) {
    this.#disk = disk
    this.#directory = directory
    this.#bytes = bytes
    this.#log = log
  }

  /** Allocates the space unless it exists. A failure is harmless: it is retried. */
  take(): Promise<void> {
    if (this.#held !== true && this.#bytes > 0) this.#busy ??= this.#during(() => this.#fill())
    return this.#busy ?? Promise.resolve()
  }

  /** Releases the space, for what must be written now. */
  release(): Promise<void> {
    if (this.#held !== false) this.#busy ??= this.#during(() => this.#empty())
    return this.#busy ?? Promise.resolve()
  }

  /** Waits for running operations. */
  async settled(): Promise<void> {
    await this.#busy
  }

  async #during(act: () => Promise<void>): Promise<void> {
    try {
      await act()
    } catch (error) {
      this.#log.warn({ error: (error as Error).message }, 'the ballast file could not be changed')
    } finally {
      this.#busy = undefined
    }
  }

  /** Its bytes on disk. */
  allocatedBytes(): Promise<number> {
    return this.#disk.allocatedBytes(this.#path)
  }

  async #fill(): Promise<void> {
    this.#held = undefined
    const file = await this.#disk.open(this.#path, { create: true })
    try {
      const size = await file.size()
      const zeros = alignedBytes(stepBytes)
      for (let at = size - (size % stepBytes); at < this.#bytes; at += stepBytes) await file.write(zeros, at)
      await file.sync()
      this.#held = true
    } finally {
      await file.close()
    }
  }

  async #empty(): Promise<void> {
    await this.#disk.remove(this.#path)
    this.#held = false
    this.#log.warn({ bytes: this.#bytes }, 'the disk is full: the ballast was released')
  }

  get #path(): string {
    return ballastPath(this.#directory)
  }
}

/**
 * For other users of the disk that need it before the store is opened. @param directory of the
 * store.
 * @returns whether it existed.
 */
export async function releaseBallast(directory: string): Promise<boolean> {
  try {
    await rm(ballastPath(directory))
    return true
  } catch {
    return false
  }
}

/** @param directory of the store. */
export function ballastPath(directory: string): string {
  return join(directory, 'ballast')
}
