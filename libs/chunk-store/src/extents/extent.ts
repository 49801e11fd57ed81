/**
 * One extent: what it holds, and the operations on its file. The first failure of a write or a sync
 * ends its writing; its content is still read and moved away.
 */
import type { BlobFault, QuarantineReason } from '@holdfast/blob-store'
import type { ExtentRow, ExtentState } from '../catalogue/rows.ts'
import type { FileRange } from '../disk/blocks.ts'
import type { DiskFile, PassOn } from '../disk/disk.ts'
import { didNotBegin, faultOfDisk } from '../disk/faults.ts'
import type { SpliceResult } from '../disk/splice-sender.ts'
import { firstRecordOffset } from '../format.ts'

/** The files of all extents: how one of them reaches its own. */
export interface FilesOfExtents {
  /** @throws BlobFault `UNAVAILABLE`: nothing has happened. */
  use<T>(extent: Extent, act: (file: DiskFile) => Promise<T>): Promise<T>
  opened(extent: Extent): DiskFile | undefined
  allocatedBytes(extent: Extent): Promise<number>
  failed(extent: Extent): void
}

export class Extent implements ExtentRow {
  readonly number: number
  generation = 0
  state: ExtentState = 'free'
  frontier = firstRecordOffset
  scanFrom = firstRecordOffset
  liveBytes = 0
  marks = 0
  suspect = false
  /** Length of the file. */
  fileBytes = 0
  /** Up to here, at least, its blocks are reserved, whether something is written there or not. */
  reservedBytes = 0
  /** Between its last record and the next write, after an unclean start. */
  skipped: FileRange | undefined
  /** Sealed before it was full: nothing was or will be written behind its frontier. */
  hasTail = false
  /** Ranges of its file whose blocks are known to be released because they are dead. */
  holeBytes = 0
  /** Live bytes at the last look for dead ranges. */
  lookedThroughAt: number | undefined
  /** Its live records are being moved away, or it is free and reserved. */
  draining = false
  /** Why nothing of its file is ever changed again; its readable content is served. */
  quarantine: QuarantineReason | undefined
  /** It may hold records that are not known. */
  gap = false
  /**
   * Compaction could not empty it: it is not tried for a while, or until more of it is deleted.
   */
  rest: { untilMs: number; liveBytes: number } | undefined
  /** Readers and uploads that need its content, live or not. */
  readonly holders = new Set<object>()
  /** Group records on their way into it: until they are settled the catalogue must call it open. */
  groupsInFlight = 0
  /** Full; sealed once no group is in flight. */
  full = false
  /** Why nothing more may be written. */
  failure: BlobFault | undefined
  readonly #files: FilesOfExtents
  #written = 0
  #synced = 0
  #syncing: Promise<void> | undefined
  #nextSync: Promise<void> | undefined
  /** Undefined once something changed. */
  #allocatedBytes: Promise<number> | undefined

  constructor(number: number, files: FilesOfExtents) {
    this.number = number
    this.#files = files
  }

  read(into: Uint8Array, position: number): Promise<number> {
    return this.#files.use(this, (file) => file.read(into, position))
  }

  /** Whether all of it was in memory, so that `into` is filled. */
  readCached(into: Uint8Array, position: number): boolean {
    return this.#files.opened(this)?.readCached?.(into, position) === into.length
  }

  /**
   * Sends the page cache's part of it to a socket; undefined when that is nothing, or not correct.
   */
  passOn(request: PassOn): SpliceResult | undefined {
    return this.#files.opened(this)?.passOn?.(request)
  }

  readUncached(into: Uint8Array, position: number): Promise<number> {
    return this.#files.use(this, (file) => file.readUncached(into, position))
  }

  /** Written and not synced since: its file should stay open. */
  get isUnsynced(): boolean {
    return this.#synced !== this.#written
  }

  /**
   * @throws the failure; the extent accepts nothing more after it. `UNAVAILABLE` when its file
   *   could not be opened: nothing happened.
   */
  async write(bytes: Uint8Array, position: number): Promise<void> {
    if (this.failure !== undefined) throw this.failure
    try {
      await this.#files.use(this, (file) => file.write(bytes, position))
      this.#written++
    } catch (error) {
      throw didNotBegin(error) ? error : this.#fail(error)
    } finally {
      this.#allocatedBytes = undefined
    }
  }

  /**
   * Makes durable what was written before the call. One sync serves all waiting callers; a failed
   * one is never repeated.
   */
  sync(): Promise<void> {
    if (this.failure !== undefined) return Promise.reject(this.failure)
    if (this.#syncing === undefined) return this.#sync()
    this.#nextSync ??= this.#syncing.then(
      () => this.#sync(),
      (error) => (this.failure === undefined ? this.#sync() : Promise.reject(error)),
    )
    return this.#nextSync
  }

  /** Like `sync`, but free when nothing was written since the last one. */
  ensureSynced(): Promise<void> {
    if (this.failure !== undefined) return Promise.reject(this.failure)
    return this.#synced === this.#written ? Promise.resolve() : this.sync()
  }

  /**
   * Makes the file that long, with reserved blocks for the unwritten part where possible.
   * @throws BlobFault `FULL`, which is harmless; any other is the failure of the extent.
   */
  async reserve(bytes: number): Promise<void> {
    const range = { from: this.reservedBytes, to: bytes }
    try {
      if (await this.#files.use(this, (file) => file.reserve(range))) this.reservedBytes = bytes
      this.fileBytes = Math.max(this.fileBytes, bytes)
    } catch (error) {
      const fault = faultOfDisk(error, `extent ${this.number}`)
      throw fault.code === 'FULL' || didNotBegin(fault) ? fault : this.#fail(error)
    } finally {
      this.#allocatedBytes = undefined
    }
  }

  /**
   * Frees the space behind the last record of an extent that was sealed early.
   * @throws BlobFault `IO`: retry.
   */
  async cutTail(): Promise<void> {
    try {
      await this.#files.use(this, (file) => file.truncate(this.frontier))
      this.fileBytes = this.frontier
      this.hasTail = false
    } catch (error) {
      throw faultOfDisk(error, `extent ${this.number}`)
    } finally {
      this.#allocatedBytes = undefined
    }
  }

  /**
   * Frees the blocks of skipped space.
   * @throws BlobFault `IO`: they stay reserved until it is emptied.
   */
  async discardSkipped(): Promise<void> {
    const range = this.skipped
    this.skipped = undefined
    if (range === undefined || range.from >= range.to) return
    try {
      await this.#files.use(this, (file) => file.discard(range))
    } catch (error) {
      throw faultOfDisk(error, `extent ${this.number}`)
    } finally {
      this.#allocatedBytes = undefined
    }
  }

  /**
   * Frees dead ranges; readers that began before may still be sending them.
   * @param ranges all of them, including those already freed.
   * @param goOn called from time to time; false: stop.
   * @returns `some` when it was stopped, or the disk lacked the one block that this needs for
   *   a moment: the rest may be freed later.
   * @throws BlobFault `IO`: some may have been freed; retry.
   */
  async freeDead(
    ranges: readonly FileRange[],
    goOn: () => Promise<boolean>,
  ): Promise<'all' | 'some' | 'not here'> {
    let bytes = 0
    let left = 0
    try {
      for (const [n, range] of ranges.entries()) {
        if (n % 64 === 63 && !(await goOn())) return 'some'
        const given = await this.#files.use(this, (file) => file.discard(range, { wasRead: true }))
        if (given === 'not here') return given
        if (given === 'not now') left++
        else bytes += range.to - range.from
        this.holeBytes = Math.max(this.holeBytes, bytes)
      }
      return left > 0 ? 'some' : 'all'
    } catch (error) {
      throw faultOfDisk(error, `extent ${this.number}`)
    } finally {
      this.#allocatedBytes = undefined
    }
  }

  /**
   * Bytes the file occupies on disk without holes; the disk is asked again once the file changed.
   */
  async allocatedBytes(): Promise<number> {
    const allocated = this.#allocatedBytes ?? this.#files.allocatedBytes(this)
    this.#allocatedBytes = allocated
    try {
      return await allocated
    } catch (error) {
      if (this.#allocatedBytes === allocated) this.#allocatedBytes = undefined
      throw faultOfDisk(error, `extent ${this.number}`)
    }
  }

  /** A new generation begins: the state of the old one is dropped. */
  begin(generation: number, scanFrom: number): void {
    this.generation = generation
    this.state = 'open'
    this.frontier = firstRecordOffset
    this.scanFrom = scanFrom
    this.liveBytes = 0
    this.marks = 0
    this.suspect = false
    this.draining = false
    this.rest = undefined
    this.full = false
    this.hasTail = false
    this.holeBytes = 0
    this.lookedThroughAt = undefined
    this.skipped = undefined
    this.failure = undefined
    this.quarantine = undefined
    this.gap = false
  }

  /**
   * Its file does not change any more. Its live data may be moved away, unless it is another
   * store's.
   */
  setAside(reason: QuarantineReason, { gap = false }: { gap?: boolean } = {}): void {
    this.quarantine ??= reason
    this.gap ||= gap
    if (reason !== 'foreign') this.suspect = true
  }

  #sync(): Promise<void> {
    this.#nextSync = undefined
    const written = this.#written
    this.#syncing = this.#files
      .use(this, (file) => file.sync())
      .then(
        () => {
          this.#synced = written
        },
        (error) => {
          throw didNotBegin(error) ? error : this.#fail(error)
        },
      )
      .finally(() => {
        this.#syncing = undefined
        this.#allocatedBytes = undefined
      })
    return this.#syncing
  }

  /** No operation failed, and none may begin that writes. */
  fail(error: Error): void {
    this.#fail(error)
  }

  #fail(error: unknown): BlobFault {
    this.failure ??= faultOfDisk(error, `extent ${this.number}`)
    this.suspect = true
    this.#files.failed(this)
    return this.failure
  }
}
