/**
 * The blob store on one machine's disk: extents hold the bytes, the catalogue holds their
 * locations. DESIGN.md describes the parts and the reasons; FORMAT.md the disk format.
 */
import {
  type BlobInfo,
  type BlobName,
  type BlobSender,
  type BlobStoreUsage,
  type DirectSends,
  type NodeStore,
  type PlacedStage,
  type PullAnswer,
  type PullQuery,
  type PutOptions,
  putSmall,
  type ReportsHealth,
  readBatch,
  type SmallBlob,
  type StageOptions,
  type StoreHealth,
  type WholeBytes,
  type WholeReads,
} from '@holdfast/blob-store'
import type { PartFailure } from '@holdfast/kernel'
import type { Assembly } from './assembly.ts'
import { countersOf, usageOf } from './figures.ts'
import type { ChunkStoreMachine, ChunkStoreOptions } from './options.ts'
import type { RecoveryFigures } from './start/recovery.ts'
import { shutDown } from './start/shutdown.ts'
import { startStore } from './start/start.ts'

export class ChunkStore implements NodeStore, WholeReads, DirectSends, ReportsHealth {
  readonly #parts: Assembly
  /** The findings of the start beyond the catalogue. */
  readonly recovered: RecoveryFigures
  #closing: Promise<void> | undefined

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
    const { parts, recovered } = await startStore(options, machine)
    return new ChunkStore(parts, recovered)
  }

  private constructor(parts: Assembly, recovered: RecoveryFigures) {
    this.#parts = parts
    this.recovered = recovered
  }

  stage(options: StageOptions = {}): Promise<PlacedStage> {
    return this.#parts.stages.open(options)
  }

  put(blob: SmallBlob, options: PutOptions): Promise<BlobInfo> {
    return putSmall(this, blob, options)
  }

  stat(blob: BlobName): Promise<BlobInfo | undefined> {
    return this.#parts.inventory.stat(blob)
  }

  read(
    blob: BlobName,
    range: { start: number; end: number },
    options: { signal?: AbortSignal } = {},
  ): AsyncGenerator<Uint8Array, void, undefined> {
    return this.#parts.reads.read(blob, range, options)
  }

  readWhole(blob: BlobName, range: { start: number; end: number }): Promise<WholeBytes | undefined> {
    return this.#parts.reads.readWhole(blob, range)
  }

  openSender(blob: BlobName): Promise<BlobSender | undefined> {
    return this.#parts.reads.openSender(blob)
  }

  verify(blob: BlobName, options: { signal?: AbortSignal } = {}): AsyncGenerator<number, void, undefined> {
    return this.#parts.reads.verify(blob, options)
  }

  pin(blob: BlobName, { ttlMs, whole = false }: { ttlMs: number; whole?: boolean }): Promise<boolean> {
    return this.#parts.writes.pin(blob, { ttlMs, whole })
  }

  committed(uploadId: Uint8Array): Promise<BlobInfo | undefined> {
    return this.#parts.writes.committed(uploadId)
  }

  find(id: Uint8Array): Promise<BlobInfo[]> {
    return this.#parts.inventory.find(id)
  }

  pull(request: PullQuery): Promise<PullAnswer> {
    this.#parts.state.assertOpen()
    return this.#parts.history.pull(request)
  }

  readBatch(copies: readonly BlobInfo[]): Promise<(Uint8Array | undefined)[]> {
    return readBatch(this, copies)
  }

  async deletedMs(blob: BlobName): Promise<number | undefined> {
    return (await this.stat(blob)) === undefined ? this.#parts.history.deletedMs(blob) : undefined
  }

  note(name: string): Promise<Uint8Array | undefined> {
    return this.#parts.notes.note(name)
  }

  setNote(name: string, value: Uint8Array | undefined): Promise<void> {
    return this.#parts.notes.setNote(name, value)
  }

  delete(blob: BlobName): Promise<'deleted' | 'pinned'> {
    return this.#parts.writes.delete(blob)
  }

  inventory(options: { groups?: readonly number[] } = {}): AsyncGenerator<BlobInfo, void, undefined> {
    return this.#parts.inventory.all(options.groups)
  }

  async usage(): Promise<BlobStoreUsage> {
    this.#parts.state.assertOpen()
    return usageOf(this.#parts)
  }

  get failure(): Error | undefined {
    return this.#parts.state.failure
  }

  get recovering(): boolean {
    return this.#parts.state.recovering
  }

  get failing(): PartFailure | undefined {
    return this.#parts.state.failing
  }

  get health(): StoreHealth {
    return this.#parts.state.health
  }

  /**
   * Frees and compacts what can be now, and waits for it.
   * @returns bytes that were freed, in extents or as whole extents.
   */
  async compact(): Promise<{ freedBytes: number; movedBytes: number }> {
    const { compactor, space, state, upkeep } = this.#parts
    state.assertOpen()
    await space.measure()
    upkeep.sealWhenShort()
    const { freedBytes, movedBytes } = compactor
    await compactor.settle()
    return {
      freedBytes: compactor.freedBytes - freedBytes,
      movedBytes: compactor.movedBytes - movedBytes,
    }
  }

  /** Drops expired entries and tombstones; otherwise done each hour. */
  trimHistory(): Promise<void> {
    return this.#parts.history.trim()
  }

  /** Finds extents whose files were removed, and fails them; otherwise done twice a minute. */
  findRemoved(): Promise<void> {
    return this.#parts.upkeep.failRemoved()
  }

  /** Drops uploads without activity. @returns how many. */
  sweep(): number {
    return this.#parts.stages.sweep()
  }

  /** Its file system, as measured by the last `usage`. */
  get disk(): { totalBytes: number; freeBytes: number; reserveBytes: number } {
    return this.#parts.space.disk
  }

  /** Counts since the start, for metrics. */
  counters() {
    return countersOf(this.#parts)
  }

  close(): Promise<void> {
    this.#parts.state.closed = true
    this.#closing ??= shutDown(this.#parts)
    return this.#closing
  }
}
