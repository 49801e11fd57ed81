/**
 * Blocks that a file reserves before anything is written to them, and releases: `fallocate`, which
 * Node does not offer. Not `posix_fallocate`, which writes zeros where the file system cannot
 * reserve blocks otherwise: everything would be written twice.
 *
 * It runs in the thread pool. errno belongs to the thread there; koffi restores it for the callback
 * of that call, and for nothing later.
 */
import { createRequire } from 'node:module'
import { constants } from 'node:os'

export interface FileRange {
  from: number
  /** Beyond the last byte. */
  to: number
}

interface Fallocate {
  async(
    fd: number,
    mode: number,
    from: number,
    length: number,
    done: (error: Error | null, result: number) => void,
  ): void
}

const keepSize = 1
const punchHole = 2

const { EINTR, ENOSYS, EOPNOTSUPP } = constants.errno

export class Blocks {
  readonly #fallocate: Fallocate
  readonly #errno: () => number

  /** Undefined where the call does not exist: other systems, no addon for this processor. */
  static create(): Blocks | undefined {
    if (process.platform !== 'linux') return undefined
    try {
      const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi')
      const fallocate = koffi.load(null).func('fallocate', 'int', ['int', 'int', 'int64_t', 'int64_t'])
      return new Blocks(fallocate as unknown as Fallocate, () => koffi.errno())
    } catch {
      return undefined
    }
  }

  /** @param errno of the call whose callback runs. */
  constructor(fallocate: Fallocate, errno: () => number) {
    this.#fallocate = fallocate
    this.#errno = errno
  }

  /**
   * Reserves what the range lacks; the file reaches at least to its end, and reads as zeros where
   * nothing was written.
   * @returns false where the file system cannot; nothing is changed then.
   * @throws ENOSPC: then part of it may be reserved.
   */
  take(fd: number, range: FileRange): Promise<boolean> {
    return this.#change(fd, 0, range)
  }

  /**
   * Releases the blocks of the range; the file keeps its length, and reads as zeros there. @returns
   * false where the file system cannot.
   */
  release(fd: number, range: FileRange): Promise<boolean> {
    return this.#change(fd, keepSize | punchHole, range)
  }

  async #change(fd: number, mode: number, range: FileRange): Promise<boolean> {
    for (;;) {
      const errno = await this.#call(fd, mode, range)
      if (errno === undefined) return true
      if (errno === EOPNOTSUPP || errno === ENOSYS) return false
      if (errno !== EINTR) throw failure(errno, range)
    }
  }

  /** @returns errno when it failed. */
  #call(fd: number, mode: number, { from, to }: FileRange): Promise<number | undefined> {
    return new Promise((resolve, reject) => {
      this.#fallocate.async(fd, mode, from, to - from, (error, result) => {
        const errno = this.#errno()
        if (error !== null) reject(error)
        else resolve(result === 0 ? undefined : errno)
      })
    })
  }
}

function failure(errno: number, { from, to }: FileRange): Error {
  const [code = `errno ${errno}`] =
    Object.entries(constants.errno).find(([, number]) => number === errno) ?? []
  return Object.assign(new Error(`${code}: fallocate ${from}..${to}`), { code, errno: -errno })
}
