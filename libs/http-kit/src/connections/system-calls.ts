import { createRequire } from 'node:module'
import { endianness } from 'node:os'
import type { LibraryHandle } from 'koffi'

/**
 * Calls of Linux that Node does not offer. Undefined where they do not exist: other systems, no
 * addon for this processor.
 */
export function systemCalls<T>(declare: (library: LibraryHandle) => T): T | undefined {
  if (process.platform !== 'linux' || endianness() !== 'LE') return undefined
  try {
    const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi')
    return declare(koffi.load(null))
  } catch {
    return undefined
  }
}
