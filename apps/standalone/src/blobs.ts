/** The bytes of this process: the chunk store in the data directory. */
import { BlobFault } from '@holdfast/blob-store'
import { StartFault } from '@holdfast/bootstrap'
import { ChunkStore } from '@holdfast/chunk-store'
import type { Config } from '@holdfast/config'
import type { Clock } from '@holdfast/kernel'
import type { Logger } from 'pino'

/** @throws StartFault DATA_LOCKED, DATA_UNUSABLE */
export async function openBlobs({
  path,
  config,
  openExtentsMax,
  clock,
  log,
}: {
  path: string
  config: Config['store']
  openExtentsMax: number
  clock: Clock
  log: Logger
}): Promise<ChunkStore> {
  const { reserveBytes, ...memory } = config
  const bounds = { ...memory, openExtentsMax }
  try {
    return await ChunkStore.open({
      path,
      ...bounds,
      ...(reserveBytes === undefined ? {} : { lowWaterBytes: reserveBytes }),
      clock,
      log: log.child({ part: 'blobs' }),
    })
  } catch (error) {
    if (!(error instanceof BlobFault)) throw error
    const code = error.code === 'UNAVAILABLE' ? 'DATA_LOCKED' : 'DATA_UNUSABLE'
    throw new StartFault(code, `the chunk store ${path} cannot be opened: ${error.message}`, { cause: error })
  }
}
