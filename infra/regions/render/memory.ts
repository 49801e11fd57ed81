/**
 * Memory of containers. Node and Java size their heaps by the memory of the machine where nothing
 * says otherwise: then a process grows beyond the limit of its pod, and the kernel ends it.
 */
import { settings as known } from '@holdfast/config'
import type { Settings } from '../deployment.ts'
import type { OurRole } from '../roles.ts'

export interface Memory {
  /** What the scheduler keeps free for it. */
  requestMiB: number
  /** At more than this the kernel ends it. */
  limitMiB: number
  /** Variables that keep its heap below that. */
  environment: Record<string, string>
}

/** Loaded accounts have this part of Node's heap at most. */
const accountsPart = 6
const heapLeastMiB = 768
/** Code, stacks, and the bytes of requests on their way. */
const besideHeapMiB = 768

/** Of a Holdfast process: what its settings allow it to keep, and room beside that. */
export function memoryOfProcess(role: OurRole, settings: Settings): Memory {
  const mebibytes = (name: 'HOLDFAST_ACCOUNT_MEMORY' | 'HOLDFAST_CACHE_MEMORY' | 'HOLDFAST_UPLOAD_MEMORY') =>
    Math.ceil(known[name].parse(settings[name] ?? known[name].fallback) / 1024 ** 2)
  const hasAccounts = role === 'actor-host' || role === 'standalone'
  const accountsMiB = hasAccounts ? accountsPart * mebibytes('HOLDFAST_ACCOUNT_MEMORY') : 0
  const heapMiB = Math.max(heapLeastMiB, accountsMiB)
  const requestMiB = heapMiB + mebibytes('HOLDFAST_CACHE_MEMORY') + mebibytes('HOLDFAST_UPLOAD_MEMORY')
  return {
    requestMiB,
    limitMiB: requestMiB + besideHeapMiB,
    environment: { NODE_OPTIONS: `--max-old-space-size=${heapMiB}` },
  }
}

/**
 * Java locks the heap in memory. Beside it are memtables (a quarter of the heap) and buffers of
 * files and connections; the rest of the limit is for pages of files, which the kernel can drop.
 */
export const memoryOfCassandra: Memory = {
  requestMiB: 6_144,
  limitMiB: 8_192,
  environment: { MAX_HEAP_SIZE: '4G' },
}

export const memoryOfNats: Memory = {
  requestMiB: 256,
  limitMiB: 1_024,
  environment: { GOMEMLIMIT: '768MiB' },
}
