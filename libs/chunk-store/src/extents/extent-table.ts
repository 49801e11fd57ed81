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
import { BlobFault } from '@holdfast/blob-store'
import { alignedBytes } from '@holdfast/kernel'
import { faultOfDisk } from '../disk/faults.ts'
import { encodeExtentHeader, firstRecordOffset } from '../format.ts'
import { bufferBytes } from '../memory/buffer-pool.ts'
import { alignUp } from '../numbers.ts'
import { Extent } from './extent.ts'
import { type ExtentFiles, extentFileName } from './extent-files.ts'

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
  /** A new generation, and the synced batch that records it. */
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
    extent.hasTail = extent.failure === undefined && extent.fileBytes - extent.frontier >= bufferBytes
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
      if (n > 0 || room < bufferBytes || extent.suspect || extent.quarantine !== undefined) {
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
      throw faultOfDisk(error, `opening extent ${extent.number}`)
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
          throw faultOfDisk(error, `making extent ${number}`)
        extent.state = 'sealed'
        extent.setAside('foreign')
        this.all.set(number, extent)
        this.metForeign(extent)
      }
    }
  }
}

function isFilled({ state, liveBytes, failure, quarantine }: Extent): boolean {
  return state !== 'free' && liveBytes > 0 && failure === undefined && quarantine === undefined
}
