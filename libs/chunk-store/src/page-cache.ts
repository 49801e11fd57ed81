/**
 * Reads that never wait for the device: `preadv2` with RWF_NOWAIT gives what the kernel's page
 * cache holds and nothing else. Node has no call for it. Handing a read to the thread pool and
 * being woken again costs several times what it takes to copy 64 KiB that are in memory.
 */
import { createRequire } from 'node:module'

/**
 * Bytes that were in memory from `position` on: fewer than asked for, or 0, when the device would
 * have to be waited for, and after any failure.
 */
type CachedRead = (fd: number, into: Uint8Array, position: number) => number

const nowait = 8

/**
 * Undefined where there is no such call: other systems, other C libraries, no addon for this
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
