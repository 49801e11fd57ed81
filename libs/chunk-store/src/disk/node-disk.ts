/**
 * Real files. Writes bypass the page cache (O_DIRECT) where the file system allows it, which costs
 * a tenth of the CPU and reaches the device's rate; reads use it. The kernel drops cached pages of
 * a range that is written directly.
 *
 * A file grows in steps whose blocks are reserved at once (`blocks.ts`), or sparse where that is
 * impossible: then a write may hit a full disk. The store's low-water mark prevents that, and its
 * handling of failed writes survives it.
 */
import {
  close as closeFd,
  constants,
  fdatasync,
  fstat,
  ftruncate,
  open as openFd,
  read as readFd,
  write as writeFd,
} from 'node:fs'
import { open, readdir, rm, stat, statfs } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { alignedBytes, makeDirectories } from '@holdfast/kernel'
import { Blocks, type FileRange } from './blocks.ts'
import type { Disk, DiskFile, PassOn } from './disk.ts'
import { cachedRead } from './page-cache.ts'
import { type SpliceResult, SpliceSender } from './splice-sender.ts'

const openFile = promisify(openFd)
const closeFile = promisify(closeFd)
const syncFile = promisify(fdatasync)
const truncateFile = promisify(ftruncate)
const statFile = promisify(fstat)
const zeroBlock = alignedBytes(4096)

export class NodeDisk implements Disk {
  /** Undefined until the first file shows what the file system allows. */
  #direct: boolean | undefined
  /** Where pages in the pipe stay unchanged. */
  #spliceSender: SpliceSender | undefined
  readonly #blocks: Blocks | undefined

  /**
   * @param options.direct false: always through the page cache.
   * @param options.blocks reserves blocks for files before they are written; by default from the
   *   system, and without such a call files grow sparse.
   */
  constructor({ direct = true, blocks = Blocks.create() }: { direct?: boolean; blocks?: Blocks } = {}) {
    this.#direct = direct ? undefined : false
    this.#blocks = blocks
  }

  async makeDirectory(path: string): Promise<void> {
    const first = await makeDirectories(path)
    if (first === undefined) return
    for (let made = path; made.length >= first.length; made = dirname(made))
      await this.syncDirectory(dirname(made))
  }

  async list(path: string): Promise<string[]> {
    return readdir(path).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return []
      throw error
    })
  }

  async open(
    path: string,
    { create, exclusive = false }: { create: boolean; exclusive?: boolean },
  ): Promise<DiskFile> {
    if (this.#direct === undefined) {
      const allowed = await allowedIn(dirname(path))
      this.#direct = allowed.direct
      this.#spliceSender = allowed.pipe
    }
    const making = create ? constants.O_CREAT | (exclusive ? constants.O_EXCL : 0) : 0
    const cached = await openFile(path, constants.O_RDWR | making, 0o600)
    try {
      const direct = this.#direct ? await openFile(path, constants.O_RDWR | constants.O_DIRECT) : undefined
      return new NodeDiskFile({ cached, direct, pipe: this.#spliceSender, blocks: this.#blocks })
    } catch (error) {
      await closeFile(cached)
      // otherwise the next attempt would find it as another's
      if (making & constants.O_EXCL) await rm(path, { force: true })
      throw error
    }
  }

  async remove(path: string): Promise<void> {
    await rm(path, { force: true, recursive: true })
  }

  async allocatedBytes(path: string): Promise<number> {
    try {
      return (await stat(path)).blocks * 512
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code === 'ENOENT' || code === 'ELOOP') return 0 // a link may be dangling
      throw error
    }
  }

  async syncDirectory(path: string): Promise<void> {
    const directory = await open(path, 'r')
    try {
      await directory.sync()
    } finally {
      await directory.close()
    }
  }

  async space(path: string): Promise<{ freeBytes: number; totalBytes: number }> {
    const { bavail, blocks, bsize } = await statfs(path)
    return { freeBytes: bavail * bsize, totalBytes: blocks * bsize }
  }

  sendsDirectly(): boolean {
    return this.#spliceSender !== undefined
  }

  close(): void {
    this.#spliceSender?.close()
  }
}

interface FileDeps {
  cached: number
  direct: number | undefined
  pipe: SpliceSender | undefined
  blocks: Blocks | undefined
}

class NodeDiskFile implements DiskFile {
  readonly #cached: number
  readonly #direct: number | undefined
  readonly #spliceSender: SpliceSender | undefined
  readonly #blocks: Blocks | undefined

  constructor({ cached, direct, pipe, blocks }: FileDeps) {
    this.#cached = cached
    this.#direct = direct
    this.#spliceSender = pipe
    this.#blocks = blocks
  }

  read(into: Uint8Array, position: number): Promise<number> {
    return readAll(this.#cached, into, position)
  }

  readCached(into: Uint8Array, position: number): number {
    return cachedRead?.(this.#cached, into, position) ?? 0
  }

  passOn(request: PassOn): SpliceResult | undefined {
    return this.#spliceSender?.pass({ file: this.#cached, ...request })
  }

  readUncached(into: Uint8Array, position: number): Promise<number> {
    return readAll(this.#direct ?? this.#cached, into, position)
  }

  async write(bytes: Uint8Array, position: number): Promise<void> {
    const fd = this.#direct ?? this.#cached
    for (let at = 0; at < bytes.length; ) at += await writeSome(fd, bytes, at, position + at)
  }

  sync(): Promise<void> {
    return syncFile(this.#cached)
  }

  async reserve(range: FileRange): Promise<boolean> {
    const size = await this.size()
    try {
      if (await this.#blocks?.take(this.#cached, range)) return true
    } catch (error) {
      await truncateFile(this.#cached, size) // some file systems keep the blocks they could reserve
      throw error
    }
    if (size < range.to) await truncateFile(this.#cached, range.to)
    return false
  }

  /**
   * The kernel writes zeros into the pages of a large folio that overlaps the range, also when they
   * are in use. A direct write removes the folio from the cache unchanged: so the first and the
   * last block are written before.
   */
  async discard({ from, to }: FileRange, { wasRead = false } = {}): Promise<'done' | 'not now' | 'not here'> {
    if (this.#blocks === undefined) return 'not here'
    if (wasRead && this.#spliceSender !== undefined) {
      try {
        await this.write(zeroBlock, from)
        await this.write(zeroBlock, to - zeroBlock.length)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
        return 'not now'
      }
    }
    return (await this.#blocks.release(this.#cached, { from, to })) ? 'done' : 'not here'
  }

  truncate(bytes: number): Promise<void> {
    return truncateFile(this.#cached, bytes)
  }

  async size(): Promise<number> {
    return (await statFile(this.#cached)).size
  }

  async close(): Promise<void> {
    try {
      await closeFile(this.#cached)
    } finally {
      if (this.#direct !== undefined) await closeFile(this.#direct)
    }
  }
}

async function readAll(fd: number, into: Uint8Array, position: number): Promise<number> {
  let at = 0
  while (at < into.length) {
    const count = await readSome(fd, into, at, position + at)
    if (count === 0) break
    at += count
  }
  return at
}

function readSome(fd: number, into: Uint8Array, at: number, position: number): Promise<number> {
  return new Promise((resolve, reject) => {
    readFd(fd, into, at, into.length - at, position, (error, count) =>
      error === null ? resolve(count) : reject(error),
    )
  })
}

function writeSome(fd: number, bytes: Uint8Array, at: number, position: number): Promise<number> {
  return new Promise((resolve, reject) => {
    writeFd(fd, bytes, at, bytes.length - at, position, (error, count) =>
      error === null ? resolve(count) : reject(error),
    )
  })
}

interface DirectAccess {
  direct: boolean
  pipe?: SpliceSender
}

/**
 * A test: some file systems refuse the flag, some the write, and some accept it and write through
 * the page cache.
 */
async function allowedIn(directory: string): Promise<DirectAccess> {
  if (constants.O_DIRECT === undefined) return { direct: false }
  const path = join(directory, `probe-${process.pid}-${Math.random().toString(36).slice(2)}`)
  try {
    const file = await openFile(path, constants.O_RDWR | constants.O_CREAT, 0o600)
    try {
      return await allowedFor(file, path)
    } finally {
      await closeFile(file)
    }
  } finally {
    await rm(path, { force: true })
  }
}

async function allowedFor(file: number, path: string): Promise<DirectAccess> {
  const block = alignedBytes(4096)
  try {
    const direct = await openFile(path, constants.O_RDWR | constants.O_DIRECT)
    try {
      if ((await writeSome(direct, block, 0, 0)) !== block.length) return { direct: false }
      const pipe = SpliceSender.create()
      return pipe?.keeps({ file, direct, block }) ? { direct: true, pipe } : { direct: true }
    } finally {
      await closeFile(direct)
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EINVAL') return { direct: false }
    throw error
  }
}
