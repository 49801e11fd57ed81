/**
 * Reads that never wait for the device: `preadv2` with RWF_NOWAIT returns only what the kernel's
 * page cache holds. Node does not offer it. A round trip through the thread pool costs several
 * times as much as copying 64 KiB from memory.
 */
import { createRequire } from 'node:module'

/**
 * Number of bytes that were in memory from `position` on: fewer than requested, or 0, when the
 * device would be needed, and after any failure.
 */
type CachedRead = (fd: number, into: Uint8Array, position: number) => number

const nowait = 8

/**
 * Undefined where the call does not exist: other systems, other C libraries, no addon for this
 * processor.
 */
export const cachedRead = process.platform === 'linux' ? load() : undefined

function load(): CachedRead | undefined {
  try {
    const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi')
    const preadv2 = koffi.load(null).func('preadv2', 'int64_t', ['int', 'void *', 'int', 'int64_t', 'int'])
    /** One `struct iovec`: address, length. */
    const iovec = new BigUint64Array(2)
    return (fd, into, position) => {
      iovec[0] = koffi.address(into)
      iovec[1] = BigInt(into.length)
      return Math.max(0, preadv2(fd, iovec, 1, position, nowait) as number)
    }
  } catch {
    return undefined
  }
}
