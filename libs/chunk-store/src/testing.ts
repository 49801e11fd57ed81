import { openExtentsMaxDefault } from './extents/extent-files.ts'
import { silentLog } from './log.ts'
import { type ChunkStoreOptions, chunkStoreDefaults } from './options.ts'

const MiB = 1024 * 1024

/** The options of a test's store, without its path. */
export const testStore: Omit<ChunkStoreOptions, 'path'> = {
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
