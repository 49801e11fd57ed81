/**
 * Reserved disk space, released when another program fills the disk to the last byte: a deletion is
 * a write before it frees anything, and so is what a store writes when it opens.
 *
 * The space is one file, filled in steps. When it cannot be filled it is removed, so that a part of
 * it does not take the last bytes. One operation runs after the other.
 */
import { constants } from 'node:fs'
import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'

/** The files of a disk; a store that tests with faults has its own. */
export interface BallastDisk {
  open(path: string, options: { create: true }): Promise<BallastDiskFile>
  /** Resolves when the file is missing, too. */
  remove(path: string): Promise<void>
}

interface BallastDiskFile {
  size(): Promise<number>
  write(bytes: Uint8Array, position: number): Promise<void>
  sync(): Promise<void>
  close(): Promise<void>
}

export interface BallastOptions {
  /** The directory of the store. The file is `ballast` in it. */
  directory: string
  /** A multiple of 1 MiB; 0: none. */
  bytes: number
  /** Default: the disk of this machine. */
  disk?: BallastDisk
  /** Makes the memory from which a step is written. Default: any memory. */
  zeros?: (bytes: number) => Uint8Array
  /** Called when the file could not be filled or removed. It is retried with the next call. */
  onFault?: (error: Error) => void
  /** Called when the space was released. */
  onReleased?: () => void
}

const stepBytes = 1024 * 1024

export class Ballast {
  readonly path: string
  readonly #bytes: number
  readonly #disk: BallastDisk
  readonly #options: BallastOptions
  /** Undefined: part of it may exist, from an earlier process or from a failed attempt. */
  #held: boolean | undefined
  #taking: Promise<boolean> | undefined
  #last: Promise<unknown> = Promise.resolve()

  constructor(options: BallastOptions) {
    this.path = ballastPath(options.directory)
    this.#bytes = options.bytes
    this.#disk = options.disk ?? nodeDisk
    this.#options = options
  }

  /** Allocates the space unless it exists. Never fails. @returns whether it is reserved now. */
  take(): Promise<boolean> {
    if (this.#bytes === 0) return Promise.resolve(true)
    this.#taking ??= this.#next(() => this.#take()).finally(() => {
      this.#taking = undefined
    })
    return this.#taking
  }

  /** Releases the space, for what must be written now. Never fails. */
  async release(): Promise<void> {
    await this.#next(async () => {
      if (this.#held !== false && (await this.#remove())) this.#options.onReleased?.()
    })
  }

  /** Waits for running operations. */
  async settled(): Promise<void> {
    await this.#last
  }

  #next<R>(act: () => Promise<R>): Promise<R> {
    const done = this.#last.then(act, act)
    this.#last = done
    return done
  }

  async #take(): Promise<boolean> {
    if (this.#held === true) return true
    this.#held = undefined
    try {
      await this.#fill()
      this.#held = true
    } catch (error) {
      this.#options.onFault?.(error as Error)
      await this.#remove()
    }
    return this.#held === true
  }

  async #fill(): Promise<void> {
    const file = await this.#disk.open(this.path, { create: true })
    try {
      const size = await file.size()
      const zeros = this.#options.zeros?.(stepBytes) ?? Buffer.alloc(stepBytes)
      for (let at = size - (size % stepBytes); at < this.#bytes; at += stepBytes) await file.write(zeros, at)
      await file.sync()
    } finally {
      await file.close()
    }
  }

  async #remove(): Promise<boolean> {
    try {
      await this.#disk.remove(this.path)
      this.#held = false
      return true
    } catch (error) {
      this.#held = undefined
      this.#options.onFault?.(error as Error)
      return false
    }
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

const nodeDisk: BallastDisk = {
  async open(path) {
    const file = await open(path, constants.O_RDWR | constants.O_CREAT)
    return {
      size: async () => (await file.stat()).size,
      write: async (bytes, position) => {
        for (let from = 0; from < bytes.length; ) {
          const { bytesWritten } = await file.write(bytes, from, bytes.length - from, position + from)
          from += bytesWritten
        }
      },
      sync: () => file.sync(),
      close: () => file.close(),
    }
  },
  remove: (path) => rm(path, { force: true }),
}
