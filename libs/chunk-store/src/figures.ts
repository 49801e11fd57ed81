/** What a store uses and has done: for the operator, and for metrics. */
import type { BlobStoreUsage } from '@holdfast/blob-store'
import type { Assembly } from './assembly.ts'

/** Measures the disk. */
export async function usageOf(parts: Assembly): Promise<BlobStoreUsage> {
  const { catalogue, extents, ledger, space, stages, state } = parts
  await space.measure()
  let diskBytes = (await catalogue.diskBytes()) + (await space.ballastDiskBytes())
  for (const extent of extents.all.values()) diskBytes += await extent.allocatedBytes()
  const { liveBytes, blobs } = ledger.info
  const { freeBytes } = space
  return {
    liveBytes,
    blobs,
    diskBytes,
    freeBytes,
    writable: freeBytes > 0 && state.failure === undefined && !state.recovering && !state.writesFail,
    openStages: stages.count,
    stagedBytes: stages.bytes,
  }
}

/** Counts since the start. */
export function countersOf({ compactor, damaged, extents, reads, writer }: Assembly) {
  let suspect = 0
  let live = 0
  let used = 0
  for (const extent of extents.all.values()) {
    if (extent.suspect) suspect++
    if (extent.state === 'free' || extent.quarantine !== undefined) continue
    live += extent.liveBytes
    used += extent.frontier - extent.holeBytes
  }
  return {
    groups: writer.groups,
    failedGroups: writer.failedGroups,
    hotReads: reads.reader.hotReads,
    damagedReads: reads.reader.damagedReads,
    damagedBlobs: damaged.count,
    replacedBlobs: damaged.replaced,
    verifiedBytes: reads.verifier.verifiedBytes,
    activeReaders: reads.reader.active,
    compactedBytes: compactor.movedBytes,
    freedBytes: compactor.freedBytes,
    extents: extents.all.size,
    suspectExtents: suspect,
    deadBytes: used - live,
  }
}
