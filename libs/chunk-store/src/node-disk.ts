/**
 * Real files. Writes go past the page cache (O_DIRECT) where the file system allows it, which costs a tenth of the CPU and
 * reaches the device's rate; reads go through it. The kernel drops cached pages of a range that is written directly.
 *
 * posix_fallocate cannot be reached from Node. A file grows by `resize` (sparse) in steps; full disks are kept away by
 * the store's low-water mark and survived by its handling of failed writes.
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
import { makeDirectories } from '@holdfast/kernel'
import type { Disk, DiskFile } from './disk.ts'
import { cachedRead } from './page-cache.ts'
import { alignedBytes } from './slots.ts'

const openFile = promisify(openFd)
const closeFile = promisify(closeFd)
const syncFile = promisify(fdatasync)
const resizeFile = promisify(ftruncate)
const statFile = promisify(fstat)

export class NodeDisk implements Disk {
  /** Undefined until the first file tells what the file system allows. */
  #direct: boolean | undefined

  /** @param direct false: always through the page cache. */
  constructor({ direct = true }: { direct?: boolean } = {}) {
    this.#direct = direct ? undefined : false
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

  async open(path: string, { create }: { create: boolean }): Promise<DiskFile> {
    this.#direct ??= await allowsDirect(dirname(path))
    const flags = constants.O_RDWR | (create ? constants.O_CREAT : 0)
    const cached = await openFile(path, flags, 0o600)
    try {
      const direct = this.#direct ? await openFile(path, flags | constants.O_DIRECT, 0o600) : undefined
      return new NodeDiskFile(cached, direct)
    } catch (error) {
      await closeFile(cached)
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
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0
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
}

class NodeDiskFile implements DiskFile {
  readonly #cached: number
  readonly #direct: number | undefined

  constructor(cached: number, direct: number | undefined) {
    this.#cached = cached
    this.#direct = direct
  }

  read(into: Uint8Array, position: number): Promise<number> {
    return readAll(this.#cached, into, position)
  }

  readCached(into: Uint8Array, position: number): number {
    return cachedRead?.(this.#cached, into, position) ?? 0
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

  resize(bytes: number): Promise<void> {
    return resizeFile(this.#cached, bytes)
  }

  async size(): Promise<number> {
    return (await statFile(this.#cached)).size
  }

  async close(): Promise<void> {
    await closeFile(this.#cached)
    if (this.#direct !== undefined) await closeFile(this.#direct)
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

/** Tries it: some file systems refuse the flag, some the write. */
async function allowsDirect(directory: string): Promise<boolean> {
  const path = join(directory, `probe-${process.pid}-${Math.random().toString(36).slice(2)}`)
  try {
    const fd = await openFile(path, constants.O_RDWR | constants.O_CREAT | (constants.O_DIRECT ?? 0), 0o600)
    try {
      return constants.O_DIRECT !== undefined && (await writeSome(fd, alignedBytes(4096), 0, 0)) === 4096
    } finally {
      await closeFile(fd)
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EINVAL') return false
    throw error
  } finally {
    await rm(path, { force: true })
  }
}
