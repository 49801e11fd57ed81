/**
 * The blob store on one machine's disk: extents hold the bytes, the catalogue holds their
 * locations. DESIGN.md describes the parts and the reasons; FORMAT.md the disk format.
 */
import { randomFillSync } from 'node:crypto'
import { join } from 'node:path'
import {
  BlobFault,
  type BlobInfo,
  type BlobName,
  type BlobSender,
  type BlobStoreUsage,
  type DirectSends,
  type NodeStore,
  type PlacedCommit,
  type PlacedStage,
  type Pulled,
  type PutOptions,
  putSmall,
  readBatch,
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
  noteKey,
  RowCache,
  type RowEntry,
  uploadKey,
} from './catalogue/rows.ts'
import type { Disk } from './disk/disk.ts'
import { NodeDisk } from './disk/node-disk.ts'
import type { Extent } from './extents/extent.ts'
import { ExtentFiles, extentFileName } from './extents/extent-files.ts'
import { ExtentTable } from './extents/extent-table.ts'
import type { Missed } from './extents/scan.ts'
import { chunkBytes, HeaderSeal, type Run } from './format.ts'
import { Crc32Combiner } from './hashing/crc32-combine.ts'
import { type Hashing, WorkerHashing } from './hashing/hashing.ts'
import { type Log, silentLog } from './log.ts'
import { type After, BufferPool, bufferBytes } from './memory/buffer-pool.ts'
import { boundsOf, type ChunkStoreMachine, type ChunkStoreOptions, type StoreBounds } from './options.ts'
import { ExtentClaim } from './reading/reader.ts'
import { copyNamed, Reads } from './reading/reads.ts'
import { ballastPath } from './space/ballast.ts'
import { Compactor } from './space/compactor.ts'
import { Space } from './space/space.ts'
import { Upkeep } from './space/upkeep.ts'
import { CleanShutdownMarker, endMarkBytes, endMarkKey } from './start/clean-shutdown-marker.ts'
import { IdentityFile } from './start/identity-file.ts'
import { openCatalogue } from './start/open-catalogue.ts'
import { nothingRecovered, Recovery, type RecoveryFigures } from './start/recovery.ts'
import { type Surveyed, survey } from './start/survey.ts'
import { StoreState } from './state.ts'
import { CommitIntent } from './writing/commit-intent.ts'
import { blobNamed, DamagedCopies } from './writing/damaged-copies.ts'
import { DeleteIntent } from './writing/delete-intent.ts'
import type { WriterDeps } from './writing/group.ts'
import { KnownCopies } from './writing/known-copies.ts'
import { infoOf, Ledger } from './writing/ledger.ts'
import { PinIntent } from './writing/pin-intent.ts'
import { Pins } from './writing/pins.ts'
import { type PullRequest, ReplicationLog } from './writing/replication-log.ts'
import { ChunkStage } from './writing/stage.ts'
import { Stages } from './writing/stages.ts'
import { Writer } from './writing/writer.ts'

/** Results of uploads that are remembered beyond their copies' rows, 250 bytes each. */
const outcomesMax = 16_384
const noteBytesMax = 64 * 1024

export class ChunkStore implements NodeStore, WholeReads, DirectSends, TellsHealth {
  readonly #bounds: StoreBounds
  readonly #clock: Clock
  readonly #log: Log
  readonly #catalogue: Catalogue
  readonly #files: ExtentFiles
  readonly #end: CleanShutdownMarker
  readonly #extents: ExtentTable
  readonly #space: Space
  readonly #rows: RowCache
  readonly #ledger: Ledger
  readonly #pins: Pins
  readonly #writer: Writer
  readonly #writerDeps: WriterDeps
  readonly #known: KnownCopies
  readonly #reads: Reads
  readonly #damaged: DamagedCopies
  readonly #state: StoreState
  readonly #compactor: Compactor
  readonly #buffers: BufferPool
  readonly #hashing: Hashing
  readonly #stages: Stages
  readonly #history: ReplicationLog
  /** Results of the latest uploads, blob id ‖ incarnation, by upload id; all in latin1. */
  readonly #outcomes = new RecentMap<string, string>({ max: outcomesMax })
  readonly #randomFill: (bytes: Buffer) => Buffer
  readonly #upkeep: Upkeep
  #closing: Promise<void> | undefined
  /** The findings of the start beyond the catalogue. */
  recovered: RecoveryFigures = nothingRecovered()

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
      const catalogue = await (machine.catalogue?.() ??
        openCatalogue(options.cataloguesIn ?? options.path, log, { engine: options.catalogue, rebuild }))
      let store: ChunkStore | undefined
      try {
        const { openExtentsMax } = boundsOf(options, 0)
        const files = new ExtentFiles(disk, directory, { openMax: openExtentsMax })
        const end = new CleanShutdownMarker(disk, options.path)
        const identity = new IdentityFile(disk, options.path, log)
        const nowMs = (options.clock ?? systemClock).now()
        const surveyed = await survey({
          ...{ catalogue, disk, directory, files, end, identity, log, nowMs, randomFill },
        })
        await identity.keep(surveyed.info)
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
    this.#upkeep.stop()
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
    const { info } = surveyed
    const bounds = boundsOf(options, space.totalBytes)
    this.#bounds = bounds
    this.#clock = options.clock ?? systemClock
    this.#log = log
    this.#randomFill = machine.randomFill ?? randomFillSync
    const after: After = machine.after ?? setTimeout
    this.#catalogue = catalogue
    this.#files = files
    this.#end = end
    this.#extents = this.#makeExtents(surveyed)
    this.#space = new Space({
      disk,
      path: options.path,
      clock: this.#clock,
      log,
      extents: this.#extents,
      space,
      lowWaterBytes: bounds.lowWaterBytes,
      ballastBytes: bounds.ballastBytes,
    })
    for (const extent of surveyed.extents) this.#extents.add(extent)
    files.failed = (extent) => this.#failed(extent)
    this.#rows = new RowCache(catalogue)
    this.#ledger = this.#makeLedger(surveyed, after)
    this.#history = new ReplicationLog({
      ledger: this.#ledger,
      catalogue,
      clock: this.#clock,
      log,
      retentionMs: options.tombstoneRetentionMs ?? tombstoneRetentionMsDefault,
    })
    this.#pins = new Pins(this.#clock, { allForMs: options.pinnedAtFirstMs ?? 0 })
    const seal = new HeaderSeal(info.secret)
    this.#writerDeps = {
      extents: this.#extents,
      ledger: this.#ledger,
      pins: this.#pins,
      seal,
      clock: this.#clock,
      log,
    }
    this.#writer = new Writer(this.#writerDeps)
    this.#reads = new Reads({
      rows: this.#rows,
      extents: this.#extents,
      seal,
      cacheBytes: bounds.cacheBytes,
      now: () => this.#clock.monotonic(),
      damaged: (entry, copy, fault) => this.#damaged.setAside(entry, copy, fault),
      released: () => this.#upkeep.compactLater(),
      assertOpen: () => this.#assertOpen(),
    })
    this.#damaged = new DamagedCopies({ store: this, reads: this.#reads, ledger: this.#ledger, log })
    this.#state = new StoreState({
      catalogue,
      ledger: this.#ledger,
      extents: this.#extents,
      disk,
      clock: this.#clock,
    })
    this.#known = new KnownCopies({
      clock: this.#clock,
      verify: async (entry, copy) => {
        for await (const _ of this.#reads.verifyCopy(entry, copy)) this.#assertOpen()
      },
      damaged: (entry, copy, fault) => this.#damaged.setAside(entry, copy, fault),
    })
    this.#compactor = this.#makeCompactor(seal)
    this.#buffers = new BufferPool(Math.floor(this.#bounds.uploadMemoryBytes / bufferBytes), after)
    this.#hashing = (machine.hashing ?? ((memory) => new WorkerHashing(memory, options.hashThreadsMax)))(
      this.#buffers.memory,
    )
    this.#stages = this.#makeStages(seal)
    this.#upkeep = new Upkeep({
      extents: this.#extents,
      space: this.#space,
      compactor: this.#compactor,
      stages: this.#stages,
      reader: this.#reads.reader,
      bounds,
      after,
      log,
      background: machine.background ?? true,
    })
  }

  #makeExtents({ info }: Surveyed): ExtentTable {
    const extents = new ExtentTable({
      files: this.#files,
      capacityBytes: this.#bounds.extentBytes,
      stepBytes: this.#bounds.extentStepBytes,
      spareBytes: () => this.#space.spareBytes,
      storeId: info.storeId,
      secret: info.secret,
      now: () => this.#clock.now(),
      nextGeneration: () => info.nextGeneration++,
      sequence: () => info.nextSequence,
      publish: (extent) => this.#publish(extent),
    })
    extents.sealed = (extent) => this.#ledger.touchExtent(extent)
    extents.prepared = (fault) => {
      if (fault?.code === 'FULL') this.#space.ranOut()
      this.#state.writesFail = fault?.code === 'IO'
      if (this.#state.writesFail) this.#upkeep.prepareLater()
    }
    extents.metForeign = ({ number }) =>
      this.#log.error(
        { file: extentFileName(number) },
        'a file exists in the place of a new extent: it is not changed',
      )
    return extents
  }

  #makeLedger({ info }: Surveyed, after: After): Ledger {
    return new Ledger({
      info,
      catalogue: this.#catalogue,
      rows: this.#rows,
      log: this.#log,
      extentOf: (run) => this.#extents.get(run),
      failed: () => this.#space.changed(),
      now: () => this.#clock.now(),
      monotonic: () => this.#clock.monotonic(),
      after,
    })
  }

  #makeCompactor(seal: HeaderSeal): Compactor {
    return new Compactor({
      extents: this.#extents,
      files: this.#files,
      rows: this.#rows,
      ledger: this.#ledger,
      writer: this.#writer,
      seal,
      log: this.#log,
      blobOf: (incarnation) => this.#blobOf(incarnation),
      moved: (_entry, old, copy, from) => this.#moved(old, copy, from),
      unreadable: (extent, { blocks }) => this.#setAsideUnreadable(extent, { blocks, unknown: 0 }),
      now: () => this.#clock.monotonic(),
      bounds: this.#bounds,
      space: this.#space,
      pause: () => this.#upkeep.yieldDevice(),
    })
  }

  #makeStages(seal: HeaderSeal): Stages {
    return new Stages({
      bounds: this.#bounds,
      clock: this.#clock,
      randomFill: this.#randomFill,
      stage: {
        clock: this.#clock,
        buffers: this.#buffers,
        hashing: this.#hashing,
        extents: this.#extents,
        seal,
        crc: new Crc32Combiner(chunkBytes),
        assertRoom: () => this.#space.assertGoesOn(),
        commit: (stage, blob, body, options) => this.#commit(stage, blob, body, options),
        released: () => this.#upkeep.compactLater(),
      },
      freshen: () => this.#space.freshen(),
      assertBegins: (expectedBytes) => this.#assertBegins(expectedBytes),
      assertOpen: () => this.#assertOpen(),
    })
  }

  stage(options: StageOptions = {}): Promise<PlacedStage> {
    return this.#stages.open(options)
  }

  put(blob: SmallBlob, options: PutOptions): Promise<BlobInfo> {
    return putSmall(this, blob, options)
  }

  async stat(blob: BlobName): Promise<BlobInfo | undefined> {
    this.#assertOpen()
    const entry = await this.#rows.acquire(blob.id)
    try {
      const copy = copyNamed(entry, blob.incarnation)
      return copy && infoOf(entry.id, copy)
    } finally {
      this.#rows.release(entry)
    }
  }

  read(
    blob: BlobName,
    range: { start: number; end: number },
    options: { signal?: AbortSignal } = {},
  ): AsyncGenerator<Uint8Array, void, undefined> {
    return this.#reads.read(blob, range, options)
  }

  readWhole(blob: BlobName, range: { start: number; end: number }): Promise<WholeBytes | undefined> {
    return this.#reads.readWhole(blob, range)
  }

  openSender(blob: BlobName): Promise<BlobSender | undefined> {
    return this.#reads.openSender(blob)
  }

  verify(blob: BlobName, options: { signal?: AbortSignal } = {}): AsyncGenerator<number, void, undefined> {
    return this.#reads.verify(blob, options)
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
    const copy = copyNamed(entry, incarnation)
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

  async committed(uploadId: Uint8Array): Promise<BlobInfo | undefined> {
    this.#assertOpen()
    const outcome = this.#outcomes.get(latin1(uploadId))
    if (outcome !== undefined) return this.stat(blobNamed(outcome))
    const id = await this.#blobOf(Buffer.from(uploadId))
    return id && this.stat({ id, incarnation: uploadId })
  }

  async find(id: Uint8Array): Promise<BlobInfo[]> {
    this.#assertOpen()
    const entry = await this.#rows.acquire(id)
    try {
      return entry.copies
        .filter((copy) => !copy.quarantined && !entry.deleting.includes(copy))
        .map((copy) => infoOf(entry.id, copy))
    } finally {
      this.#rows.release(entry)
    }
  }

  pull(request: PullRequest): Promise<Pulled> {
    this.#assertOpen()
    return this.#history.pull(request)
  }

  readBatch(copies: readonly BlobInfo[]): Promise<(Uint8Array | undefined)[]> {
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
      this.#reads.reader.forget(copy)
      if (copy.quarantined) this.#damaged.forget(entry, copy)
      this.#upkeep.compactLater()
    })
    this.#writer.submit(intent)
    return intent.done
  }

  async *inventory(options: { groups?: readonly number[] } = {}): AsyncGenerator<BlobInfo, void, undefined> {
    this.#assertOpen()
    await this.#ledger.flush()
    let after: Buffer | undefined
    for (;;) {
      this.#assertOpen()
      const rows = await this.#catalogue.scan(blobPrefix, { after, limit: 1000 })
      for (const { key, value } of rows)
        for (const copy of decodeCopies(value)) {
          if (copy.quarantined) this.#damaged.add(key.subarray(1), copy)
          if (options.groups?.includes(copy.placementGroup) !== false) yield infoOf(key.subarray(1), copy)
        }
      after = rows.at(-1)?.key
      if (after === undefined) return
    }
  }

  async usage(): Promise<BlobStoreUsage> {
    this.#assertOpen()
    await this.#space.measure()
    let diskBytes = (await this.#catalogue.diskBytes()) + (await this.#space.ballast.allocatedBytes())
    for (const extent of this.#extents.all.values()) diskBytes += await extent.allocatedBytes()
    const { liveBytes, blobs } = this.#ledger.info
    const { freeBytes } = this.#space
    return {
      liveBytes,
      blobs,
      diskBytes,
      freeBytes,
      writable: freeBytes > 0 && this.failure === undefined && !this.recovering && !this.#state.writesFail,
      openStages: this.#stages.count,
      stagedBytes: this.#stages.bytes,
    }
  }

  get failure(): Error | undefined {
    return this.#state.failure
  }

  get recovering(): boolean {
    return this.#state.recovering
  }

  get failing(): Failing | undefined {
    return this.#state.failing
  }

  get health(): StoreHealth {
    return this.#state.health
  }

  /**
   * Frees and compacts what can be now, and waits for it.
   * @returns bytes that were freed, in extents or as whole extents.
   */
  async compact(): Promise<{ freedBytes: number; movedBytes: number }> {
    this.#assertOpen()
    await this.#space.measure()
    this.#upkeep.sealWhenShort()
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

  /** Finds extents whose files were removed, and fails them; otherwise done twice a minute. */
  findRemoved(): Promise<void> {
    return this.#upkeep.failRemoved()
  }

  /** Drops uploads without activity. @returns how many. */
  sweep(): number {
    return this.#stages.sweep()
  }

  /** Its file system, as measured by the last `usage`. */
  get disk(): { totalBytes: number; freeBytes: number; reserveBytes: number } {
    return this.#space.disk
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
      hotReads: this.#reads.reader.hotReads,
      damagedReads: this.#reads.reader.damagedReads,
      damagedBlobs: this.#damaged.count,
      replacedBlobs: this.#damaged.replaced,
      verifiedBytes: this.#reads.verifier.verifiedBytes,
      activeReaders: this.#reads.reader.active,
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
    this.#upkeep.stop()
    await this.#history.close()
    const stagesEnd = this.#stages.loseAll(new BlobFault('CLOSED', 'the chunk store is closed'))
    await this.#compactor.stop()
    await this.#writer.close()
    await this.#space.settled()
    await stagesEnd()
    await this.#extents.settled()
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
    this.#upkeep.compactLater()
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
  ): Promise<BlobInfo> {
    const found = this.#rows.acquire(id)
    const entry = found instanceof Promise ? await found : found
    try {
      const looked = asNew ? undefined : this.#known.look(entry, stage)
      const damaged = looked instanceof Promise ? await looked : looked
      if (damaged !== undefined && damaged !== 'unsure')
        await this.#damaged.replace(entry, damaged, { incarnation: stage.uploadId, body, pinMs })
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
          this.#reads.reader.forget(old)
          this.#damaged.wasReplaced(entry, old)
          this.#upkeep.compactLater()
        },
      })
      this.#writer.submit(intent)
      const info = await intent.done
      this.#outcomes.set(latin1(stage.uploadId), latin1(info.id) + latin1(info.incarnation))
      return info
    } finally {
      this.#rows.release(entry)
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
    this.#reads.reader.forget(old)
    for (const holder of [...from.holders])
      if (holder instanceof ExtentClaim && holder.target === old) holder.moveTo(copy)
  }

  /**
   * A write or sync failed: its content stays readable and is moved away, uploads that wrote to it
   * are lost.
   */
  #failed(extent: Extent): void {
    if (extent.failure?.code === 'FULL') this.#space.ranOut()
    if (extent.state === 'free') return // it was not begun; its caller gets the fault
    this.#state.extentFailures++
    this.#log.error(
      { extent: extent.number, error: extent.failure?.message },
      'an extent failed; it accepts nothing more',
    )
    this.#extents.seal(extent)
    this.#ledger.touchExtent(extent)
    for (const holder of [...extent.holders])
      if (holder instanceof ChunkStage) holder.lose(extent.failure as BlobFault)
    this.#space.changed()
    this.#upkeep.compactLater()
  }

  #setAsideUnreadable(extent: Extent, { blocks, unknown }: Missed): void {
    const isNews = extent.quarantine === undefined
    extent.setAside('unreadable', { gap: unknown > 0 })
    this.#ledger.touchExtent(extent)
    const details = { extent: extent.number, blocks, unknown }
    if (isNews)
      this.#log.error(details, 'blocks of an extent cannot be read: it is set aside and never used again')
  }

  #assertBegins(expectedBytes: number | undefined): void {
    try {
      this.#space.assertBegins(expectedBytes)
    } catch (error) {
      this.#upkeep.compactLater() // a reader needs all that can be recovered
      throw error
    }
  }

  #assertOpen(): void {
    if (this.#closing !== undefined) throw new BlobFault('CLOSED', 'the chunk store is closed')
  }
}
