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
import type { Copy, RowCache, RowEntry } from '../catalogue/rows.ts'
import { isUnreadable } from '../disk/faults.ts'
import type { Extent } from '../extents/extent.ts'
import type { ExtentFiles } from '../extents/extent-files.ts'
import type { ExtentTable } from '../extents/extent-table.ts'
import { Missed, readInline, readRecord, recordsOf, walk, windowBytes } from '../extents/scan.ts'
import {
  blockBytes,
  type DataHeader,
  type DeletedEntry,
  dataRecordBytes,
  encodeDataHeader,
  firstRecordOffset,
  type GroupEntry,
  type GroupHeader,
  type HeaderSeal,
  type Run,
  recordBytesMax,
  type VoidEntry,
} from '../format.ts'
import type { Log } from '../log.ts'
import { alignedBytes, slotBytes } from '../memory/slots.ts'
import type { StoreBounds } from '../options.ts'
import { bytesOfRun, type Ledger } from '../writing/ledger.ts'
import { type Carried, CarryIntent, carriedEntriesMax, MoveIntent } from '../writing/move-intents.ts'
import type { Writer } from '../writing/writer.ts'
import { deadRanges } from './dead-ranges.ts'
import type { Space } from './space.ts'

export interface CompactorDeps {
  extents: ExtentTable
  files: ExtentFiles
  rows: RowCache
  ledger: Ledger
  writer: Writer
  seal: HeaderSeal
  log: Log
  /** The blob that an upload became, if it is live. */
  blobOf(incarnation: Buffer): Promise<Buffer | undefined>
  /** The copy is at another place now. */
  moved(entry: RowEntry, old: Copy, copy: Copy, from: Extent): void
  /** Monotonic milliseconds. */
  now(): number
  bounds: Pick<StoreBounds, 'extentBytes' | 'shortBytes' | 'lowWaterBytes' | 'freeExtentsMax'>
  space: Pick<
    Space,
    'freeBytes' | 'spareBytes' | 'movableBytes' | 'isPressing' | 'freshen' | 'changed' | 'onDisk'
  >
  /** Some of its blocks cannot be read. */
  unreadable(extent: Extent, missed: Missed): void
  /** Lets uploads and readers use the device; resolves when the next MiB may be moved. */
  pause(): Promise<void>
}

/** After a fault of the disk or the catalogue, which may be full: a retry may succeed. */
const restMs = 5_000

/** Holes must return this much of the disk's space, … */
const seenFromBytes = 16 * 1024 * 1024
/** … or no more are made. Others may have written as much meanwhile, but not each time. */
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
  return Math.max(slotBytes, Math.min(extentBytes / 32, lowWaterBytes / 8))
}

export class Compactor {
  readonly #parts: CompactorDeps
  readonly #window = alignedBytes(windowBytes)
  readonly #record = alignedBytes(windowBytes)
  #running: Promise<void> | undefined
  #again = false
  #stopped = false
  /** False once the file system refused to make holes. */
  #makesHoles = true
  #unseen = 0
  /** For metrics. */
  movedBytes = 0
  freedBytes = 0

  constructor(parts: CompactorDeps) {
    this.#parts = parts
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
    await this.#running
  }

  async #run(): Promise<void> {
    await Promise.resolve() // `#running` is set by now
    while (this.#again && !this.#stopped) {
      this.#again = false
      await this.#pass().catch((error: Error) =>
        this.#parts.log.warn({ error: error.message }, 'compaction stopped'),
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
      await this.#parts.space.freshen()
      const extent = this.#next(which)
      if (extent === undefined || this.#stopped) return
      await this.#reclaim(extent).catch((error: BlobFault) => {
        // The next one may need no room, or be on a healthy part of the disk.
        const untilMs = error.code === 'CORRUPT' ? Number.POSITIVE_INFINITY : this.#parts.now() + restMs
        extent.rest = { untilMs, liveBytes: extent.liveBytes }
        this.#parts.log.warn({ extent: extent.number, error: error.message }, 'an extent was not compacted')
      })
    }
  }

  /**
   * Space behind the last record of extents that were sealed early. Only here, where extents are
   * freed in sequence: a file that was freed and reopened while it is being cut would lose new
   * records.
   */
  async #cutTails(): Promise<void> {
    for (const extent of this.#parts.extents.all.values())
      if (extent.hasTail && extent.state === 'sealed' && extent.quarantine === undefined)
        await extent
          .cutTail()
          .catch((error: Error) =>
            this.#parts.log.warn({ error: error.message }, 'the end of an extent was not freed'),
          )
  }

  /** Empty extents first; then those with a failed write, then those with the least live bytes. */
  #next(which: (extent: Extent) => boolean): Extent | undefined {
    const { space } = this.#parts
    const candidates = [...this.#parts.extents.all.values()].filter(
      (extent) =>
        extent.state === 'sealed' &&
        which(extent) &&
        mayBeEmptied(extent) &&
        !this.#rests(extent) &&
        !blocked(extent) &&
        (isDead(extent) || (wanted(extent, space.isPressing) && this.#fits(extent))),
    )
    return candidates.sort((a, b) => Number(b.suspect) - Number(a.suspect) || a.liveBytes - b.liveBytes)[0]
  }

  /** All of it, or a portion whose old place can be freed before the next one moves. */
  #fits({ liveBytes }: Extent): boolean {
    const budgetBytes = this.#budgetBytes
    return liveBytes <= budgetBytes || (this.#makesHoles && budgetBytes >= slotBytes)
  }

  /**
   * The bytes that may be moved now: half of the room, because records are padded and others write,
   * too.
   */
  get #budgetBytes(): number {
    return this.#parts.space.movableBytes / 2
  }

  /** On a nearly full disk: dead records among live ones. */
  async #freeAllDead(): Promise<void> {
    const { extents, bounds, space, log } = this.#parts
    for (const extent of [...extents.all.values()]) {
      await space.freshen()
      if (this.#stopped || !this.#makesHoles || space.freeBytes >= bounds.shortBytes) return
      if (extent.state !== 'sealed' || extent.quarantine !== undefined || isDead(extent)) continue
      if (this.#rests(extent) || blocked(extent)) continue
      if (!this.#isWorthLooking(extent)) continue
      const { liveBytes } = extent
      await this.#freeDead(extent).catch((error: BlobFault) => {
        if (error.code === 'CORRUPT') extent.lookedThroughAt = liveBytes
        else extent.rest = { untilMs: this.#parts.now() + restMs, liveBytes: extent.liveBytes }
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
    const worth = worthBytes(this.#parts.bounds)
    return frontier - holeBytes - liveBytes >= worth && lookedThroughAt - liveBytes >= worth
  }

  /** @throws BlobFault `CORRUPT`, `IO`, `FULL`. */
  async #freeDead(extent: Extent): Promise<void> {
    const { rows, seal, blobOf, ledger, space, log } = this.#parts
    const goOn = async () => {
      await this.#parts.pause()
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
        log.warn({}, 'holes in files win no room on this file system: none are made any more')
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
      if ((await this.#parts.space.onDisk()) - freeBytes >= wonBytes / 4) return true
      await delay(200)
    }
    return false
  }

  #rests({ rest, liveBytes, quarantine }: Extent): boolean {
    if (rest === undefined || this.#parts.now() >= rest.untilMs) return false
    // Once is enough: the rest of it cannot be read.
    return rest.liveBytes === liveBytes || quarantine !== undefined
  }

  async #reclaim(extent: Extent): Promise<void> {
    const { log } = this.#parts
    if (!extent.draining && (extent.liveBytes > 0 || extent.marks > 0)) {
      const { liveBytes } = extent
      const mayGiveBack = this.#makesHoles && extent.quarantine === undefined
      if (mayGiveBack && liveBytes > this.#budgetBytes && this.#isWorthLooking(extent)) {
        // Holes for dead records need no room; afterwards it is known what moving a portion would
        // free.
        await this.#freeDead(extent)
        if (this.#isWorthLooking(extent))
          extent.rest = { untilMs: this.#parts.now() + restMs, liveBytes: extent.liveBytes }
        return
      }
      const whole = await this.#drain(extent)
      if (this.#stopped) return
      if (!whole) {
        if (this.#makesHoles && extent.quarantine === undefined) await this.#freeDead(extent)
        if (extent.liveBytes === liveBytes) extent.rest = { untilMs: this.#parts.now() + restMs, liveBytes }
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
   * Moves all live copies, and all entries still needed, to the open extent.
   * @returns false when only a part found room; entries stay then.
   */
  async #drain(extent: Extent): Promise<boolean> {
    const moves = new Moves(this.#budgetBytes)
    try {
      return await this.#drainInto(extent, moves)
    } finally {
      moves.drop()
    }
  }

  async #drainInto(extent: Extent, moves: Moves): Promise<boolean> {
    const carried: (DeletedEntry | VoidEntry)[] = []
    const uploads = new Map<string, Buffer>()
    await this.#parts.ledger.flush() // so that `blobOf` knows every live upload
    const missed = new Missed()
    for await (const record of walk(extent, firstRecordOffset, {
      seal: this.#parts.seal,
      window: this.#window,
      missed,
    })) {
      if (this.#stopped) return false
      if (record.kind === 'data') uploads.set(record.uploadId.toString('hex'), record.uploadId)
      else await this.#drainGroup(extent, record, moves, carried, uploads)
    }
    if (missed.blocks > 0) this.#parts.unreadable(extent, missed)
    for (const incarnation of uploads.values()) {
      if (this.#stopped) return false
      await this.#moveStaged(extent, incarnation, moves)
    }
    if (moves.leftOut) {
      await moves.all()
      return false
    }
    await moves.all()
    for (let at = 0; at < carried.length; at += carriedEntriesMax)
      await this.#carry(carried.slice(at, at + carriedEntriesMax))
    return true
  }

  async #carry(entries: readonly (DeletedEntry | VoidEntry)[]): Promise<void> {
    const { rows, writer } = this.#parts
    const carried: Carried[] = []
    try {
      for (const entry of entries)
        carried.push({ entry, row: entry.kind === 'deleted' ? await rows.acquire(entry.id) : undefined })
      const carry = new CarryIntent(writer.parts, carried)
      writer.submit(carry)
      await carry.done
    } finally {
      for (const { row } of carried) if (row !== undefined) rows.release(row)
    }
  }

  async #drainGroup(
    extent: Extent,
    group: GroupHeader,
    moves: Moves,
    carried: (DeletedEntry | VoidEntry)[],
    uploads: Map<string, Buffer>,
  ): Promise<void> {
    for (const entry of group.entries) {
      switch (entry.kind) {
        case 'inline':
          await this.#moveInline(extent, group, entry, moves)
          break
        case 'staged':
          uploads.set(entry.incarnation.toString('hex'), entry.incarnation)
          break
        case 'deleted':
          if (this.#lives(extent, entry.commitExtent, entry.commitGeneration)) carried.push(entry)
          break
        case 'void':
          if (this.#lives(extent, entry.extent, entry.generation)) carried.push(entry)
          break
      }
    }
    if (!moves.areEnough) return
    await moves.all()
    await this.#parts.pause()
  }

  /** True when that generation of another extent may still be read. */
  #lives(own: Extent, number: number, generation: number): boolean {
    return number !== own.number && this.#parts.extents.get({ extent: number, generation }) !== undefined
  }

  async #moveInline(
    extent: Extent,
    group: GroupHeader,
    found: GroupEntry & { kind: 'inline' },
    moves: Moves,
  ): Promise<void> {
    const { rows, writer, log } = this.#parts
    const entry = await rows.acquire(found.id)
    const copy = entry.copies.find(
      (copy) =>
        copy.commitExtent === extent.number &&
        copy.commitGeneration === extent.generation &&
        copy.inlineOffset === group.offset + found.payloadOffset,
    )
    if (copy === undefined || !moves.takes(copy.entryBytes + copy.size)) {
      rows.release(entry)
      return
    }
    let bytes: Buffer | undefined
    try {
      bytes = await readInline(extent, copy.inlineOffset as number, copy)
    } catch (error) {
      if (!isUnreadable(error)) {
        rows.release(entry)
        throw error
      }
    }
    if (bytes === undefined) {
      log.error({ blob: entry.id.toString('hex') }, 'a damaged blob stays where it is')
      rows.release(entry)
      return
    }
    const move = new MoveIntent(writer.parts, entry, copy, { bytes }, (old, now) =>
      this.#parts.moved(entry, old, now, extent),
    )
    this.movedBytes += bytes.length
    moves.add({
      bytes: copy.entryBytes + bytes.length,
      begin() {
        writer.submit(move)
        return move.done
      },
      end: () => rows.release(entry),
    })
  }

  /** The runs of this blob in the extent, and its commit entry, get a new place. */
  async #moveStaged(extent: Extent, incarnation: Buffer, moves: Moves): Promise<void> {
    const { rows, writer } = this.#parts
    const id = await this.#parts.blobOf(incarnation)
    if (id === undefined) return
    const entry = await rows.acquire(id)
    const holder = {}
    const targets = new Set<Extent>()
    try {
      const copy = entry.copies.find((copy) => copy.incarnation.equals(incarnation))
      if (copy === undefined || copy.inlineOffset !== undefined || !stands(copy, extent)) return
      if (!moves.takes(copy.entryBytes + bytesIn(copy, extent))) return
      const runs = await this.#copyRuns(extent, copy, (target) => {
        target.holders.add(holder)
        targets.add(target)
      })
      if (runs === undefined) return
      const move = new MoveIntent(writer.parts, entry, copy, { runs }, (old, now) =>
        this.#parts.moved(entry, old, now, extent),
      )
      writer.submit(move)
      await move.done
    } finally {
      for (const target of targets) target.holders.delete(holder)
      rows.release(entry)
    }
  }

  /** The runs with those of this extent replaced; undefined when one of them is damaged. */
  async #copyRuns(extent: Extent, copy: Copy, used: (target: Extent) => void): Promise<Run[] | undefined> {
    const { log } = this.#parts
    const runs: Run[] = []
    let position = 0
    for (const run of copy.runs) {
      if (run.extent !== extent.number || run.generation !== extent.generation) {
        runs.push({ ...run })
        position += run.bytes
        continue
      }
      for (const { offset, payloadBytes } of recordsOf(run)) {
        if (this.#stopped) return undefined
        const wanted = { offset, payloadBytes, position, incarnation: copy.incarnation }
        const header = await readRecord(extent, wanted, this.#parts.seal, this.#record).catch((error) => {
          if (isUnreadable(error)) return undefined
          throw error
        })
        if (header === undefined) {
          log.error({ extent: extent.number, offset }, 'a damaged record stays where it is')
          return undefined
        }
        addRecord(runs, await this.#rewrite(header, used), payloadBytes)
        position += payloadBytes
        await this.#parts.pause()
      }
    }
    return runs
  }

  async #rewrite(header: DataHeader, used: (target: Extent) => void): Promise<Run> {
    const bytes = dataRecordBytes(header.payloadBytes)
    const { extent, offset } = await this.#parts.extents.place(bytes)
    used(extent)
    const { number, generation } = extent
    encodeDataHeader({ ...header, extent: number, generation, offset }, this.#parts.seal, this.#record)
    this.#record.fill(0, blockBytes + header.payloadBytes, bytes)
    await extent.write(this.#record.subarray(0, bytes), offset)
    this.movedBytes += header.payloadBytes
    return { extent: number, generation, offset, bytes: header.payloadBytes }
  }

  /**
   * A synced batch says that it is free; then its header gets an empty generation, so that not even
   * a rebuild without catalogue finds its old content again. Only after that entries about it may
   * be dropped.
   */
  async #free(extent: Extent): Promise<void> {
    const { ledger } = this.#parts
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
    // It is kept for its blocks.
    if (extent.suspect || extent.holeBytes > extent.fileBytes / 16) await this.#remove(extent)
    else await this.unmake(extent)
  }

  /**
   * A free extent gets its current header, or its file is removed: with the old header a rebuild
   * would find its old content.
   */
  async unmake(extent: Extent): Promise<void> {
    try {
      await this.#parts.extents.writeHeader(extent)
      extent.draining = false
    } catch (error) {
      const { message } = error as BlobFault
      this.#parts.log.warn({ extent: extent.number, error: message }, 'an emptied extent is not kept')
      await this.#remove(extent)
    }
  }

  /** The row outlives the file: a removal undone by a crash is still known to be free. */
  async #remove(extent: Extent): Promise<void> {
    const { extents, files, ledger } = this.#parts
    extent.draining = true // reserves it
    await files.remove(extent)
    extents.all.delete(extent.number)
    ledger.forgetExtent(extent)
  }

  async #trimFree(): Promise<void> {
    const { extents, bounds, ledger, space } = this.#parts
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

/** The new place of a small blob. */
interface Move {
  /** In a group record. */
  bytes: number
  begin(): Promise<unknown>
  /** Of its content, begun or not. */
  end(): void
}

/**
 * Small blobs whose places change together: as many as a group record holds; otherwise each would
 * take a block of its own.
 */
class Moves {
  /** A part did not fit. */
  leftOut = false
  #budgetBytes: number
  #waiting: Move[] = []
  #waitingBytes = 0

  constructor(budgetBytes: number) {
    this.#budgetBytes = budgetBytes
  }

  /** Is there room for this many bytes? They are subtracted. */
  takes(bytes: number): boolean {
    if (bytes > this.#budgetBytes) {
      this.leftOut = true
      return false
    }
    this.#budgetBytes -= bytes
    return true
  }

  get areEnough(): boolean {
    return this.#waitingBytes >= slotBytes
  }

  add(move: Move): void {
    this.#waiting.push(move)
    this.#waitingBytes += move.bytes
  }

  /** Begins them in one turn, and waits; the first failure is thrown. */
  async all(): Promise<void> {
    const moves = this.#waiting
    this.#waiting = []
    this.#waitingBytes = 0
    const begun = await Promise.allSettled(
      moves.map(async (move) => {
        try {
          await move.begin()
        } finally {
          move.end()
        }
      }),
    )
    for (const move of begun) if (move.status === 'rejected') throw move.reason
  }

  /** Those not yet begun are dropped. */
  drop(): void {
    for (const move of this.#waiting.splice(0)) move.end()
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
function wanted({ suspect, liveBytes, frontier, holeBytes }: Extent, pressing: boolean): boolean {
  const takenBytes = frontier - holeBytes
  return suspect || liveBytes * 2 < takenBytes || (pressing && liveBytes * 8 < takenBytes * 7)
}

/**
 * Uploads and readers keep an emptied extent; uploads keep any, because their bytes are not live
 * yet.
 */
function blocked(extent: Extent): boolean {
  if (extent.draining) return extent.holders.size > 0
  for (const holder of extent.holders) if (!('copy' in holder)) return true
  return false
}

function bytesIn(copy: Copy, extent: Extent): number {
  let bytes = 0
  for (const run of copy.runs)
    if (run.extent === extent.number && run.generation === extent.generation) bytes += bytesOfRun(run)
  return bytes
}

function stands(copy: Copy, extent: Extent): boolean {
  const home = copy.commitExtent === extent.number && copy.commitGeneration === extent.generation
  return (
    home ||
    copy.runs.some(
      ({ extent: number, generation }) => number === extent.number && generation === extent.generation,
    )
  )
}

/** Appends a record to runs, to the last run when it follows directly. */
function addRecord(runs: Run[], record: Run, payloadBytes: number): void {
  const last = runs.at(-1)
  const follows =
    last !== undefined &&
    last.extent === record.extent &&
    last.generation === record.generation &&
    last.bytes % recordBytesMax === 0 &&
    last.offset + (last.bytes / recordBytesMax) * dataRecordBytes(recordBytesMax) === record.offset
  if (follows) last.bytes += payloadBytes
  else runs.push(record)
}
