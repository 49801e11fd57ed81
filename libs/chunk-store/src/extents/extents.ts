/**
 * The extents: files of about 1 GiB, written from front to back, one open at a time, recycled under
 * a new generation.
 *
 *   open ──full──► sealed ──nothing live──► free ──► open again, next generation, or removed
 *
 * An extent is opened by writing its header with the new generation, syncing it, and syncing a
 * catalogue batch that says so, before any record is written: recovery therefore knows every extent
 * that may hold new records. It is freed by a synced batch, once it has nothing live, no reader and
 * no upload.
 */
import { constants } from 'node:os'
import { join } from 'node:path'
import { BlobFault, type QuarantineReason } from '@holdfast/blob-store'
import { isShortage } from '@holdfast/kernel'
import type { ExtentRow, ExtentState } from '../catalogue/rows.ts'
import type { FileRange } from '../disk/blocks.ts'
import type { Disk, DiskFile, PassOn } from '../disk/disk.ts'
import type { Passed } from '../disk/splice-sender.ts'
import { encodeExtentHeader, firstRecordOffset } from '../format.ts'
import { alignedBytes, slotBytes } from '../memory/slots.ts'
import { alignUp } from '../numbers.ts'

/**
 * Extents whose files are open at once, two descriptors each. Consecutive reads seldom need more
 * than a few.
 */
export const openExtentsMaxDefault = 96
/**
 * The open extent, those that compaction reads and writes, and some readers: with fewer each of
 * them would close what the next one needs.
 */
export const openExtentsMaxLeast = 8

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
  readonly #files: ExtentFiles
  #written = 0
  #synced = 0
  #syncing: Promise<void> | undefined
  #nextSync: Promise<void> | undefined
  /** Undefined once something changed. */
  #allocatedBytes: Promise<number> | undefined

  constructor(number: number, files: ExtentFiles) {
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
  passOn(request: PassOn): Passed | undefined {
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
      const fault = faultOf(error, `extent ${this.number}`)
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
      throw faultOf(error, `extent ${this.number}`)
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
      throw faultOf(error, `extent ${this.number}`)
    } finally {
      this.#allocatedBytes = undefined
    }
  }

  /**
   * Frees dead ranges; readers that began before may still be sending them.
   * @param ranges all of them, including those already freed.
   * @param goOn called now and then; false: stop.
   * @returns `some` when it was told to stop, or the disk lacked the one block that this needs for
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
      throw faultOf(error, `extent ${this.number}`)
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
      throw faultOf(error, `extent ${this.number}`)
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
    this.failure ??= faultOf(error, `extent ${this.number}`)
    this.suspect = true
    this.#files.failed(this)
    return this.failure
  }
}

interface OpenFile {
  file: Promise<DiskFile>
  /** The same once it is there. */
  opened: DiskFile | undefined
  /** Operations that hold it or wait for it. While there are any it is not closed. */
  users: number
  /** Set by a waiter for the last of them. */
  quiet: (() => void) | undefined
}

/**
 * The files of the extents, of which a bounded number is open. An operation holds its file from
 * before the open until its end, and only unused files are closed: no read or write ever meets a
 * descriptor that was closed, or reused for another file. When all are in use, an operation that
 * needs one more waits in turn. An operation never needs a second one, so all of them end.
 */
export class ExtentFiles {
  readonly #disk: Disk
  readonly #directory: string
  readonly #openMax: number
  readonly #open = new Map<Extent, OpenFile>()
  readonly #closing = new Set<Promise<void>>()
  /** Those that are open, being opened or being closed. */
  #taken = 0
  readonly #waiting: (() => void)[] = []
  /** Called once an extent can accept no more. */
  failed: (extent: Extent) => void = () => {}

  /** @param options.openMax extents whose files are open at once, `openExtentsMaxLeast` or more. */
  constructor(disk: Disk, directory: string, { openMax = openExtentsMaxDefault }: { openMax?: number } = {}) {
    this.#disk = disk
    this.#directory = directory
    this.#openMax = Math.max(openExtentsMaxLeast, openMax)
  }

  path(extent: { number: number }): string {
    return join(this.#directory, extentFileName(extent.number))
  }

  /** Of all files in the directory. @throws Error when it is away, which no list would say. */
  async names(): Promise<Set<string>> {
    await this.#disk.space(this.#directory)
    return new Set(await this.#disk.list(this.#directory))
  }

  /** For metrics. */
  get openCount(): number {
    return this.#taken
  }

  /** @throws BlobFault `UNAVAILABLE`; EEXIST when there is such a file. */
  async create(extent: Extent): Promise<void> {
    const file = await this.#openFile(extent, { create: true })
    try {
      await this.#disk.syncDirectory(this.#directory)
    } catch (error) {
      await this.#closeFile(file).catch(() => {})
      await this.#disk.remove(this.path(extent)).catch(() => {})
      throw error
    }
    const held = { file: Promise.resolve(file), opened: file, users: 0, quiet: undefined }
    this.#open.set(extent, held)
    this.#released(extent, held)
  }

  /** The file, for use in this very turn; undefined while it is not open. */
  opened(extent: Extent): DiskFile | undefined {
    return this.#open.get(extent)?.opened
  }

  /**
   * @throws BlobFault `UNAVAILABLE` when no descriptor is available for it: nothing has happened.
   */
  async use<T>(extent: Extent, act: (file: DiskFile) => Promise<T>): Promise<T> {
    const held = this.#open.get(extent) ?? this.#begin(extent)
    held.users++
    try {
      held.opened ??= await held.file
      return await act(held.opened)
    } finally {
      held.users--
      if (held.users === 0) this.#released(extent, held)
    }
  }

  allocatedBytes(extent: Extent): Promise<number> {
    return this.#disk.allocatedBytes(this.path(extent))
  }

  /** Waits for its current readers. */
  async remove(extent: Extent): Promise<void> {
    await this.#close(extent).catch(() => {}) // its descriptor is freed all the same
    await this.#disk.remove(this.path(extent))
    await this.#disk.syncDirectory(this.#directory)
  }

  /** Waits for running reads and writes. @throws the first failure, once all are closed. */
  async closeAll(): Promise<void> {
    for (const extent of [...this.#open.keys()]) void this.#close(extent).catch(() => {})
    const closed = await Promise.allSettled(this.#closing)
    this.#disk.close?.()
    for (const outcome of closed) if (outcome.status === 'rejected') throw outcome.reason
  }

  /** @returns a file without users; the caller becomes its user in this turn. */
  #begin(extent: Extent): OpenFile {
    const file = this.#openFile(extent, { create: false })
    const held: OpenFile = { file, opened: undefined, users: 0, quiet: undefined }
    file.catch(() => {
      if (this.#open.get(extent) === held) this.#open.delete(extent)
    })
    this.#open.set(extent, held)
    return held
  }

  async #openFile(extent: Extent, { create }: { create: boolean }): Promise<DiskFile> {
    await this.#takePlace()
    try {
      return await this.#openShort(this.path(extent), create)
    } catch (error) {
      this.#givePlace()
      throw error
    }
  }

  /** When the process or the system has no descriptor left, idle files here are closed first. */
  async #openShort(path: string, create: boolean): Promise<DiskFile> {
    const options = { create, exclusive: create }
    try {
      return await this.#disk.open(path, options)
    } catch (error) {
      if (!isShortage(error)) throw error
      while (this.#closeIdle());
      await Promise.all(this.#closing)
    }
    try {
      return await this.#disk.open(path, options)
    } catch (error) {
      if (!isShortage(error)) throw error
      throw new BlobFault('UNAVAILABLE', `${path}: ${(error as Error).message}`, { cause: error })
    }
  }

  async #takePlace(): Promise<void> {
    if (this.#taken < this.#openMax) {
      this.#taken++
      return
    }
    await new Promise<void>((resolve) => {
      this.#waiting.push(resolve)
      this.#closeIdle()
    })
  }

  /** It goes to the operation that waits longest. */
  #givePlace(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#taken--
    else next()
  }

  #released(extent: Extent, held: OpenFile): void {
    held.quiet?.()
    if (this.#waiting.length > this.#closing.size && this.#open.get(extent) === held)
      void this.#close(extent).catch(() => {})
  }

  /** No new operation finds it; it is closed once its last user has ended. */
  #close(extent: Extent): Promise<void> {
    const held = this.#open.get(extent)
    if (held === undefined) return Promise.resolve()
    this.#open.delete(extent)
    const closing = this.#closeHeld(held).finally(() => this.#closing.delete(closing))
    this.#closing.add(closing)
    return closing
  }

  async #closeHeld(held: OpenFile): Promise<void> {
    while (held.users > 0)
      await new Promise<void>((resolve) => {
        held.quiet = resolve
      })
    const file = held.opened ?? (await held.file.catch(() => undefined))
    if (file !== undefined) await this.#closeFile(file)
  }

  async #closeFile(file: DiskFile): Promise<void> {
    try {
      await file.close()
    } finally {
      this.#givePlace()
    }
  }

  /** An unused one: first one that accepts no writes. @returns false when there is none. */
  #closeIdle(): boolean {
    let found: Extent | undefined
    for (const [extent, { users }] of this.#open) {
      if (users > 0) continue
      found ??= extent
      if (extent.state === 'open' || extent.isUnsynced) continue
      found = extent
      break
    }
    if (found === undefined) return false
    void this.#close(found).catch(() => {})
    return true
  }
}

/**
 * The file could not be opened for lack of a descriptor: the disk was not asked, and a retry is
 * possible.
 */
function didNotBegin(error: unknown): boolean {
  return error instanceof BlobFault && error.code === 'UNAVAILABLE'
}

export interface ExtentPosition {
  extent: Extent
  offset: number
}

export interface ExtentTableOptions {
  files: ExtentFiles
  capacityBytes: number
  /** Files grow by this much at a time, … */
  stepBytes: number
  /** … unless the disk cannot spare that: then by what is needed. */
  spareBytes: () => number
  storeId: Buffer
  secret: Buffer
  now: () => number
  /** Facts of a new generation, and the synced batch that records it. */
  nextGeneration: () => number
  sequence: () => number
  publish: (extent: Extent) => Promise<void>
}

export class ExtentTable {
  readonly all = new Map<number, Extent>()
  readonly #options: ExtentTableOptions
  current: Extent | undefined
  /**
   * Bytes of the disk that were used so far: by files that grew, and by records in places without
   * reserved blocks.
   */
  takenBytes = 0
  #preparing: Promise<void> | undefined
  /** Called when an extent is full. */
  sealed: (extent: Extent) => void = () => {}
  /** Called when room for a record was made, or could not be made. */
  prepared: (fault: BlobFault | undefined) => void = () => {}
  /** Called when another store's file has the name of a new one. */
  metForeign: (extent: Extent) => void = () => {}

  constructor(options: ExtentTableOptions) {
    this.#options = options
  }

  /** Room for a record, if it is available at once. */
  tryPlace(bytes: number): ExtentPosition | undefined {
    const extent = this.current
    if (extent === undefined || extent.failure !== undefined) return undefined
    const offset = extent.frontier
    if (offset + bytes > extent.fileBytes) return undefined
    extent.frontier += bytes
    this.takenBytes += Math.max(0, extent.frontier - Math.max(offset, extent.reservedBytes))
    return { extent, offset }
  }

  /** Room for a group record; call `groupEnded` afterwards. @throws BlobFault `FULL`, `IO`. */
  placeGroup(bytes: number): Promise<ExtentPosition> {
    return this.#placeWhenReady(bytes, (place) => {
      place.extent.groupsInFlight++
    })
  }

  groupEnded(extent: Extent): void {
    extent.groupsInFlight--
    if (extent.full) this.seal(extent)
  }

  /**
   * Room for a record; grows the open extent or begins another.
   * @throws BlobFault `FULL`, `IO`.
   */
  place(bytes: number): Promise<ExtentPosition> {
    return this.#placeWhenReady(bytes, () => {})
  }

  async #placeWhenReady(bytes: number, placed: (place: ExtentPosition) => void): Promise<ExtentPosition> {
    const { capacityBytes } = this.#options
    if (bytes > capacityBytes - firstRecordOffset)
      throw new BlobFault('FULL', `a record of ${bytes} bytes does not fit an extent of ${capacityBytes}`)
    for (;;) {
      const place = this.tryPlace(bytes)
      if (place !== undefined) {
        placed(place)
        return place
      }
      await this.prepare(bytes)
    }
  }

  /** Makes room for a record, or waits for the running attempt. @throws BlobFault `FULL`, `IO`. */
  prepare(bytes: number): Promise<void> {
    this.#preparing ??= this.#prepare(bytes)
      .then(
        () => this.prepared(undefined),
        (error: BlobFault) => {
          this.prepared(error)
          throw error
        },
      )
      .finally(() => {
        this.#preparing = undefined
      })
    return this.#preparing
  }

  /** Waits for the running attempt to make room; its caller gets the fault. */
  async settled(): Promise<void> {
    await this.#preparing?.catch(() => {})
  }

  get(run: { extent: number; generation: number }): Extent | undefined {
    const extent = this.all.get(run.extent)
    return extent?.generation === run.generation && extent.state !== 'free' ? extent : undefined
  }

  /** No more records are placed in this one. */
  seal(extent: Extent): void {
    if (extent.state !== 'open') return
    extent.full = true
    if (this.current === extent) this.current = undefined
    if (extent.groupsInFlight > 0) return
    extent.hasTail = extent.failure === undefined && extent.fileBytes - extent.frontier >= slotBytes
    extent.state = 'sealed'
    this.sealed(extent)
  }

  /**
   * After a start: continues in the youngest open extent that has room; the others are full or of a
   * lost generation.
   * @returns those that changed.
   */
  resume(): Extent[] {
    const open = [...this.all.values()]
      .filter(({ state }) => state === 'open' || state === 'paused')
      .sort((a, b) => b.generation - a.generation)
    for (const [n, extent] of open.entries()) {
      const frontier = extent.state === 'paused' ? extent.frontier : extent.scanFrom
      const room = this.#options.capacityBytes - frontier
      if (n > 0 || room < slotBytes || extent.suspect || extent.quarantine !== undefined) {
        extent.state = 'sealed'
        continue
      }
      extent.state = 'open'
      extent.skipped = { from: extent.frontier, to: frontier }
      extent.frontier = frontier
      extent.scanFrom = frontier
      extent.reservedBytes = frontier
      this.current = extent
    }
    return open
  }

  /**
   * Extents whose files were removed fail. While such a file is open its content can be read, so it
   * is moved away, as from any failed extent; a restart would lose it.
   */
  async failRemoved(): Promise<void> {
    const filled = [...this.all.values()].filter(isFilled)
    const names = await this.#options.files.names()
    for (const extent of filled)
      if (isFilled(extent) && !names.has(extentFileName(extent.number)))
        extent.fail(new Error('its file was removed'))
  }

  add(extent: Extent): void {
    this.all.set(extent.number, extent)
  }

  async #prepare(bytes: number): Promise<void> {
    const { capacityBytes } = this.#options
    const extent = this.current
    if (extent !== undefined && extent.failure === undefined) {
      const needed = extent.frontier + bytes
      if (needed <= capacityBytes && (await this.#grows(extent, needed))) return
      this.seal(extent)
    }
    await this.#begin(bytes)
  }

  /**
   * @returns false when the disk has only reserved room left, and there is an emptied extent, which
   *   has its blocks.
   */
  async #grows(extent: Extent, needed: number): Promise<boolean> {
    const missing = needed - extent.fileBytes
    if (missing > 0 && missing > this.#options.spareBytes() && this.#takeFree() !== undefined) return false
    try {
      await this.#reserve(extent, needed)
      return true
    } catch (error) {
      if ((error as BlobFault).code !== 'FULL' || this.#takeFree() === undefined) throw error
      return false
    }
  }

  /**
   * Room up to the next step when the disk can spare it; otherwise, or when the disk turns out to
   * have less, up to what is needed.
   * @param holeBytes that an emptied extent's file lacks of its length.
   */
  async #reserve(extent: Extent, needed: number, holeBytes = 0): Promise<void> {
    const { capacityBytes, stepBytes, spareBytes } = this.#options
    const before = extent.fileBytes
    const step = Math.max(before, Math.min(capacityBytes, alignUp(needed, stepBytes)))
    const wanted = step - before + holeBytes > Math.max(0, spareBytes()) ? needed : step
    await extent.reserve(wanted).catch((error: BlobFault) => {
      if (error.code !== 'FULL' || wanted === needed) throw error
      return extent.reserve(needed)
    })
    this.takenBytes += Math.max(0, extent.reservedBytes - before)
    if (extent.reservedBytes >= before) this.takenBytes += holeBytes
  }

  /**
   * After a start: frees the blocks that were skipped, and reserves those of the rest of the open
   * extent's file, which may lack them.
   * @throws BlobFault `FULL`, `IO`. Nothing later relies on it.
   */
  async settleBlocks(): Promise<void> {
    const { current } = this
    if (current === undefined) return
    await current.discardSkipped()
    if (current.frontier < current.fileBytes) await current.reserve(current.fileBytes)
  }

  async #begin(bytes: number): Promise<void> {
    const { files, nextGeneration, publish } = this.#options
    const free = this.#takeFree()
    const extent = free ?? (await this.#create())
    extent.draining = true // no other operation reuses or removes it
    try {
      extent.failure = undefined
      extent.reservedBytes = 0
      const holeBytes = Math.max(0, extent.fileBytes - (await extent.allocatedBytes()))
      await this.#reserve(extent, firstRecordOffset + bytes, holeBytes)
      extent.generation = nextGeneration()
      await this.writeHeader(extent)
      extent.begin(extent.generation, firstRecordOffset)
      this.all.set(extent.number, extent)
      await publish(extent)
      this.current = extent
    } catch (error) {
      // It may hold only a header. A new file is removed; a reused one stays free.
      extent.state = 'free'
      extent.draining = false
      if (free === undefined) {
        this.all.delete(extent.number)
        await files.remove(extent).catch(() => {})
      }
      throw faultOf(error, `opening extent ${extent.number}`)
    }
  }

  /** Both copies of the header, with the extent's generation; durable when it resolves. */
  async writeHeader(extent: Extent): Promise<void> {
    const { capacityBytes, storeId, secret, now, sequence } = this.#options
    const header = alignedBytes(firstRecordOffset)
    const { number, generation } = extent
    const details = { number, generation, capacityBytes, createdMs: now(), firstSequence: sequence() }
    encodeExtentHeader({ ...details, storeId, secret }, header)
    await extent.write(header, 0)
    await extent.sync()
  }

  #takeFree(): Extent | undefined {
    for (const extent of this.all.values())
      if (extent.state === 'free' && !extent.draining && extent.quarantine === undefined) return extent
    return undefined
  }

  /**
   * A new file, with the lowest unused number.
   * @throws BlobFault `FULL`, `IO`, `UNAVAILABLE`.
   */
  async #create(): Promise<Extent> {
    const { files } = this.#options
    for (let number = 0; ; number++) {
      if (this.all.has(number)) continue
      const extent = new Extent(number, files)
      try {
        await files.create(extent)
        return extent
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST')
          throw faultOf(error, `making extent ${number}`)
        extent.state = 'sealed'
        extent.setAside('foreign')
        this.all.set(number, extent)
        this.metForeign(extent)
      }
    }
  }
}

export function extentFileName(number: number): string {
  return `${number.toString(16).padStart(8, '0')}.extent`
}

export function extentNumberOf(fileName: string): number | undefined {
  return /^[0-9a-f]{8}\.extent$/.test(fileName) ? Number.parseInt(fileName.slice(0, 8), 16) : undefined
}

const { EIO, ENODATA, EILSEQ, EBADMSG } = constants.errno
/** `EUCLEAN` and `EREMOTEIO`, which Node has no names for, are Linux's. */
const unreadableErrnos = new Set([EIO, ENODATA, EILSEQ, EBADMSG, 117, 121])

/** The disk cannot read what was written there; other places may be intact. */
export function isUnreadable(error: unknown): boolean {
  const { code, errno } = error as NodeJS.ErrnoException
  return code === 'EIO' || (errno !== undefined && unreadableErrnos.has(-errno))
}

const unopenableCodes = new Set(['EACCES', 'EPERM', 'EISDIR', 'ELOOP', 'ENOENT'])

/**
 * The file under its name cannot be opened, while others can: wrong permissions, a directory, a
 * dangling link.
 */
export function isUnopenable(error: unknown, path: string): boolean {
  const { code, path: of = path } = error as NodeJS.ErrnoException
  return isUnreadable(error) || (of === path && unopenableCodes.has(code ?? ''))
}

/**
 * The blob store's fault for an error of the disk. Node has no name for EDQUOT, its code is
 * `Unknown system error -122`.
 */
export function faultOf(error: unknown, doing: string): BlobFault {
  if (error instanceof BlobFault) return error
  const { code, errno, message } = error as NodeJS.ErrnoException
  const full = code === 'ENOSPC' || errno === -constants.errno.EDQUOT
  return new BlobFault(full ? 'FULL' : 'IO', `${doing}: ${message}`, { cause: error })
}

/** The same for a read: a shortage of the process is no fault of the disk. */
export function readFaultOf(error: unknown, doing: string): BlobFault {
  if (!isShortage(error)) return faultOf(error, doing)
  return new BlobFault('UNAVAILABLE', `${doing}: ${(error as Error).message}`, { cause: error })
}

function isFilled({ state, liveBytes, failure, quarantine }: Extent): boolean {
  return state !== 'free' && liveBytes > 0 && failure === undefined && quarantine === undefined
}
