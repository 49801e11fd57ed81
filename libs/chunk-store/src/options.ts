/** The options of a store, and the parts that tests replace. */
import { tombstoneRetentionMsDefault } from '@holdfast/blob-store'
import { type Clock, systemClock } from '@holdfast/kernel'
import type { Catalogue } from './catalogue/catalogue.ts'
import type { EngineName } from './catalogue/engines/engine.ts'
import type { Disk } from './disk/disk.ts'
import { openExtentsMaxLeast } from './extents/extent-files.ts'
import { blockBytes } from './format.ts'
import type { Hashing } from './hashing/hashing.ts'
import type { Log } from './log.ts'
import type { DelayedCall } from './memory/buffer-pool.ts'
import { alignUp } from './numbers.ts'

const MiB = 1024 * 1024
const GiB = 1024 * MiB

export interface ChunkStoreOptions {
  /** Directory of the store; locked exclusively. */
  path: string
  /**
   * Directory of the catalogues. Undefined: that of the store. Another one for a start on a full
   * disk.
   */
  cataloguesIn: string | undefined
  /**
   * Capacity of an extent, at least 4 MiB. Undefined: 1 GiB, or a 64th of a disk below 64 GiB, so
   * that there is room to move what lives in one.
   */
  extentBytes: number | undefined
  /** Extents grow by this much at a time. */
  extentStepBytes: number
  /** Memory through which all large uploads pass; at least 8 MiB. */
  uploadMemoryBytes: number
  /** Memory for frequently read blobs of at most 64 KiB. */
  cacheBytes: number
  /** Uploads open at once; each may hold 64 KiB outside the upload memory. */
  stagesMax: number
  /** An upload without activity for this long is dropped. */
  stageIdleMs: number
  /**
   * Free space below which new uploads are refused; below half of it running ones too. It is kept
   * for compaction, the catalogue and other users of the disk. Undefined: 3 GiB, or 5 % of a
   * smaller disk.
   */
  lowWaterBytes: number | undefined
  /**
   * Space that is reserved, and released when another program has filled the disk, so that
   * deletions can be written. Undefined: 32 MiB, or a quarter of the low-water mark.
   */
  ballastBytes: number | undefined
  /**
   * Emptied extents kept for reuse, which saves the device work; others return their space, all of
   * them while the disk has no room for one more.
   */
  freeExtentsMax: number
  /**
   * Extents whose files are open at once, two descriptors each; an operation that needs one more
   * waits until one is idle. Besides, the store needs some 20 descriptors and one for each table of
   * its catalogue (8 to 64 MiB of rows each). At least 8.
   */
  openExtentsMax: number
  /** Threads for md5 and BLAKE3. Undefined: one for each core. */
  hashThreadsMax: number | undefined
  /** False: write through the page cache. */
  direct: boolean
  /** How long deletions and the replication log are kept. */
  tombstoneRetentionMs: number
  /**
   * How long every copy counts as pinned after the start: as long as the longest pin, where pinning
   * processes outlive this one; else 0.
   */
  pinnedAtFirstMs: number
  /**
   * Library of the catalogue. Undefined: RocksDB where it has a binding, else LevelDB. A catalogue
   * of the other one is replaced: rebuilt from the extents.
   */
  catalogue: EngineName | undefined
  log: Log
  clock: Clock
}

/** What no setting changes. */
export const chunkStoreDefaults = {
  extentBytes: undefined,
  extentStepBytes: 64 * MiB,
  stagesMax: 1024,
  stageIdleMs: 3_600_000,
  ballastBytes: undefined,
  freeExtentsMax: 2,
  hashThreadsMax: undefined,
  tombstoneRetentionMs: tombstoneRetentionMsDefault,
  clock: systemClock,
} as const satisfies Partial<ChunkStoreOptions>

/** Parts of the machine that tests replace. */
export interface ChunkStoreMachine {
  disk: Disk
  catalogue: () => Promise<Catalogue>
  hashing: (memory: WebAssembly.Memory) => Hashing
  /** Fills it with random bytes, and returns it. */
  randomFill: (bytes: Buffer) => Buffer
  /** Runs once after the delay. */
  after: DelayedCall
  /** False: no background work; call `sweep` and `compact`. */
  background: boolean
}

/** The options that are bounds, all with values in their ranges. */
export type StoreBounds = Pick<
  ChunkStoreOptions,
  | 'extentStepBytes'
  | 'uploadMemoryBytes'
  | 'cacheBytes'
  | 'stagesMax'
  | 'stageIdleMs'
  | 'freeExtentsMax'
  | 'openExtentsMax'
> & {
  extentBytes: number
  lowWaterBytes: number
  ballastBytes: number
  /**
   * With less room for uploads dead records become holes and no emptied extent is kept. The lower
   * bound applies where extents are small, for clients that upload much at once.
   */
  shortBytes: number
}

/** @param diskBytes size of the file system. */
export function storeBoundsOf(options: ChunkStoreOptions, diskBytes: number): StoreBounds {
  const lowWaterBytes = options.lowWaterBytes ?? Math.min(3 * GiB, Math.floor(diskBytes / 20))
  return {
    shortBytes: Math.max(4 * MiB, alignUp(options.extentBytes ?? GiB, blockBytes)),
    extentBytes: Math.max(4 * MiB, alignUp(options.extentBytes ?? Math.min(GiB, diskBytes / 64), blockBytes)),
    extentStepBytes: alignUp(options.extentStepBytes, blockBytes),
    uploadMemoryBytes: Math.max(8 * MiB, options.uploadMemoryBytes),
    cacheBytes: options.cacheBytes,
    stagesMax: options.stagesMax,
    stageIdleMs: options.stageIdleMs,
    lowWaterBytes,
    ballastBytes: alignUp(options.ballastBytes ?? Math.min(32 * MiB, lowWaterBytes / 4), MiB),
    freeExtentsMax: options.freeExtentsMax,
    openExtentsMax: Math.max(openExtentsMaxLeast, options.openExtentsMax),
  }
}
