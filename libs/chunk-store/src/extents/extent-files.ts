/**
 * The files of the extents, of which a bounded number is open. An operation takes its file before
 * the open and holds it until its end, and only unused files are closed: no read or write ever
 * meets a descriptor that was closed, or reused for another file. When all are in use, an operation
 * that needs one more waits in turn. An operation never needs a second one, so all of them end.
 */
import { join } from 'node:path'
import { BlobFault } from '@holdfast/blob-store'
import { isShortage } from '@holdfast/kernel'
import type { Disk, DiskFile } from '../disk/disk.ts'
import type { Extent, FilesOfExtents } from './extent.ts'

/**
 * Extents whose files are open at once, two descriptors each. Consecutive reads seldom need more
 * than a few.
 */
export const openExtentsMaxDefault = 96
/**
 * The open extent, those that compaction reads and writes, and some readers: with fewer each of
 * them would close what the next one needs.
 */
export const openExtentsMaxLeast = 8

interface OpenFile {
  file: Promise<DiskFile>
  /** The same once it is there. */
  opened: DiskFile | undefined
  /** Operations that hold it or wait for it. While there are any it is not closed. */
  users: number
  /** Set by a waiter for the last of them. */
  quiet: (() => void) | undefined
}

export class ExtentFiles implements FilesOfExtents {
  readonly #disk: Disk
  readonly #directory: string
  readonly #openMax: number
  readonly #open = new Map<Extent, OpenFile>()
  readonly #closing = new Set<Promise<void>>()
  /** Those that are open, being opened or being closed. */
  #taken = 0
  readonly #waiting: (() => void)[] = []
  /** Called once an extent can accept no more. */
  failed: (extent: Extent) => void = () => {}

  /** @param options.openMax extents whose files are open at once, `openExtentsMaxLeast` or more. */
  constructor(disk: Disk, directory: string, { openMax = openExtentsMaxDefault }: { openMax?: number } = {}) {
    this.#disk = disk
    this.#directory = directory
    this.#openMax = Math.max(openExtentsMaxLeast, openMax)
  }

  path(extent: { number: number }): string {
    return join(this.#directory, extentFileName(extent.number))
  }

  /**
   * Names of all files in the directory. @throws Error when it is away, which an empty list would
   * hide.
   */
  async names(): Promise<Set<string>> {
    await this.#disk.space(this.#directory)
    return new Set(await this.#disk.list(this.#directory))
  }

  /** For metrics. */
  get openCount(): number {
    return this.#taken
  }

  /** @throws BlobFault `UNAVAILABLE`; EEXIST when there is such a file. */
  async create(extent: Extent): Promise<void> {
    const file = await this.#openFile(extent, { create: true })
    try {
      await this.#disk.syncDirectory(this.#directory)
    } catch (error) {
      await this.#closeFile(file).catch(() => {})
      await this.#disk.remove(this.path(extent)).catch(() => {})
      throw error
    }
    const held = { file: Promise.resolve(file), opened: file, users: 0, quiet: undefined }
    this.#open.set(extent, held)
    this.#released(extent, held)
  }

  /** The file, for use in this very turn; undefined while it is not open. */
  opened(extent: Extent): DiskFile | undefined {
    return this.#open.get(extent)?.opened
  }

  /**
   * @throws BlobFault `UNAVAILABLE` when no descriptor is available for it: nothing has happened.
   */
  async use<T>(extent: Extent, act: (file: DiskFile) => Promise<T>): Promise<T> {
    const held = this.#open.get(extent) ?? this.#begin(extent)
    held.users++
    try {
      held.opened ??= await held.file
      return await act(held.opened)
    } finally {
      held.users--
      if (held.users === 0) this.#released(extent, held)
    }
  }

  allocatedBytes(extent: Extent): Promise<number> {
    return this.#disk.allocatedBytes(this.path(extent))
  }

  /** Waits for its current readers. */
  async remove(extent: Extent): Promise<void> {
    await this.#close(extent).catch(() => {}) // its descriptor is freed anyway
    await this.#disk.remove(this.path(extent))
    await this.#disk.syncDirectory(this.#directory)
  }

  /** Waits for running reads and writes. @throws the first failure, once all are closed. */
  async closeAll(): Promise<void> {
    for (const extent of [...this.#open.keys()]) void this.#close(extent).catch(() => {})
    const closed = await Promise.allSettled(this.#closing)
    this.#disk.close?.()
    for (const outcome of closed) if (outcome.status === 'rejected') throw outcome.reason
  }

  /** @returns a file without users; the caller becomes its user in this turn. */
  #begin(extent: Extent): OpenFile {
    const file = this.#openFile(extent, { create: false })
    const held: OpenFile = { file, opened: undefined, users: 0, quiet: undefined }
    file.catch(() => {
      if (this.#open.get(extent) === held) this.#open.delete(extent)
    })
    this.#open.set(extent, held)
    return held
  }

  async #openFile(extent: Extent, { create }: { create: boolean }): Promise<DiskFile> {
    await this.#takePlace()
    try {
      return await this.#openShort(this.path(extent), create)
    } catch (error) {
      this.#givePlace()
      throw error
    }
  }

  /** When the process or the system has no descriptor left, idle files here are closed first. */
  async #openShort(path: string, create: boolean): Promise<DiskFile> {
    const options = { create, exclusive: create }
    try {
      return await this.#disk.open(path, options)
    } catch (error) {
      if (!isShortage(error)) throw error
      while (this.#closeIdle());
      await Promise.all(this.#closing)
    }
    try {
      return await this.#disk.open(path, options)
    } catch (error) {
      if (!isShortage(error)) throw error
      throw new BlobFault('UNAVAILABLE', `${path}: ${(error as Error).message}`, { cause: error })
    }
  }

  async #takePlace(): Promise<void> {
    if (this.#taken < this.#openMax) {
      this.#taken++
      return
    }
    await new Promise<void>((resolve) => {
      this.#waiting.push(resolve)
      this.#closeIdle()
    })
  }

  /** It goes to the operation that waits longest. */
  #givePlace(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#taken--
    else next()
  }

  #released(extent: Extent, held: OpenFile): void {
    held.quiet?.()
    if (this.#waiting.length > this.#closing.size && this.#open.get(extent) === held)
      void this.#close(extent).catch(() => {})
  }

  /** No new operation finds it; it is closed once its last user has ended. */
  #close(extent: Extent): Promise<void> {
    const held = this.#open.get(extent)
    if (held === undefined) return Promise.resolve()
    this.#open.delete(extent)
    const closing = this.#closeHeld(held).finally(() => this.#closing.delete(closing))
    this.#closing.add(closing)
    return closing
  }

  async #closeHeld(held: OpenFile): Promise<void> {
    while (held.users > 0)
      await new Promise<void>((resolve) => {
        held.quiet = resolve
      })
    const file = held.opened ?? (await held.file.catch(() => undefined))
    if (file !== undefined) await this.#closeFile(file)
  }

  async #closeFile(file: DiskFile): Promise<void> {
    try {
      await file.close()
    } finally {
      this.#givePlace()
    }
  }

  /** An unused one: first one that accepts no writes. @returns false when there is none. */
  #closeIdle(): boolean {
    let found: Extent | undefined
    for (const [extent, { users }] of this.#open) {
      if (users > 0) continue
      found ??= extent
      if (extent.state === 'open' || extent.isUnsynced) continue
      found = extent
      break
    }
    if (found === undefined) return false
    void this.#close(found).catch(() => {})
    return true
  }
}

export function extentFileName(number: number): string {
  return `${number.toString(16).padStart(8, '0')}.extent`
}

export function extentNumberOf(fileName: string): number | undefined {
  return /^[0-9a-f]{8}\.extent$/.test(fileName) ? Number.parseInt(fileName.slice(0, 8), 16) : undefined
}
