/**
 * The extents: files of about 1 GiB, filled from front to back, one open at a time, recycled under a new generation.
 *
 *   open ──full──► sealed ──nothing live──► free ──► open again, next generation, or removed
 *
 * An extent is opened by writing its header with the new generation, syncing it, and syncing a catalogue batch that says
 * so, before any record goes in: recovery therefore knows every extent that may hold news. It is freed by a synced batch, once
 * nothing live, no reader and no upload is in it.
 */
import { join } from 'node:path'
import { BlobFault } from '@holdfast/blob-store'
import type { Disk, DiskFile } from './disk.ts'
import { encodeExtentHeader, firstRecordOffset } from './format.ts'
import { alignUp } from './numbers.ts'
import type { ExtentRow, ExtentState } from './rows.ts'
import { alignedBytes, slotBytes } from './slots.ts'

/** Extents whose files are open at once; each takes two descriptors. */
const openFilesMax = 96

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
  /** Its live records are being moved away. */
  draining = false
  /** Compaction could not empty it: it is left alone for a while, or until something else of it goes. */
  rest: { untilMs: number; liveBytes: number } | undefined
  /** Readers and uploads that need what stands in it, live or not. */
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

  readUncached(into: Uint8Array, position: number): Promise<number> {
    return this.#files.use(this, (file) => file.readUncached(into, position))
  }

  /** @throws the failure; the extent takes nothing more after it. */
  async write(bytes: Uint8Array, position: number): Promise<void> {
    if (this.failure !== undefined) throw this.failure
    try {
      await this.#files.use(this, (file) => file.write(bytes, position))
      this.#written++
    } catch (error) {
      throw this.#fail(error)
    } finally {
      this.#allocatedBytes = undefined
    }
  }

  /**
   * Makes durable what was written before the call. One sync serves all who wait; a failed one is never repeated.
   */
  sync(): Promise<void> {
    if (this.failure !== undefined) return Promise.reject(this.failure)
    if (this.#syncing === undefined) return this.#sync()
    this.#nextSync ??= this.#syncing.then(
      () => this.#sync(),
      () => Promise.reject(this.failure),
    )
    return this.#nextSync
  }

  /** Like `sync`, but free when nothing was written since the last one. */
  ensureSynced(): Promise<void> {
    if (this.failure !== undefined) return Promise.reject(this.failure)
    return this.#synced === this.#written ? Promise.resolve() : this.sync()
  }

  async resize(bytes: number): Promise<void> {
    try {
      await this.#files.use(this, (file) => file.resize(bytes))
      this.fileBytes = bytes
    } catch (error) {
      throw this.#fail(error)
    } finally {
      this.#allocatedBytes = undefined
    }
  }

  /** What the file occupies on disk, holes left out; the disk is asked again once the file changed. */
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

  /** A new generation begins: what was known of the old one goes. */
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
    this.failure = undefined
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
          throw this.#fail(error)
        },
      )
      .finally(() => {
        this.#syncing = undefined
        this.#allocatedBytes = undefined
      })
    return this.#syncing
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
  users: number
}

/** The files of the extents, of which a bounded number is open. */
export class ExtentFiles {
  readonly #disk: Disk
  readonly #directory: string
  readonly #open = new Map<Extent, OpenFile>()
  /** Told once an extent can take no more. */
  failed: (extent: Extent) => void = () => {}

  constructor(disk: Disk, directory: string) {
    this.#disk = disk
    this.#directory = directory
  }

  path(extent: { number: number }): string {
    return join(this.#directory, extentFileName(extent.number))
  }

  async create(extent: Extent): Promise<void> {
    const file = await this.#disk.open(this.path(extent), { create: true })
    await this.#disk.syncDirectory(this.#directory)
    this.#open.set(extent, { file: Promise.resolve(file), opened: file, users: 0 })
  }

  /** The file, for what is done with it in this very turn; undefined while it is not open. */
  opened(extent: Extent): DiskFile | undefined {
    return this.#open.get(extent)?.opened
  }

  async use<T>(extent: Extent, act: (file: DiskFile) => Promise<T>): Promise<T> {
    let held = this.#open.get(extent)
    if (held === undefined) {
      held = {
        file: this.#disk.open(this.path(extent), { create: false }),
        opened: undefined,
        users: 0,
      }
      held.file.catch(() => this.#open.delete(extent))
      this.#open.set(extent, held)
      this.#closeIdle()
    }
    held.users++
    try {
      held.opened ??= await held.file
      return await act(held.opened)
    } finally {
      held.users--
    }
  }

  allocatedBytes(extent: Extent): Promise<number> {
    return this.#disk.allocatedBytes(this.path(extent))
  }

  async remove(extent: Extent): Promise<void> {
    await this.#close(extent)
    await this.#disk.remove(this.path(extent))
    await this.#disk.syncDirectory(this.#directory)
  }

  /** Waits for what is being read or written. */
  async closeAll(): Promise<void> {
    for (const [extent, held] of [...this.#open]) {
      while (held.users > 0) await new Promise(setImmediate)
      await this.#close(extent)
    }
  }

  async #close(extent: Extent): Promise<void> {
    const held = this.#open.get(extent)
    this.#open.delete(extent)
    if (held !== undefined) await (await held.file).close()
  }

  #closeIdle(): void {
    if (this.#open.size <= openFilesMax) return
    for (const [extent, { users }] of this.#open)
      if (users === 0 && extent.state !== 'open') {
        void this.#close(extent).catch(() => {})
        return
      }
  }
}

export interface Place {
  extent: Extent
  offset: number
}

export interface ExtentTableOptions {
  files: ExtentFiles
  capacityBytes: number
  /** Files grow by this much at a time. */
  stepBytes: number
  storeId: Buffer
  secret: Buffer
  now: () => number
  /** Facts of a new generation, and the synced batch that makes it known. */
  nextGeneration: () => number
  sequence: () => number
  publish: (extent: Extent) => Promise<void>
}

export class ExtentTable {
  readonly all = new Map<number, Extent>()
  readonly #options: ExtentTableOptions
  current: Extent | undefined
  /** Bytes given to records so far. */
  placedBytes = 0
  #preparing: Promise<void> | undefined
  /** Told when an extent is full. */
  sealed: (extent: Extent) => void = () => {}

  constructor(options: ExtentTableOptions) {
    this.#options = options
  }

  /** Room for a record, if it can be had at once. */
  tryPlace(bytes: number): Place | undefined {
    const extent = this.current
    if (extent === undefined || extent.failure !== undefined) return undefined
    const offset = extent.frontier
    if (offset + bytes > extent.fileBytes) return undefined
    extent.frontier += bytes
    this.placedBytes += bytes
    return { extent, offset }
  }

  /** Room for a group record; to be answered by `groupEnded`. @throws BlobFault `FULL`, `IO`. */
  placeGroup(bytes: number): Promise<Place> {
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
  place(bytes: number): Promise<Place> {
    return this.#placeWhenReady(bytes, () => {})
  }

  async #placeWhenReady(bytes: number, placed: (place: Place) => void): Promise<Place> {
    const { capacityBytes } = this.#options
    if (bytes > capacityBytes - firstRecordOffset)
      throw new BlobFault('FULL', `a record of ${bytes} bytes does not fit an extent of ${capacityBytes}`)
    for (;;) {
      const place = this.tryPlace(bytes)
      if (place !== undefined) {
        placed(place)
        return place
      }
      this.#preparing ??= this.#prepare(bytes).finally(() => {
        this.#preparing = undefined
      })
      await this.#preparing
    }
  }

  get(run: { extent: number; generation: number }): Extent | undefined {
    const extent = this.all.get(run.extent)
    return extent?.generation === run.generation && extent.state !== 'free' ? extent : undefined
  }

  /** No more records go into this one. */
  seal(extent: Extent): void {
    if (extent.state !== 'open') return
    extent.full = true
    if (this.current === extent) this.current = undefined
    if (extent.groupsInFlight > 0) return
    extent.state = 'sealed'
    this.sealed(extent)
  }

  /**
   * After a start: goes on in the youngest open extent that has room; the others are full or of a lost generation.
   * @returns those that changed.
   */
  resume(): Extent[] {
    const open = [...this.all.values()]
      .filter(({ state }) => state === 'open' || state === 'paused')
      .sort((a, b) => b.generation - a.generation)
    for (const [n, extent] of open.entries()) {
      const frontier = extent.state === 'paused' ? extent.frontier : extent.scanFrom
      const room = this.#options.capacityBytes - frontier
      if (n > 0 || room < slotBytes || extent.suspect) {
        extent.state = 'sealed'
        continue
      }
      extent.state = 'open'
      extent.frontier = frontier
      extent.scanFrom = frontier
      this.current = extent
    }
    return open
  }

  add(extent: Extent): void {
    this.all.set(extent.number, extent)
  }

  async #prepare(bytes: number): Promise<void> {
    const { capacityBytes, stepBytes } = this.#options
    const extent = this.current
    if (extent !== undefined && extent.failure === undefined) {
      const needed = extent.frontier + bytes
      if (needed <= capacityBytes) return extent.resize(Math.min(capacityBytes, alignUp(needed, stepBytes)))
      this.seal(extent)
    }
    await this.#begin(bytes)
  }

  async #begin(bytes: number): Promise<void> {
    const { files, capacityBytes, stepBytes, nextGeneration, publish } = this.#options
    const extent = this.#takeFree() ?? this.#make()
    const fresh = !this.all.has(extent.number)
    try {
      if (fresh) await files.create(extent)
      extent.failure = undefined
      const size = Math.min(capacityBytes, alignUp(firstRecordOffset + bytes, stepBytes))
      if (extent.fileBytes < size) await extent.resize(size)
      extent.generation = nextGeneration()
      await this.writeHeader(extent)
      extent.begin(extent.generation, firstRecordOffset)
      this.all.set(extent.number, extent)
      await publish(extent)
      this.current = extent
    } catch (error) {
      // Nothing but a header may be in it. A file that was just made goes; another stays free.
      extent.state = 'free'
      if (fresh) {
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
    const facts = { number, generation, capacityBytes, createdMs: now(), firstSequence: sequence() }
    encodeExtentHeader({ ...facts, storeId, secret }, header)
    await extent.write(header, 0)
    await extent.sync()
  }

  #takeFree(): Extent | undefined {
    for (const extent of this.all.values()) if (extent.state === 'free' && !extent.draining) return extent
    return undefined
  }

  #make(): Extent {
    let number = 0
    while (this.all.has(number)) number++
    return new Extent(number, this.#options.files)
  }
}

export function extentFileName(number: number): string {
  return `${number.toString(16).padStart(8, '0')}.extent`
}

export function extentNumberOf(fileName: string): number | undefined {
  return /^[0-9a-f]{8}\.extent$/.test(fileName) ? Number.parseInt(fileName.slice(0, 8), 16) : undefined
}

/** The blob store's fault for an error of the disk. */
export function faultOf(error: unknown, doing: string): BlobFault {
  if (error instanceof BlobFault) return error
  const { code, message } = error as NodeJS.ErrnoException
  const full = code === 'ENOSPC' || code === 'EDQUOT'
  return new BlobFault(full ? 'FULL' : 'IO', `${doing}: ${message}`, { cause: error })
}
