/**
 * The blob store on one machine's disk: extents hold the bytes, RocksDB holds their locations.
 * DESIGN.md describes the parts and the reasons; FORMAT.md the disk format.
 */
import { randomFillSync } from 'node:crypto'
import { join } from 'node:path'
import {
  type BlobFacts,
  BlobFault,
  type BlobName,
  type BlobSender,
  type BlobStoreUsage,
  blobIdBytes,
  type DirectSends,
  incarnationBytes,
  type NodeStore,
  type PlacedCommit,
  type PlacedStage,
  type Pulled,
  type PutOptions,
  putSmall,
  type QuarantinedFile,
  readBatch,
  restoreCopy,
  type SmallBlob,
  type StageOptions,
  type StoreHealth,
  type TellsHealth,
  tombstoneRetentionMsDefault,
  type WholeBytes,
  type WholeReads,
} from '@holdfast/blob-store'
import { type Clock, type Failing, RecentMap, systemClock } from '@holdfast/kernel'
import type { Catalogue } from './catalogue/catalogue.ts'
import {
  blobPrefix,
  type Copy,
  decodeCopies,
  latin1,
  neverVerified,
  noHomes,
  noteKey,
  RowCache,
  type RowEntry,
  uploadKey,
} from './catalogue/rows.ts'
import type { Disk } from './disk/disk.ts'
import { NodeDisk } from './disk/node-disk.ts'
import { type Extent, ExtentFiles, ExtentTable, extentFileName } from './extents/extents.ts'
import type { Missed } from './extents/scan.ts'
import { chunkBytes, HeaderSeal, type Run } from './format.ts'
import { Crc32Combiner } from './hashing/crc32-combine.ts'
import { type Hashing, WorkerHashing } from './hashing/hashing.ts'
import { type Log, silentLog } from './log.ts'
import { Slab } from './memory/slab.ts'
import { type After, SlotPool, slotBytes } from './memory/slots.ts'
import { boundsOf, type ChunkStoreMachine, type ChunkStoreOptions, type StoreBounds } from './options.ts'
import { ExtentClaim, Reader } from './reading/reader.ts'
import { Verifier } from './reading/verifier.ts'
import { ballastPath } from './space/ballast.ts'
import { Compactor, worthBytes } from './space/compactor.ts'
import { Space } from './space/space.ts'
import { CleanShutdownMarker, endMarkBytes, endMarkKey } from './start/clean-shutdown-marker.ts'
import { openRocksCatalogue } from './start/open-catalogue.ts'
import { nothingRecovered, type Recovered, Recovery } from './start/recovery.ts'
import { type Surveyed, survey } from './start/survey.ts'
import { KnownCopies } from './writing/known-copies.ts'
import { factsOf, Ledger } from './writing/ledger.ts'
import { Pins } from './writing/pins.ts'
import { type PullRequest, ReplicationLog } from './writing/replication-log.ts'
import { ChunkStage, type StageDeps } from './writing/stage.ts'
import { CommitIntent, DeleteIntent, PinIntent, Writer, type WriterDeps } from './writing/writer.ts'

/** Results of uploads that are remembered beyond their copies' rows, 250 bytes each. */
const outcomesMax = 16_384
/** Counted damaged copies, 150 bytes each. A store with more has lost its disk. */
const damagedKnownMax = 100_000
const noteBytesMax = 64 * 1024
const compactSoonMs = 200
/** Upload ids generated at once: one call for randomness, and memory that is freed together. */
const uploadIdsSlabBytes = 64 * incarnationBytes

export class ChunkStore implements NodeStore, WholeReads, DirectSends, TellsHealth {
  readonly #bounds: StoreBounds
  readonly #clock: Clock
  readonly #log: Log
  readonly #catalogue: Catalogue
  readonly #disk: Disk
  readonly #files: ExtentFiles
  readonly #end: CleanShutdownMarker
  readonly #extents: ExtentTable
  readonly #space: Space
  readonly #rows: RowCache
  readonly #ledger: Ledger
  readonly #pins: Pins
  readonly #writer: Writer
  readonly #writerDeps: WriterDeps
  readonly #reader: Reader
  readonly #verifier: Verifier
  readonly #known: KnownCopies
  /** Damaged copies that an upload is replacing, by name. */
  readonly #replacing = new Map<string, Promise<void>>()
  /** Names of the known damaged copies: all of them once the inventory was walked. */
  readonly #damaged = new Set<string>()
  #replaced = 0
  readonly #compactor: Compactor
  readonly #slots: SlotPool
  readonly #hashing: Hashing
  readonly #stageDeps: StageDeps
  readonly #stages = new Set<ChunkStage>()
  /** Stages that are already counted, and not open yet. */
  #opening = 0
  readonly #history: ReplicationLog
  /** Results of the latest uploads, blob id ‖ incarnation, by upload id; all in latin1. */
  readonly #outcomes = new RecentMap<string, string>({ max: outcomesMax })
  readonly #randomFill: (bytes: Buffer) => Buffer
  readonly #uploadIds: Slab
  readonly #after: After
  readonly #sweeper: NodeJS.Timeout
  readonly #background: boolean
  #compactSoon: NodeJS.Timeout | undefined
  /** When a failure was first seen. */
  #failedAtMs: number | undefined
  #closing: Promise<void> | undefined
  /** What the start found beyond the catalogue. */
  recovered: Recovered = nothingRecovered()

  /**
   * Opens the store, after a crash with everything that was acknowledged.
   *
   * @throws BlobFault `UNAVAILABLE` when the directory is in use, `CORRUPT` when it is not one
   *   store's, `IO`, `FULL`.
   */
  static async open(
    options: ChunkStoreOptions,
    machine: Partial<ChunkStoreMachine> = {},
  ): Promise<ChunkStore> {
    const log = options.log ?? silentLog
    const disk = machine.disk ?? new NodeDisk({ direct: options.direct ?? true })
    const randomFill = machine.randomFill ?? randomFillSync
    const directory = join(options.path, 'extents')
    await disk.makeDirectory(directory)
    const start = async (rebuild: boolean) => {
      const catalogue = await (machine.catalogue?.() ?? openRocksCatalogue(options.path, log, { rebuild }))
      let store: ChunkStore | undefined
      try {
        const { openExtentsMax } = boundsOf(options, 0)
        const files = new ExtentFiles(disk, directory, { openMax: openExtentsMax })
        const end = new CleanShutdownMarker(disk, options.path)
        const surveyed = await survey({ catalogue, disk, directory, files, end, log, randomFill })
        const space = await disk.space(directory)
        store = new ChunkStore(options, { disk, catalogue, files, end, surveyed, space, machine, log })
        await store.#recover(surveyed)
        return store
      } catch (error) {
        if (store !== undefined) await store.#abandon()
        await catalogue.close().catch(() => {})
        throw error
      }
    }
    const startWithRoom = async (rebuild: boolean) => {
      try {
        return await start(rebuild)
      } catch (error) {
        if ((error as BlobFault).code !== 'FULL') throw error
        await disk.remove(ballastPath(options.path))
        return start(rebuild)
      }
    }
    // Opening the catalogue takes the lock; nothing was read before.
    try {
      return await startWithRoom(false)
    } catch (error) {
      if ((error as BlobFault).code !== 'CORRUPT') throw error
      log.error(
        { error: (error as Error).message },
        'the catalogue is damaged; it is rebuilt from the extents',
      )
      return startWithRoom(true)
    }
  }

  /** The store was never open for callers. */
  async #abandon(): Promise<void> {
    clearInterval(this.#sweeper)
    clearTimeout(this.#compactSoon)
    await this.#history.close()
    await this.#hashing.close()
    await this.#files.closeAll()
  }

  private constructor(
    options: ChunkStoreOptions,
    parts: {
      disk: Disk
      catalogue: Catalogue
      files: ExtentFiles
      end: CleanShutdownMarker
      surveyed: Surveyed
      space: { freeBytes: number; totalBytes: number }
      machine: Partial<ChunkStoreMachine>
      log: Log
    },
  ) {
    const { disk, catalogue, files, end, surveyed, space, machine, log } = parts
    const { facts } = surveyed
    const bounds = boundsOf(options, space.totalBytes)
    this.#bounds = bounds
    this.#clock = options.clock ?? systemClock
    this.#log = log
    this.#randomFill = machine.randomFill ?? randomFillSync
    this.#uploadIds = new Slab(uploadIdsSlabBytes, this.#randomFill)
    this.#after = machine.after ?? setTimeout
    this.#catalogue = catalogue
    this.#disk = disk
    this.#files = files
    this.#end = end
    this.#extents = new ExtentTable({
      files,
      capacityBytes: this.#bounds.extentBytes,
      stepBytes: this.#bounds.extentStepBytes,
      spareBytes: () => this.#space.spareBytes,
      storeId: facts.storeId,
      secret: facts.secret,
      now: () => this.#clock.now(),
      nextGeneration: () => facts.nextGeneration++,
      sequence: () => facts.nextSequence,
      publish: (extent) => this.#publish(extent),
    })
    this.#space = new Space({
      disk,
      path: options.path,
      clock: this.#clock,
      log,
      extents: this.#extents,
      freeBytes: space.freeBytes,
      lowWaterBytes: bounds.lowWaterBytes,
      ballastBytes: bounds.ballastBytes,
    })
    for (const extent of surveyed.extents) this.#extents.add(extent)
    this.#extents.sealed = (extent) => this.#ledger.touchExtent(extent)
    this.#extents.ranOut = () => this.#space.ranOut()
    this.#extents.metForeign = ({ number }) =>
      log.error(
        { file: extentFileName(number) },
        'a file exists where an extent was to be made: it is left alone',
      )
    files.failed = (extent) => this.#failed(extent)
    this.#rows = new RowCache(catalogue)
    const extentOf = (run: { extent: number; generation: number }) => this.#extents.get(run)
    this.#ledger = new Ledger({
      facts,
      catalogue,
      rows: this.#rows,
      log,
      extentOf,
      failed: () => this.#space.changed(),
      now: () => this.#clock.now(),
      monotonic: () => this.#clock.monotonic(),
      after: this.#after,
    })
    this.#history = new ReplicationLog({
      ledger: this.#ledger,
      catalogue,
      clock: this.#clock,
      log,
      retentionMs: options.tombstoneRetentionMs ?? tombstoneRetentionMsDefault,
    })
    this.#pins = new Pins(this.#clock, { allForMs: options.pinnedAtFirstMs ?? 0 })
    const seal = new HeaderSeal(facts.secret)
    this.#writerDeps = {
      extents: this.#extents,
      ledger: this.#ledger,
      pins: this.#pins,
      seal,
      clock: this.#clock,
      log,
    }
    this.#writer = new Writer(this.#writerDeps)
    this.#reader = new Reader({
      extents: this.#extents,
      seal,
      cacheBytes: this.#bounds.cacheBytes,
      damaged: (entry, copy, fault) => this.#quarantine(entry, copy, fault),
      assertOpen: () => this.#assertOpen(),
    })
    this.#verifier = new Verifier({
      extents: this.#extents,
      seal,
      now: () => this.#clock.monotonic(),
      damaged: (entry, copy, fault) => this.#quarantine(entry, copy, fault),
      assertOpen: () => this.#assertOpen(),
    })
    this.#known = new KnownCopies({
      clock: this.#clock,
      verify: async (entry, copy) => {
        for await (const _ of this.#verify(entry, copy)) this.#assertOpen()
      },
      damaged: (entry, copy, fault) => this.#quarantine(entry, copy, fault),
    })
    this.#compactor = new Compactor({
      extents: this.#extents,
      files,
      rows: this.#rows,
      ledger: this.#ledger,
      writer: this.#writer,
      seal,
      log,
      blobOf: (incarnation) => this.#blobOf(incarnation),
      moved: (_entry, old, copy, from) => this.#moved(old, copy, from),
      unreadable: (extent, { blocks }) => this.#setAsideUnreadable(extent, { blocks, unknown: 0 }),
      now: () => this.#clock.monotonic(),
      bounds,
      space: this.#space,
      pause: () => this.#yieldDevice(),
    })
    this.#slots = new SlotPool(Math.floor(this.#bounds.uploadMemoryBytes / slotBytes), this.#after)
    this.#hashing = (machine.hashing ?? ((memory) => new WorkerHashing(memory, options.hashThreadsMax)))(
      this.#slots.memory,
    )
    this.#stageDeps = {
      clock: this.#clock,
      slots: this.#slots,
      hashing: this.#hashing,
      extents: this.#extents,
      seal,
      crc: new Crc32Combiner(chunkBytes),
      assertRoom: () => this.#space.assertGoesOn(),
      commit: (stage, blob, body, options) => this.#commit(stage, blob, body, options),
      ended: (stage) => this.#stages.delete(stage),
      released: () => this.#compactLater(),
    }
    this.#background = machine.background ?? true
    const sweepMs = Math.max(1000, Math.min(30_000, this.#bounds.stageIdleMs / 4))
    this.#sweeper = setInterval(() => {
      if (!this.#background) return
      this.sweep()
      this.#compactLater() // retries what failed on a full disk
    }, sweepMs).unref()
  }

  async stage(options: StageOptions = {}): Promise<PlacedStage> {
    this.#assertOpen()
    if (options.signal?.aborted) throw new BlobFault('CANCELLED', 'the upload was aborted before it began')
    const open = this.#stages.size + this.#opening
    if (open >= this.#bounds.stagesMax)
      throw new BlobFault('UNAVAILABLE', `${open} uploads are open, no more are allowed`)
    this.#opening++
    try {
      await this.#space.freshen()
      return this.#open(options)
    } finally {
      this.#opening--
    }
  }

  #open(options: StageOptions): PlacedStage {
    try {
      this.#space.assertBegins(options.expectedBytes)
    } catch (error) {
      this.#compactLater() // a reader needs all that can be recovered
      throw error
    }
    this.#assertOpen()
    const uploadId =
      options.uploadId === undefined ? this.#uploadIds.take(incarnationBytes) : Buffer.from(options.uploadId)
    for (const open of options.uploadId === undefined ? [] : this.#stages)
      if (open.uploadId.equals(uploadId))
        throw new BlobFault('INVALID', `the upload ${uploadId.toString('hex')} is staged already`)
    const stage = new ChunkStage(uploadId, options.placement?.group ?? 0, this.#stageDeps)
    this.#stages.add(stage)
    return stage
  }

  put(blob: SmallBlob, options: PutOptions): Promise<BlobFacts> {
    return putSmall(this, blob, options)
  }

  async stat(blob: BlobName): Promise<BlobFacts | undefined> {
    this.#assertOpen()
    const entry = await this.#rows.acquire(blob.id)
    try {
      const copy = find(entry, blob.incarnation)
      return copy && factsOf(entry.id, copy)
    } finally {
      this.#rows.release(entry)
    }
  }

  async *read(
    blob: BlobName,
    range: { start: number; end: number },
    options: { signal?: AbortSignal } = {},
  ): AsyncGenerator<Uint8Array, void, undefined> {
    this.#assertOpen()
    const entry = await this.#rows.acquire(blob.id)
    let lease: ExtentClaim | undefined
    try {
      const copy = copyOf(entry, blob, range)
      const { start, end } = range
      if (options.signal?.aborted) throw new BlobFault('CANCELLED', 'the reader gave up')
      lease = new ExtentClaim(copy, this.#extents, () => this.#compactLater())
      if (copy.inlineOffset === undefined) {
        yield* this.#reader.stream(entry, lease, range, options.signal)
      } else if (start < end) {
        const bytes = await this.#reader.inline(entry, lease)
        if (options.signal?.aborted) throw new BlobFault('CANCELLED', 'the reader gave up')
        yield Buffer.from(bytes.subarray(start, end))
        // The consumer asks again: an abort meanwhile is reported as for larger blobs.
        if (options.signal?.aborted) throw new BlobFault('CANCELLED', 'the reader gave up')
      }
    } finally {
      lease?.release()
      this.#rows.release(entry)
    }
  }

  async readWhole(
    blob: BlobName,
    { start, end }: { start: number; end: number },
  ): Promise<WholeBytes | undefined> {
    this.#assertOpen()
    const found = this.#rows.acquire(blob.id)
    const entry = found instanceof Promise ? await found : found
    let lease: ExtentClaim | undefined
    try {
      const copy = copyOf(entry, blob, { start, end })
      if (copy.inlineOffset === undefined) return this.#reader.atHand(entry, copy, { start, end })
      const hot = this.#reader.hot(copy)
      if (hot !== undefined) return kept(hot.subarray(start, end))
      lease = new ExtentClaim(copy, this.#extents, () => this.#compactLater())
      const bytes = await this.#reader.inline(entry, lease)
      return kept(bytes.subarray(start, end))
    } finally {
      lease?.release()
      this.#rows.release(entry)
    }
  }

  async openSender(blob: BlobName): Promise<BlobSender | undefined> {
    this.#assertOpen()
    const entry = await this.#rows.acquire(blob.id)
    let sender: BlobSender | undefined
    try {
      const copy = copyOf(entry, blob, { start: 0, end: 0 })
      if (copy.inlineOffset !== undefined) return undefined
      const lease = new ExtentClaim(copy, this.#extents, () => this.#compactLater())
      sender = this.#reader.sender(entry, lease, () => this.#rows.release(entry))
      return sender
    } finally {
      if (sender === undefined) this.#rows.release(entry)
    }
  }

  async *verify(
    blob: BlobName,
    { signal }: { signal?: AbortSignal } = {},
  ): AsyncGenerator<number, void, undefined> {
    this.#assertOpen()
    const entry = await this.#rows.acquire(blob.id)
    try {
      yield* this.#verify(entry, copyOf(entry, blob, { start: 0, end: 0 }), signal)
    } finally {
      this.#rows.release(entry)
    }
  }

  async *#verify(entry: RowEntry, copy: Copy, signal?: AbortSignal): AsyncGenerator<number, void, undefined> {
    const lease = new ExtentClaim(copy, this.#extents, () => this.#compactLater())
    try {
      yield* this.#verifier.verify(entry, lease, signal)
    } finally {
      lease.release()
    }
  }

  async pin(blob: BlobName, { ttlMs, whole = false }: { ttlMs: number; whole?: boolean }): Promise<boolean> {
    this.#assertOpen()
    const entry = await this.#rows.acquire(blob.id)
    try {
      if (whole && !(await this.#isWhole(entry, blob))) return false
      const intent = new PinIntent(this.#writerDeps, entry, blob.incarnation, { ttlMs, whole })
      this.#writer.submit(intent)
      return await intent.done
    } finally {
      this.#rows.release(entry)
    }
  }

  /** @throws BlobFault `IO` when it must be verified and cannot be read. */
  async #isWhole(entry: RowEntry, { incarnation }: BlobName): Promise<boolean> {
    const copy = find(entry, incarnation)
    if (copy === undefined || copy.quarantined) return false
    if (this.#known.isFresh(copy)) return true
    try {
      await this.#known.freshen(entry, copy)
      return true
    } catch (error) {
      if ((error as BlobFault).code === 'CORRUPT') return false
      throw error
    }
  }

  async committed(uploadId: Uint8Array): Promise<BlobFacts | undefined> {
    this.#assertOpen()
    const outcome = this.#outcomes.get(latin1(uploadId))
    if (outcome !== undefined) return this.stat(blobNamed(outcome))
    const id = await this.#blobOf(Buffer.from(uploadId))
    return id && this.stat({ id, incarnation: uploadId })
  }

  async find(id: Uint8Array): Promise<BlobFacts[]> {
    this.#assertOpen()
    const entry = await this.#rows.acquire(id)
    try {
      return entry.copies
        .filter((copy) => !copy.quarantined && !entry.deleting.includes(copy))
        .map((copy) => factsOf(entry.id, copy))
    } finally {
      this.#rows.release(entry)
    }
  }

  pull(request: PullRequest): Promise<Pulled> {
    this.#assertOpen()
    return this.#history.pull(request)
  }

  readBatch(copies: readonly BlobFacts[]): Promise<(Uint8Array | undefined)[]> {
    return readBatch(this, copies)
  }

  async deletedMs(blob: BlobName): Promise<number | undefined> {
    return (await this.stat(blob)) === undefined ? this.#history.deletedMs(blob) : undefined
  }

  async note(name: string): Promise<Uint8Array | undefined> {
    this.#assertOpen()
    const key = noteKey(name)
    const noted = this.#ledger.noted(key)
    if (noted !== undefined) return noted.value
    const [value] = await this.#catalogue.get([key])
    return value
  }

  async setNote(name: string, value: Uint8Array | undefined): Promise<void> {
    this.#assertOpen()
    if ((value?.length ?? 0) > noteBytesMax)
      throw new BlobFault('INVALID', `a note of ${value?.length} bytes, at most ${noteBytesMax}`)
    this.#ledger.note(noteKey(name), value && Buffer.from(value))
    await this.#ledger.flush()
  }

  async delete(blob: BlobName): Promise<'deleted' | 'pinned'> {
    this.#assertOpen()
    const entry = await this.#rows.acquire(blob.id)
    try {
      return await this.#delete(entry, blob.incarnation)
    } catch (error) {
      if ((error as BlobFault).code !== 'FULL') throw error
      // The disk is full to the last byte. Space reserved for this case lets the deletion be
      // written.
      await this.#space.ballast.release()
      return await this.#delete(entry, blob.incarnation)
    } finally {
      this.#rows.release(entry)
    }
  }

  #delete(entry: RowEntry, incarnation: Uint8Array): Promise<'deleted' | 'pinned'> {
    const intent = new DeleteIntent(this.#writerDeps, entry, incarnation, (copy) => {
      this.#reader.forget(copy)
      if (copy.quarantined) this.#damaged.delete(nameOf(entry, copy))
      this.#compactLater()
    })
    this.#writer.submit(intent)
    return intent.done
  }

  async *inventory(options: { groups?: readonly number[] } = {}): AsyncGenerator<BlobFacts, void, undefined> {
    this.#assertOpen()
    await this.#ledger.flush()
    let after: Buffer | undefined
    for (;;) {
      this.#assertOpen()
      const rows = await this.#catalogue.scan(blobPrefix, { after, limit: 1000 })
      for (const { key, value } of rows)
        for (const copy of decodeCopies(value)) {
          if (copy.quarantined) this.#countDamaged(key.subarray(1), copy)
          if (options.groups?.includes(copy.placementGroup) !== false) yield factsOf(key.subarray(1), copy)
        }
      after = rows.at(-1)?.key
      if (after === undefined) return
    }
  }

  async usage(): Promise<BlobStoreUsage> {
    this.#assertOpen()
    await this.#space.measure()
    let stagedBytes = 0
    for (const stage of this.#stages) stagedBytes += stage.size
    let diskBytes = (await this.#catalogue.diskBytes()) + (await this.#space.ballast.allocatedBytes())
    for (const extent of this.#extents.all.values()) diskBytes += await extent.allocatedBytes()
    const { liveBytes, blobs } = this.#ledger.facts
    const { freeBytes } = this.#space
    return {
      liveBytes,
      blobs,
      diskBytes,
      freeBytes,
      writable: freeBytes > 0 && this.failure === undefined && !this.recovering,
      openStages: this.#stages.size,
      stagedBytes,
    }
  }

  /** Why it does not work until it is restarted. */
  get failure(): Error | undefined {
    return this.#catalogue.failure ?? this.#catalogue.damage
  }

  /** The catalogue accepted no batch: it is reopened and retried until it does. */
  get recovering(): boolean {
    const isBehind = this.#ledger.broken !== undefined || this.#catalogue.recovering === true
    return this.failure === undefined && isBehind
  }

  /** Why nothing can be changed, and since when; a full disk is no such reason. */
  get failing(): Failing | undefined {
    const { broken, brokenSinceMs } = this.#ledger
    const { failure } = this
    if (failure !== undefined) this.#failedAtMs ??= this.#clock.monotonic()
    const sinceMs = failure === undefined ? brokenSinceMs : this.#failedAtMs
    const why = failure ?? broken
    if (why === undefined || sinceMs === undefined || (why as BlobFault).code === 'FULL') return undefined
    return { reason: why.message, sinceMs }
  }

  get health(): StoreHealth {
    const quarantined: QuarantinedFile[] = []
    const gaps: string[] = []
    for (const extent of this.#extents.all.values()) {
      const { quarantine, gap, fileBytes, liveBytes } = extent
      if (quarantine === undefined) continue
      if (quarantine === 'missing' && liveBytes === 0) continue // no data of it is missing
      const file = extentFileName(extent.number)
      quarantined.push({ file, reason: quarantine, bytes: fileBytes, liveBytes })
      if (gap) gaps.push(file)
    }
    const gap =
      gaps.length === 0
        ? undefined
        : `the content of ${gaps.length} extents is not completely known: ${gaps.slice(0, 8)}`
    const { failure, recovering } = this
    return { failure, recovering, quarantined, gap, sendsDirectly: this.#disk.sendsDirectly?.() ?? false }
  }

  /**
   * Frees and compacts what can be now, and waits for it.
   * @returns bytes that were freed, in extents or as whole extents.
   */
  async compact(): Promise<{ freedBytes: number; movedBytes: number }> {
    this.#assertOpen()
    await this.#space.measure()
    this.#sealWhenShort()
    const { freedBytes, movedBytes } = this.#compactor
    await this.#compactor.settle()
    return {
      freedBytes: this.#compactor.freedBytes - freedBytes,
      movedBytes: this.#compactor.movedBytes - movedBytes,
    }
  }

  /** Drops expired entries and tombstones; otherwise done each hour. */
  trimHistory(): Promise<void> {
    return this.#history.trim()
  }

  /** Drops uploads without activity. @returns how many. */
  sweep(): number {
    const before = this.#clock.monotonic() - this.#bounds.stageIdleMs
    let swept = 0
    for (const stage of this.#stages) {
      if (stage.busy || stage.activeAt >= before) continue
      stage.lose(new BlobFault('UNAVAILABLE', 'the upload was silent for too long'))
      swept++
    }
    return swept
  }

  /** Counts since the start, for metrics. */
  counters() {
    let suspect = 0
    let live = 0
    let used = 0
    for (const extent of this.#extents.all.values()) {
      if (extent.suspect) suspect++
      if (extent.state === 'free' || extent.quarantine !== undefined) continue
      live += extent.liveBytes
      used += extent.frontier - extent.holeBytes
    }
    return {
      groups: this.#writer.groups,
      failedGroups: this.#writer.failedGroups,
      hotReads: this.#reader.hotReads,
      damagedReads: this.#reader.damagedReads,
      damagedBlobs: this.#damaged.size,
      replacedBlobs: this.#replaced,
      verifiedBytes: this.#verifier.verifiedBytes,
      activeReaders: this.#reader.active,
      compactedBytes: this.#compactor.movedBytes,
      freedBytes: this.#compactor.freedBytes,
      extents: this.#extents.all.size,
      suspectExtents: suspect,
      deadBytes: used - live,
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    clearInterval(this.#sweeper)
    clearTimeout(this.#compactSoon)
    await this.#history.close()
    const stages = [...this.#stages]
    for (const stage of stages) stage.lose(new BlobFault('CLOSED', 'the chunk store is closed'))
    await this.#compactor.stop()
    await this.#writer.close()
    await this.#space.settled()
    await Promise.all(stages.map((stage) => stage.quiet()))
    const { current } = this.#extents
    if (current !== undefined && current.failure === undefined) {
      current.state = 'paused' // nothing is being written: the next start may continue behind the frontier
      this.#ledger.touchExtent(current)
    }
    const mark = this.#randomFill(Buffer.alloc(endMarkBytes))
    this.#ledger.note(endMarkKey, mark)
    try {
      await this.#ledger.close()
      await this.#end
        .mark(mark)
        .catch((error: Error) =>
          this.#log.warn(
            { error: error.message },
            'the clean shutdown could not be marked; the next start scans more',
          ),
        )
    } finally {
      // Each is closed, also when another one cannot be.
      await using closing = new AsyncDisposableStack()
      closing.defer(() => this.#catalogue.close())
      closing.defer(() => this.#files.closeAll())
      closing.defer(() => this.#hashing.close())
    }
  }

  async #recover(surveyed: Surveyed): Promise<void> {
    const recovery = new Recovery({
      rows: this.#rows,
      ledger: this.#ledger,
      catalogue: this.#catalogue,
      extentOf: (run) => this.#extents.get(run),
      log: this.#log,
      unreadable: (extent, missed) => this.#setAsideUnreadable(extent, missed),
    })
    await this.#end.unmark()
    this.recovered = await recovery.run(surveyed)
    // Earlier positions may belong to lost entries: they are not issued any more.
    for (const extent of surveyed.halfFreed.filter(({ quarantine }) => quarantine === undefined))
      await this.#compactor.unmake(extent)
    if (!surveyed.inOrder || surveyed.audit) this.#ledger.beginLife(this.#randomFill(Buffer.alloc(16)))
    this.#ledger.note(endMarkKey, undefined)
    this.#ledger.telling = true
    for (const extent of this.#extents.resume()) this.#ledger.touchExtent(extent)
    await this.#ledger.flush()
    await this.#extents
      .settleBlocks()
      .catch((error: Error) =>
        this.#log.warn({ error: error.message }, 'the open extent has more or fewer blocks than it needs'),
      )
    await this.#space.measure()
    if (surveyed.scans.length > 0) this.#log.info({ ...this.recovered }, 'the chunk store was recovered')
    this.#compactLater()
  }

  async #publish(extent: Extent): Promise<void> {
    this.#ledger.touchExtent(extent)
    await this.#ledger.flush()
  }

  async #commit(
    stage: ChunkStage,
    { id, crc32 }: { id: Buffer; crc32: number },
    body: { bytes: Uint8Array } | { runs: Run[] },
    { pinMs, asNew, createdMs }: PlacedCommit,
  ): Promise<BlobFacts> {
    const found = this.#rows.acquire(id)
    const entry = found instanceof Promise ? await found : found
    try {
      const looked = asNew ? undefined : this.#known.look(entry, stage)
      const damaged = looked instanceof Promise ? await looked : looked
      if (damaged !== undefined && damaged !== 'unsure')
        await this.#replace(entry, damaged, { incarnation: stage.uploadId, body, pinMs })
      const blob = {
        incarnation: stage.uploadId,
        size: stage.size,
        crc32,
        createdMs: createdMs ?? this.#clock.now(),
        placementGroup: stage.placementGroup,
      }
      const intent = new CommitIntent(this.#writerDeps, entry, blob, body, {
        pinMs,
        asNew: asNew || damaged === 'unsure',
        replaced: (old) => {
          this.#reader.forget(old)
          this.#damaged.delete(nameOf(entry, old))
          this.#replaced++
          this.#log.warn({ blob: entry.id.toString('hex') }, 'a damaged blob was replaced by a whole one')
          this.#compactLater()
        },
      })
      this.#writer.submit(intent)
      const facts = await intent.done
      this.#outcomes.set(latin1(stage.uploadId), latin1(facts.id) + latin1(facts.incarnation))
      return facts
    } finally {
      this.#rows.release(entry)
    }
  }

  /**
   * Writes the bytes of an upload under the name of the damaged copy, so that all references to
   * that copy get them. Data records name their upload, so the staged bytes are read back and
   * written once more. If that fails the upload becomes its own copy.
   */
  async #replace(
    entry: RowEntry,
    damaged: Copy,
    upload: { incarnation: Buffer; body: { bytes: Uint8Array } | { runs: Run[] }; pinMs: number },
  ): Promise<void> {
    const name = nameOf(entry, damaged)
    const running = this.#replacing.get(name)
    if (running !== undefined) return running
    const facts = factsOf(entry.id, damaged)
    const { pinMs } = upload
    const bytes = this.#staged(entry, damaged, upload)
    const replacing = restoreCopy(this, facts, bytes, { pinMs, source: 'an upload' })
      .then(
        () => {},
        (error: BlobFault) =>
          this.#log.error(
            { blob: entry.id.toString('hex'), code: error.code, error: error.message },
            'a damaged blob could not be replaced by an upload',
          ),
      )
      .finally(() => this.#replacing.delete(name))
    this.#replacing.set(name, replacing)
    return replacing
  }

  /** The bytes of a sealed upload. */
  async *#staged(
    entry: RowEntry,
    { size, crc32 }: Copy,
    { incarnation, body }: { incarnation: Buffer; body: { bytes: Uint8Array } | { runs: Run[] } },
  ): AsyncGenerator<Uint8Array, void, undefined> {
    if ('bytes' in body) {
      yield body.bytes
      return
    }
    const copy: Copy = {
      incarnation,
      size,
      crc32,
      runs: body.runs,
      createdMs: 0,
      placementGroup: 0,
      quarantined: false,
      sequence: 0,
      commitExtent: 0,
      commitGeneration: 0,
      earlierHomes: noHomes,
      entryBytes: 0,
      inlineOffset: undefined,
      verifiedAt: neverVerified,
    }
    const lease = new ExtentClaim(copy, this.#extents, () => this.#compactLater())
    try {
      yield* this.#reader.stream(entry, lease, { start: 0, end: size }, undefined)
    } finally {
      lease.release()
    }
  }

  async #blobOf(incarnation: Buffer): Promise<Buffer | undefined> {
    const key = uploadKey(incarnation)
    const noted = this.#ledger.noted(key)
    if (noted !== undefined) return noted.value
    const [id] = await this.#catalogue.get([key])
    return id
  }

  #moved(old: Copy, copy: Copy, from: Extent): void {
    this.#reader.forget(old)
    for (const holder of [...from.holders])
      if (holder instanceof ExtentClaim && holder.target === old) holder.moveTo(copy)
  }

  /**
   * A write or sync failed: its content stays readable and is moved away, uploads that wrote to it
   * are lost.
   */
  #failed(extent: Extent): void {
    if (extent.failure?.code === 'FULL') this.#space.ranOut()
    if (extent.state === 'free') return // it was not begun; its caller is told
    this.#log.error(
      { extent: extent.number, error: extent.failure?.message },
      'an extent failed; it accepts nothing more',
    )
    this.#extents.seal(extent)
    this.#ledger.touchExtent(extent)
    for (const holder of [...extent.holders])
      if (holder instanceof ChunkStage) holder.lose(extent.failure as BlobFault)
    this.#space.changed()
    this.#compactLater()
  }

  #setAsideUnreadable(extent: Extent, { blocks, unknown }: Missed): void {
    const isNews = extent.quarantine === undefined
    extent.setAside('unreadable', { gap: unknown > 0 })
    this.#ledger.touchExtent(extent)
    const facts = { extent: extent.number, blocks, unknown }
    if (isNews)
      this.#log.error(facts, 'blocks of an extent cannot be read: it is set aside and never used again')
  }

  #quarantine(entry: RowEntry, copy: Copy, fault: BlobFault): void {
    if (copy.quarantined || !entry.copies.includes(copy)) return
    copy.quarantined = true
    this.#countDamaged(entry.id, copy)
    this.#ledger.touchRow(entry)
    this.#ledger.kick()
    this.#log.error({ blob: entry.id.toString('hex'), error: fault.message }, 'a blob is damaged')
  }

  #countDamaged(id: Uint8Array, { incarnation }: Copy): void {
    if (this.#damaged.size < damagedKnownMax) this.#damaged.add(latin1(id) + latin1(incarnation))
  }

  #compactLater(): void {
    if (this.#closing !== undefined || !this.#background) return
    this.#compactSoon ??= setTimeout(() => {
      this.#compactSoon = undefined
      this.#sealWhenShort()
      this.#compactor.kick()
    }, compactSoonMs).unref()
  }

  /**
   * On a nearly full disk the open extent may hold most of the space that can be freed, and nothing
   * would ever fill it.
   */
  #sealWhenShort(): void {
    const { current } = this.#extents
    if (current === undefined || this.#space.freeBytes >= this.#bounds.shortBytes) return
    const deadBytes = current.frontier - current.liveBytes
    const mostlyDead = deadBytes >= this.#bounds.extentStepBytes && deadBytes > current.liveBytes
    const needed = this.#space.isPressing && deadBytes >= worthBytes(this.#bounds)
    const takesUploads = [...current.holders].some((holder) => holder instanceof ChunkStage)
    if (mostlyDead || (needed && !takesUploads)) this.#extents.seal(current)
  }

  /** Compaction takes a small share of the device while others want it. */
  async #yieldDevice(): Promise<void> {
    const busy = this.#stages.size > 0 || this.#reader.active > 0
    await new Promise<void>((resolve) => (busy ? this.#after(resolve, 5) : setImmediate(resolve)))
  }

  #assertOpen(): void {
    if (this.#closing !== undefined) throw new BlobFault('CLOSED', 'the chunk store is closed')
  }
}

function find(entry: RowEntry, incarnation: Uint8Array): Copy | undefined {
  return entry.copies.find((copy) => copy.incarnation.equals(incarnation))
}

function nameOf({ id }: RowEntry, { incarnation }: Copy): string {
  return latin1(id) + latin1(incarnation)
}

function blobNamed(name: string): BlobName {
  const bytes = Buffer.from(name, 'latin1')
  return { id: bytes.subarray(0, blobIdBytes), incarnation: bytes.subarray(blobIdBytes) }
}

/** Memory that is not reused. */
function kept(bytes: Uint8Array): WholeBytes {
  return { bytes, release() {} }
}

/** @throws BlobFault `NOT_FOUND`. */
function copyOf(entry: RowEntry, { incarnation }: BlobName, range: { start: number; end: number }): Copy {
  const copy = find(entry, incarnation)
  if (copy === undefined) throw new BlobFault('NOT_FOUND', `no copy of ${entry.id.toString('hex')}`)
  const { start, end } = range
  if (!(0 <= start && start <= end && end <= copy.size))
    throw new RangeError(`bytes ${start}..${end} of a blob of ${copy.size}`)
  return copy
}
