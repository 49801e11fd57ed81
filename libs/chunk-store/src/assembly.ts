/**
 * The parts of a store and how they are connected. Parts call each other only as written here. Some
 * parts are connected to parts that are made later: no part is called before all are made.
 */
import type { Clock } from '@holdfast/kernel'
import type { Catalogue } from './catalogue/catalogue.ts'
import { RowCache } from './catalogue/rows.ts'
import type { Disk } from './disk/disk.ts'
import { ExtentFaults } from './extents/extent-faults.ts'
import type { ExtentFiles } from './extents/extent-files.ts'
import { ExtentTable } from './extents/extent-table.ts'
import { HeaderSeal } from './format.ts'
import { Crc32Combiner } from './hashing/crc32-combine.ts'
import { type Hashing, WorkerHashing } from './hashing/hashing.ts'
import type { Log } from './log.ts'
import { BufferPool, bufferBytes, type DelayedCall } from './memory/buffer-pool.ts'
import { type ChunkStoreMachine, type ChunkStoreOptions, type StoreBounds, storeBoundsOf } from './options.ts'
import { Inventory } from './reading/inventory.ts'
import { Reads } from './reading/reads.ts'
import { Compactor } from './space/compactor.ts'
import { Space } from './space/space.ts'
import { Upkeep } from './space/upkeep.ts'
import type { CleanShutdownMarker } from './start/clean-shutdown-marker.ts'
import type { SurveyResult } from './start/survey.ts'
import { StoreState } from './state.ts'
import { CatalogueNotes } from './writing/catalogue-notes.ts'
import { DamagedCopies } from './writing/damaged-copies.ts'
import type { WriterDeps } from './writing/group.ts'
import { KnownCopies } from './writing/known-copies.ts'
import { Ledger } from './writing/ledger.ts'
import { Pins } from './writing/pins.ts'
import { ReplicationLog } from './writing/replication-log.ts'
import { Stages } from './writing/stages.ts'
import { Writer } from './writing/writer.ts'
import { Writes } from './writing/writes.ts'

/** What a start opened and found. */
export interface OpenedStore {
  disk: Disk
  catalogue: Catalogue
  files: ExtentFiles
  end: CleanShutdownMarker
  surveyed: SurveyResult
  /** Room on the disk. */
  space: { freeBytes: number; totalBytes: number }
  log: Log
  randomFill: (bytes: Buffer) => Buffer
}

export class Assembly {
  readonly log: Log
  readonly randomFill: (bytes: Buffer) => Buffer
  readonly catalogue: Catalogue
  readonly files: ExtentFiles
  readonly end: CleanShutdownMarker
  readonly extents: ExtentTable
  readonly faults: ExtentFaults
  readonly space: Space
  readonly rows: RowCache
  readonly ledger: Ledger
  readonly state: StoreState
  readonly history: ReplicationLog
  readonly notes: CatalogueNotes
  readonly inventory: Inventory
  readonly reads: Reads
  readonly damaged: DamagedCopies
  readonly writer: Writer
  readonly writes: Writes
  readonly stages: Stages
  readonly compactor: Compactor
  readonly hashing: Hashing
  readonly upkeep: Upkeep
  readonly #bounds: StoreBounds
  readonly #clock: Clock
  readonly #after: DelayedCall
  /** What the writer and its intents act on. */
  readonly #writing: WriterDeps
  readonly #known: KnownCopies
  readonly #buffers: BufferPool
  readonly #assertOpen = () => this.state.assertOpen()
  readonly #compactLater = () => this.upkeep.compactLater()

  constructor(options: ChunkStoreOptions, machine: Partial<ChunkStoreMachine>, opened: OpenedStore) {
    const { disk, surveyed } = opened
    this.log = opened.log
    this.randomFill = opened.randomFill
    this.catalogue = opened.catalogue
    this.files = opened.files
    this.end = opened.end
    this.#bounds = storeBoundsOf(options, opened.space.totalBytes)
    this.#clock = options.clock
    this.#after = machine.after ?? setTimeout
    this.extents = this.#makeExtents(surveyed)
    this.space = this.#makeSpace(options, opened)
    for (const extent of surveyed.extents) this.extents.add(extent)
    this.rows = new RowCache(this.catalogue)
    this.ledger = this.#makeLedger(surveyed)
    const { catalogue, extents, ledger, log } = this
    const [clock, assertOpen] = [this.#clock, this.#assertOpen]
    this.state = new StoreState({ catalogue, ledger, extents, disk, clock })
    this.faults = this.#makeFaults()
    this.history = new ReplicationLog({
      ...{ ledger, catalogue, clock, log },
      retentionMs: options.tombstoneRetentionMs,
    })
    this.#writing = {
      ...{ extents, ledger, clock, log },
      pins: new Pins(clock, { allForMs: options.pinnedAtFirstMs }),
      seal: new HeaderSeal(surveyed.info.secret),
    }
    this.writer = new Writer(this.#writing)
    this.reads = this.#makeReads()
    this.damaged = new DamagedCopies({
      ...{ ledger, log, reads: this.reads },
      store: { stage: (stage = {}) => this.stages.open(stage) },
    })
    this.#known = this.#makeKnownCopies()
    this.inventory = new Inventory({ rows: this.rows, catalogue, ledger, damaged: this.damaged, assertOpen })
    this.notes = new CatalogueNotes({ catalogue, ledger, assertOpen })
    this.writes = this.#makeWrites()
    this.compactor = this.#makeCompactor()
    this.#buffers = new BufferPool(Math.floor(this.#bounds.uploadMemoryBytes / bufferBytes), this.#after)
    this.hashing = (machine.hashing ?? ((memory) => new WorkerHashing(memory, options.hashThreadsMax)))(
      this.#buffers.memory,
    )
    this.stages = this.#makeStages()
    this.upkeep = this.#makeUpkeep(machine)
  }

  #makeExtents({ info }: SurveyResult): ExtentTable {
    const extents = new ExtentTable({
      files: this.files,
      capacityBytes: this.#bounds.extentBytes,
      stepBytes: this.#bounds.extentStepBytes,
      spareBytes: () => this.space.spareBytes,
      storeId: info.storeId,
      secret: info.secret,
      now: () => this.#clock.now(),
      nextGeneration: () => info.nextGeneration++,
      sequence: () => info.nextSequence,
      publish: (extent) => {
        this.ledger.touchExtent(extent)
        return this.ledger.flush()
      },
    })
    extents.sealed = (extent) => this.ledger.touchExtent(extent)
    extents.prepared = (fault) => this.faults.prepared(fault)
    extents.metForeign = (extent) => this.faults.metForeign(extent)
    this.files.failed = (extent) => this.faults.failed(extent)
    return extents
  }

  #makeSpace({ path }: ChunkStoreOptions, { disk, space }: OpenedStore): Space {
    const { lowWaterBytes, ballastBytes } = this.#bounds
    const { extents, log } = this
    return new Space({ disk, path, clock: this.#clock, log, extents, space, lowWaterBytes, ballastBytes })
  }

  #makeLedger({ info }: SurveyResult): Ledger {
    return new Ledger({
      info,
      catalogue: this.catalogue,
      rows: this.rows,
      log: this.log,
      extentOf: (run) => this.extents.get(run),
      failed: () => this.space.changed(),
      now: () => this.#clock.now(),
      monotonic: () => this.#clock.monotonic(),
      after: this.#after,
    })
  }

  #makeFaults(): ExtentFaults {
    const { extents, ledger, space, state, log } = this
    return new ExtentFaults({
      ...{ extents, ledger, space, state, log },
      compactLater: this.#compactLater,
      prepareLater: () => this.upkeep.prepareLater(),
    })
  }

  #makeReads(): Reads {
    return new Reads({
      rows: this.rows,
      extents: this.extents,
      seal: this.#writing.seal,
      cacheBytes: this.#bounds.cacheBytes,
      now: () => this.#clock.monotonic(),
      damaged: (entry, copy, fault) => this.damaged.setAside(entry, copy, fault),
      released: this.#compactLater,
      assertOpen: this.#assertOpen,
    })
  }

  #makeKnownCopies(): KnownCopies {
    return new KnownCopies({
      verify: async (entry, copy) => {
        for await (const _ of this.reads.verifyCopy(entry, copy)) this.#assertOpen()
      },
      damaged: (entry, copy, fault) => this.damaged.setAside(entry, copy, fault),
    })
  }

  #makeWrites(): Writes {
    const { writer, rows, catalogue, inventory, damaged, space } = this
    return new Writes({
      ...{ writer, rows, catalogue, inventory, damaged, space },
      writing: this.#writing,
      known: this.#known,
      reader: this.reads.reader,
      released: this.#compactLater,
      assertOpen: this.#assertOpen,
    })
  }

  #makeCompactor(): Compactor {
    const { extents, files, rows, ledger, writer, log, space } = this
    return new Compactor({
      ...{ extents, files, rows, ledger, writer, log, space },
      seal: this.#writing.seal,
      blobOf: (incarnation) => this.writes.blobOf(incarnation),
      moved: (_entry, old, copy, from) => this.reads.moved(old, copy, from),
      unreadable: (extent, { blocks }) => this.faults.setAside(extent, { blocks, unknown: 0 }),
      now: () => this.#clock.monotonic(),
      bounds: this.#bounds,
      pause: () => this.upkeep.yieldDevice(),
    })
  }

  #makeStages(): Stages {
    return new Stages({
      bounds: this.#bounds,
      clock: this.#clock,
      randomFill: this.randomFill,
      stage: {
        clock: this.#clock,
        buffers: this.#buffers,
        hashing: this.hashing,
        extents: this.extents,
        seal: this.#writing.seal,
        crc: new Crc32Combiner(),
        assertRoom: () => this.space.assertGoesOn(),
        commit: (stage, blob, body, options) => this.writes.commit(stage, blob, body, options),
        released: this.#compactLater,
      },
      freshen: () => this.space.freshen(),
      assertBegins: (expectedBytes) => this.#assertBegins(expectedBytes),
      assertOpen: this.#assertOpen,
    })
  }

  #assertBegins(expectedBytes: number | undefined): void {
    try {
      this.space.assertBegins(expectedBytes)
    } catch (error) {
      this.upkeep.compactLater() // a reader needs all that can be recovered
      throw error
    }
  }

  #makeUpkeep({ background = true }: Partial<ChunkStoreMachine>): Upkeep {
    const { extents, space, compactor, stages, reads, log } = this
    return new Upkeep({
      ...{ extents, space, compactor, stages, log, background },
      reader: reads.reader,
      bounds: this.#bounds,
      after: this.#after,
    })
  }
}
