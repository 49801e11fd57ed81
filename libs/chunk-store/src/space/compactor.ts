/**
 * Frees space. An extent without live bytes is freed; of one with less than half live the rest is
 * moved:
 *
 *   copies written → synced with their new commit entries → catalogue batch synced → holders gone →
 *   free
 *
 * The holders are readers and uploads, however long they take. Nothing is overwritten before a
 * synced batch says that it is free. Deletion and void entries are moved too, while their subjects
 * may still be found.
 *
 * Moving needs room. When the disk is nearly full, dead records return their blocks in place, as
 * holes, after a synced batch says that they are dead; headers stay. Records too small for that are
 * moved, in portions when not all of it fits, and leave holes, too.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { BlobFault } from '@holdfast/blob-store'
import { alignedBytes } from '@holdfast/kernel'
import type { Extent } from '../extents/extent.ts'
import type { ExtentFiles } from '../extents/extent-files.ts'
import { windowBytes } from '../extents/scan.ts'
import { bufferBytes } from '../memory/buffer-pool.ts'
import type { StoreBounds } from '../options.ts'
import { deadRanges } from './dead-ranges.ts'
import { Mover, type MoverDeps } from './mover.ts'
import type { Space } from './space.ts'

export interface CompactorDeps extends MoverDeps {
  files: ExtentFiles
  /** Monotonic milliseconds. */
  now(): number
  bounds: Pick<StoreBounds, 'extentBytes' | 'shortBytes' | 'lowWaterBytes' | 'freeExtentsMax'>
  space: Pick<
    Space,
    'freeBytes' | 'spareBytes' | 'movableBytes' | 'isPressing' | 'freshen' | 'changed' | 'onDisk'
  >
}

/** After a fault of the disk or the catalogue, which may be full: a retry may succeed. */
const restMs = 5_000

/**
 * From this size on, holes must raise the disk's free space, by a quarter of their size at least.
 */
const seenFromBytes = 16 * 1024 * 1024
/**
 * After this many times without a rise no further holes are made, because the file system ignores
 * them. One time proves nothing: other programs may have filled the space meanwhile.
 */
const unseenMax = 2

/**
 * Dead bytes that justify a look through an extent: reading a GiB for less is not worth it, unless
 * the disk is small.
 */
export function worthBytes({
  extentBytes,
  lowWaterBytes,
}: {
  extentBytes: number
  lowWaterBytes: number
}): number {
  return Math.max(bufferBytes, Math.min(extentBytes / 32, lowWaterBytes / 8))
}

export class Compactor {
  readonly #deps: CompactorDeps
  readonly #window = alignedBytes(windowBytes)
  readonly #mover: Mover
  #running: Promise<void> | undefined
  #again = false
  #stopped = false
  /** False once the file system refused to make holes. */
  #makesHoles = true
  #unseen = 0
  /** For metrics. */
  freedBytes = 0

  constructor(deps: CompactorDeps) {
    this.#deps = deps
    this.#mover = new Mover(deps, this.#window)
  }

  /** For metrics. */
  get movedBytes(): number {
    return this.#mover.movedBytes
  }

  /** Runs soon, once more if it is running. */
  kick(): void {
    if (this.#stopped) return
    this.#again = true
    this.#running ??= this.#run()
  }

  /** Runs until there is nothing to do now. */
  async settle(): Promise<void> {
    this.kick()
    await this.#running
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#mover.stop()
    await this.#running
  }

  async #run(): Promise<void> {
    await Promise.resolve() // `#running` is set by now
    while (this.#again && !this.#stopped) {
      this.#again = false
      await this.#pass().catch((error: Error) =>
        this.#deps.log.warn({ error: error.message }, 'compaction stopped'),
      )
    }
    this.#running = undefined // in the turn that found nothing to do, or a wake-up would be lost
  }

  async #pass(): Promise<void> {
    await this.#cutTails()
    await this.#reclaimAll(isDead)
    await this.#trimFree()
    await this.#freeAllDead()
    await this.#reclaimAll(() => true)
    await this.#trimFree()
  }

  async #reclaimAll(which: (extent: Extent) => boolean): Promise<void> {
    for (;;) {
      await this.#deps.space.freshen()
      const extent = this.#next(which)
      if (extent === undefined || this.#stopped) return
      await this.#reclaim(extent).catch((error: BlobFault) => {
        // The next one may need no room, or be on a healthy part of the disk.
        const untilMs = error.code === 'CORRUPT' ? Number.POSITIVE_INFINITY : this.#deps.now() + restMs
        extent.rest = { untilMs, liveBytes: extent.liveBytes }
        this.#deps.log.warn({ extent: extent.number, error: error.message }, 'an extent was not compacted')
      })
    }
  }

  /**
   * Space behind the last record of extents that were sealed early. Only here, where extents are
   * freed in sequence: a file that was freed and reopened while it is being cut would lose new
   * records.
   */
  async #cutTails(): Promise<void> {
    for (const extent of this.#deps.extents.all.values())
      if (extent.hasTail && extent.state === 'sealed' && extent.quarantine === undefined)
        await extent
          .cutTail()
          .catch((error: Error) =>
            this.#deps.log.warn({ error: error.message }, 'the end of an extent was not freed'),
          )
  }

  /** Empty extents first; then those with a failed write, then those with the least live bytes. */
  #next(which: (extent: Extent) => boolean): Extent | undefined {
    const { space } = this.#deps
    const candidates = [...this.#deps.extents.all.values()].filter(
      (extent) =>
        extent.state === 'sealed' &&
        which(extent) &&
        mayBeEmptied(extent) &&
        !this.#rests(extent) &&
        !isBlocked(extent) &&
        (isDead(extent) || (isWanted(extent, space.isPressing) && this.#fits(extent))),
    )
    return candidates.sort((a, b) => Number(b.suspect) - Number(a.suspect) || a.liveBytes - b.liveBytes)[0]
  }

  /** All of it, or a portion whose old place can be freed before the next one moves. */
  #fits({ liveBytes }: Extent): boolean {
    const budgetBytes = this.#budgetBytes
    return liveBytes <= budgetBytes || (this.#makesHoles && budgetBytes >= bufferBytes)
  }

  /**
   * The bytes that may be moved now: half of the room, because records are padded and others write,
   * too.
   */
  get #budgetBytes(): number {
    return this.#deps.space.movableBytes / 2
  }

  /** On a nearly full disk: dead records among live ones. */
  async #freeAllDead(): Promise<void> {
    const { extents, bounds, space, log } = this.#deps
    for (const extent of [...extents.all.values()]) {
      await space.freshen()
      if (this.#stopped || !this.#makesHoles || space.freeBytes >= bounds.shortBytes) return
      if (extent.state !== 'sealed' || extent.quarantine !== undefined || isDead(extent)) continue
      if (this.#rests(extent) || isBlocked(extent)) continue
      if (!this.#isWorthLooking(extent)) continue
      const { liveBytes } = extent
      await this.#freeDead(extent).catch((error: BlobFault) => {
        if (error.code === 'CORRUPT') extent.lookedThroughAt = liveBytes
        else extent.rest = { untilMs: this.#deps.now() + restMs, liveBytes: extent.liveBytes }
        log.warn({ extent: extent.number, error: error.message }, 'dead records were not freed')
      })
    }
  }

  /** Enough of it is dead, and more died since the last look. */
  #isWorthLooking({
    liveBytes,
    frontier,
    holeBytes,
    lookedThroughAt = Number.POSITIVE_INFINITY,
  }: Extent): boolean {
    const worth = worthBytes(this.#deps.bounds)
    return frontier - holeBytes - liveBytes >= worth && lookedThroughAt - liveBytes >= worth
  }

  /** @throws BlobFault `CORRUPT`, `IO`, `FULL`. */
  async #freeDead(extent: Extent): Promise<void> {
    const { rows, seal, blobOf, ledger, space, log } = this.#deps
    const goOn = async () => {
      await this.#deps.pause()
      return !this.#stopped
    }
    const { liveBytes, holeBytes } = extent
    const dead = await deadRanges(extent, { rows, seal, blobOf, window: this.#window, goOn })
    if (dead === undefined) return
    await ledger.flush() // the moves and deletions that made them dead
    const freeBytes = await space.onDisk()
    const allocatedBytes = await extent.allocatedBytes()
    const given = await extent.freeDead(dead, goOn)
    this.#makesHoles = given !== 'not here'
    if (given === 'all') extent.lookedThroughAt = liveBytes
    // Holes of earlier runs are not known, and making them again frees nothing.
    if (await this.#isSeen(freeBytes, allocatedBytes - (await extent.allocatedBytes()))) {
      this.#unseen = 0
      this.freedBytes += extent.holeBytes - holeBytes
    } else {
      extent.holeBytes = holeBytes
      this.#makesHoles = ++this.#unseen < unseenMax
      if (!this.#makesHoles)
        log.warn({}, 'holes in files free no space on this file system: none are made any more')
    }
    space.changed()
  }

  /**
   * Some file systems keep a contiguous extent until all of it is freed (btrfs). A small gain may
   * be hidden by what others write.
   */
  async #isSeen(freeBytes: number, wonBytes: number): Promise<boolean> {
    if (wonBytes < seenFromBytes) return true
    for (let tries = 0; tries < 5; tries++) {
      if ((await this.#deps.space.onDisk()) - freeBytes >= wonBytes / 4) return true
      await delay(200)
    }
    return false
  }

  #rests({ rest, liveBytes, quarantine }: Extent): boolean {
    if (rest === undefined || this.#deps.now() >= rest.untilMs) return false
    // Once is enough: the rest of it cannot be read.
    return rest.liveBytes === liveBytes || quarantine !== undefined
  }

  async #reclaim(extent: Extent): Promise<void> {
    const { log } = this.#deps
    if (!extent.draining && (extent.liveBytes > 0 || extent.marks > 0)) {
      const { liveBytes } = extent
      const mayGiveBack = this.#makesHoles && extent.quarantine === undefined
      if (mayGiveBack && liveBytes > this.#budgetBytes && this.#isWorthLooking(extent)) {
        // Holes for dead records need no room; afterwards it is known what moving a portion would
        // free.
        await this.#freeDead(extent)
        if (this.#isWorthLooking(extent))
          extent.rest = { untilMs: this.#deps.now() + restMs, liveBytes: extent.liveBytes }
        return
      }
      const whole = await this.#mover.moveAll(extent, this.#budgetBytes)
      if (this.#stopped) return
      if (!whole) {
        if (this.#makesHoles && extent.quarantine === undefined) await this.#freeDead(extent)
        if (extent.liveBytes === liveBytes) extent.rest = { untilMs: this.#deps.now() + restMs, liveBytes }
        return
      }
    }
    if (extent.quarantine !== undefined || extent.liveBytes > 0)
      extent.rest = { untilMs: Number.POSITIVE_INFINITY, liveBytes: extent.liveBytes }
    if (extent.quarantine !== undefined && extent.liveBytes === 0) return
    if (extent.liveBytes > 0) {
      log.warn({ extent: extent.number, bytes: extent.liveBytes }, 'an extent could not be emptied')
      return
    }
    extent.draining = true
    if (extent.holders.size === 0) await this.#free(extent)
  }

  /**
   * A synced batch says that it is free; then its header gets an empty generation, so that not even
   * a rebuild without catalogue finds its old content again. Only after that entries about it may
   * be dropped.
   */
  async #free(extent: Extent): Promise<void> {
    const { ledger } = this.#deps
    await ledger.flush() // the moves and deletions that emptied it
    if (extent.holders.size > 0) return
    const { generation } = extent
    extent.state = 'free'
    extent.generation = ledger.info.nextGeneration++
    ledger.touchExtent(extent)
    try {
      await ledger.flush()
    } catch (error) {
      extent.state = 'sealed'
      extent.generation = generation
      throw error
    }
    this.freedBytes += extent.fileBytes - extent.holeBytes
    // An emptied extent is kept only for its blocks: one with many holes is removed.
    if (extent.suspect || extent.holeBytes > extent.fileBytes / 16) await this.#remove(extent)
    else await this.unmake(extent)
  }

  /**
   * A free extent gets its current header, or its file is removed: with the old header a rebuild
   * would find its old content.
   */
  async unmake(extent: Extent): Promise<void> {
    try {
      await this.#deps.extents.writeHeader(extent)
      extent.draining = false
    } catch (error) {
      const { message } = error as BlobFault
      this.#deps.log.warn({ extent: extent.number, error: message }, 'an emptied extent is not kept')
      await this.#remove(extent)
    }
  }

  /** The row outlives the file: a removal undone by a crash is still known to be free. */
  async #remove(extent: Extent): Promise<void> {
    const { extents, files, ledger } = this.#deps
    extent.draining = true // reserves it
    await files.remove(extent)
    extents.all.delete(extent.number)
    ledger.forgetExtent(extent)
  }

  async #trimFree(): Promise<void> {
    const { extents, bounds, ledger, space } = this.#deps
    // Kept blocks are unavailable to others on the disk, and to the catalogue.
    const kept = space.spareBytes < bounds.shortBytes ? 0 : bounds.freeExtentsMax
    const isFree = ({ state, draining }: Extent) => state === 'free' && !draining
    const free = [...extents.all.values()].filter(isFree)
    // Longer files date from a time when extents were larger.
    const isLong = ({ fileBytes }: Extent) => fileBytes > bounds.extentBytes
    const surplus = [...free.filter(isLong), ...free.filter((extent) => !isLong(extent)).slice(kept)]
    // One may have been reused while another was removed.
    for (const extent of surplus) if (isFree(extent)) await this.#remove(extent)
    ledger.kick()
  }
}

/** Files of other stores are not touched; from those in quarantine only live data is moved. */
function mayBeEmptied({ quarantine, liveBytes }: Extent): boolean {
  return quarantine === undefined || (quarantine !== 'foreign' && liveBytes > 0)
}

function isDead({ liveBytes }: Extent): boolean {
  return liveBytes === 0
}

/**
 * Less than half of its size is live, or than seven eighths when room is needed; or it is no longer
 * trusted.
 */
function isWanted({ suspect, liveBytes, frontier, holeBytes }: Extent, pressing: boolean): boolean {
  const takenBytes = frontier - holeBytes
  return suspect || liveBytes * 2 < takenBytes || (pressing && liveBytes * 8 < takenBytes * 7)
}

/**
 * An emptied extent waits for its readers and uploads. Any other extent waits only for its uploads,
 * because their bytes are not live yet.
 */
function isBlocked(extent: Extent): boolean {
  if (extent.draining) return extent.holders.size > 0
  for (const holder of extent.holders) if (!('copy' in holder)) return true
  return false
}
