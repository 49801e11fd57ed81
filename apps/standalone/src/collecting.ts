/** Which bytes may go: those that no reference row names, as long as the rows can be trusted. */
import { Collector } from '@holdfast/blob-store'
import type { ChunkStore } from '@holdfast/chunk-store'
import { referencedOf } from '@holdfast/journal'
import type { LevelMetadataStore } from '@holdfast/journal-level'
import type { Clock } from '@holdfast/kernel'
import type { Config } from '@holdfast/process'
import type { Logger } from 'pino'

export interface CollectingParts {
  config: Config['collect']
  blobs: ChunkStore
  metadata: LevelMetadataStore
  clock: Clock
  log: Logger
}

export function createCollector({ config, blobs, metadata, clock, log }: CollectingParts): Collector {
  return new Collector({
    blobs,
    referenced: (some) => referencedOf(metadata.lookups, some),
    distrust: () => distrustOf(metadata) ?? blobs.health.gap,
    ...config,
    clock,
    log: log.child({ part: 'collector' }),
  })
}

/**
 * The operator's pass: collects, gives the space back to the disk where that takes no longer than a
 * request, and tells what is left.
 */
export async function collectNow(
  { collector, blobs }: { collector: Collector; blobs: ChunkStore },
  options: { graceMs?: number },
): Promise<Record<string, unknown>> {
  const collected = await collector.collect(options)
  const { freedBytes: spaceFreedBytes } = await blobs.compact()
  const { liveBytes, blobs: count, diskBytes, freeBytes } = await blobs.usage()
  return { ...collected, spaceFreedBytes, liveBytes, blobs: count, diskBytes, freeBytes }
}

function distrustOf({ lostBatches, failure }: LevelMetadataStore): string | undefined {
  if (lostBatches > 0)
    return `${lostBatches} acknowledged batches of rows are missing: references may be among them`
  return failure?.message
}
