import { silentLog } from '@holdfast/kernel'
import { openExtentsMaxDefault } from './extents/extent-files.ts'
import { InlineHashing } from './hashing/hashing.ts'
import { type ChunkStoreOptions, chunkStoreDefaults } from './options.ts'

const MiB = 1024 * 1024

/** The options of a test's store, without its path. */
export const testChunkStore: Omit<ChunkStoreOptions, 'path'> = {
  ...chunkStoreDefaults,
  cataloguesIn: undefined,
  uploadMemoryBytes: 32 * MiB,
  cacheBytes: 32 * MiB,
  lowWaterBytes: undefined,
  openExtentsMax: openExtentsMaxDefault,
  direct: true,
  pinnedAtFirstMs: 0,
  catalogue: undefined,
  log: silentLog,
}

/**
 * The second argument of `ChunkStore.open`: digests are made in the calling thread. A thread takes
 * 0.15 s of CPU at each start; hashing and the store's contract are tested with threads.
 */
export const withoutHashThreads = {
  hashing: (memory: WebAssembly.Memory) => new InlineHashing(memory),
}
