/** The bytes of a process: the chunk store in its data directory, also without a cluster. */
import { BlobFault } from '@holdfast/blob-store'
import { StartFault } from '@holdfast/bootstrap'
import { ChunkStore, chunkStoreDefaults } from '@holdfast/chunk-store'
import type { Config } from '@holdfast/config'
import type { Clock } from '@holdfast/kernel'
import type { Logger } from 'pino'

/**
 * @param pinnedAtFirstMs how long other processes may rely on pins that were made before the
 * restart.
 * @throws StartFault DATA_LOCKED, DATA_UNUSABLE
 */
export async function openStore({
  path,
  cataloguesIn,
  config,
  openExtentsMax,
  pinnedAtFirstMs,
  clock,
  log,
}: {
  path: string
  /** Undefined: in the store's own directory. Another one where nothing can be written there. */
  cataloguesIn: string | undefined
  config: Config['store']
  openExtentsMax: number
  pinnedAtFirstMs: number
  clock: Clock
  log: Logger
}): Promise<ChunkStore> {
  const { reserveBytes, catalogue, uploadMemoryBytes, cacheBytes } = config
  try {
    return await ChunkStore.open({
      ...chunkStoreDefaults,
      path,
      cataloguesIn,
      // A write shows whether direct writes are possible.
      direct: cataloguesIn === undefined,
      uploadMemoryBytes,
      cacheBytes,
      catalogue,
      openExtentsMax,
      pinnedAtFirstMs,
      lowWaterBytes: reserveBytes,
      clock,
      log: log.child({ part: 'blobs' }),
    })
  } catch (error) {
    if (!(error instanceof BlobFault)) throw error
    const code = error.code === 'UNAVAILABLE' ? 'DATA_LOCKED' : 'DATA_UNUSABLE'
    throw new StartFault(code, `the chunk store ${path} cannot be opened: ${error.message}`, { cause: error })
  }
}
