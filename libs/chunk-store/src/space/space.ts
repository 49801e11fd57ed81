/**
 * How much can still be written. The free space is measured at most twice a second. Between two
 * measurements, what extents use is subtracted. Uploads end at a low-water mark, so that deletions,
 * compaction, the catalogue and other users of the disk have room. The ballast is released when
 * another program takes the last byte.
 */
import { join } from 'node:path'
import { BlobFault } from '@holdfast/blob-store'
import { alignedBytes, Ballast, type Clock } from '@holdfast/kernel'
import type { Disk } from '../disk/disk.ts'
import type { ExtentTable } from '../extents/extent-table.ts'
import type { Log } from '../log.ts'

const freshMs = 500

export interface SpaceOptions {
  disk: Disk
  /** The directory of the store. */
  path: string
  clock: Clock
  log: Log
  extents: ExtentTable
  /** Room on the disk, at the last measurement. */
  space: { freeBytes: number; totalBytes: number }
  lowWaterBytes: number
  ballastBytes: number
}

export class Space {
  readonly ballast: Ballast
  readonly #options: SpaceOptions
  /** The monotonic time of the measurement, and the bytes that extents had used by then. */
  #measured: { freeBytes: number; totalBytes: number; at: number; takenBytes: number }
  #measuring: Promise<void> | undefined

  constructor(options: SpaceOptions) {
    const { disk, path, clock, log, extents, space, ballastBytes } = options
    this.#options = options
    this.ballast = new Ballast({
      directory: path,
      bytes: ballastBytes,
      disk,
      zeros: alignedBytes,
      onFault: ({ message }) => log.warn({ error: message }, 'the ballast file could not be changed'),
      onReleased: () => log.warn({ bytes: ballastBytes }, 'the disk is full: the ballast was released'),
    })
    this.#measured = { ...space, at: clock.monotonic(), takenBytes: extents.takenBytes }
  }

  ballastDiskBytes(): Promise<number> {
    return this.#options.disk.allocatedBytes(this.ballast.path)
  }

  /** The file system as measured last, and what uploads leave free of it. */
  get disk(): { totalBytes: number; freeBytes: number; reserveBytes: number } {
    const { totalBytes, freeBytes } = this.#measured
    return { totalBytes, freeBytes, reserveBytes: this.#options.lowWaterBytes }
  }

  /** Bytes that could be written if nothing were reserved. */
  get room(): number {
    const { current, all } = this.#options.extents
    let bytes = this.#diskBytes
    if (current !== undefined) bytes += Math.max(0, current.reservedBytes - current.frontier)
    for (const { state, fileBytes, holeBytes } of all.values())
      if (state === 'free') bytes += fileBytes - holeBytes
    return bytes
  }

  /** What extents can grow by without using the reserve. */
  get spareBytes(): number {
    return this.#diskBytes - this.#options.lowWaterBytes
  }

  /** What uploads can use, as far as known. */
  get freeBytes(): number {
    return Math.max(0, this.#roomBut(this.#options.lowWaterBytes))
  }

  /**
   * What compaction may use for moving; the reserve for deletions and the catalogue is excluded.
   */
  get movableBytes(): number {
    return Math.max(0, this.room - 2 * this.#options.ballastBytes)
  }

  /** Uploads are refused, or soon will be. */
  get isPressing(): boolean {
    return this.freeBytes < this.#options.lowWaterBytes / 2
  }

  /** Free on the disk now. */
  async onDisk(): Promise<number> {
    const { disk, path } = this.#options
    return (await disk.space(join(path, 'extents'))).freeBytes
  }

  /** Resolves when the measurement is at most half a second old. */
  async freshen(): Promise<void> {
    if (this.#isOld) await this.measure()
  }

  /** @throws BlobFault `FULL` when a new upload of this many bytes does not fit. */
  assertBegins(expectedBytes: number | undefined): void {
    this.#assert(this.#options.lowWaterBytes, expectedBytes)
  }

  /** @throws BlobFault `FULL` when running uploads must end, too: below half of the mark. */
  assertGoesOn(): void {
    this.#assert(this.#options.lowWaterBytes / 2)
  }

  measure(): Promise<void> {
    const { disk, path, clock, extents, lowWaterBytes, ballastBytes } = this.#options
    const { takenBytes } = extents
    this.#measuring ??= disk
      .space(join(path, 'extents'))
      .then(({ freeBytes, totalBytes }) => {
        this.#measured = { freeBytes, totalBytes, at: clock.monotonic(), takenBytes }
        if (freeBytes > lowWaterBytes + 2 * ballastBytes) void this.ballast.take()
      })
      .finally(() => {
        this.#measuring = undefined
      })
    return this.#measuring
  }

  /** The measurement is too old to act on. */
  changed(): void {
    this.#measured = { ...this.#measured, at: Number.NEGATIVE_INFINITY }
    void this.measure().catch(() => {})
  }

  /** A write hit a full disk: known at once, for running uploads. */
  ranOut(): void {
    this.#measured = { ...this.#measured, freeBytes: 0 }
  }

  /** Waits for running operations. */
  async settled(): Promise<void> {
    await this.#measuring?.catch(() => {})
    await this.ballast.settled()
  }

  /** Free bytes on the disk, less what extents used since the measurement. */
  get #diskBytes(): number {
    const { freeBytes, takenBytes } = this.#measured
    return freeBytes - (this.#options.extents.takenBytes - takenBytes)
  }

  get #isOld(): boolean {
    return this.#options.clock.monotonic() - this.#measured.at > freshMs
  }

  /**
   * Blocks that extents already have are useless once others have used the reserve, because the
   * catalogue cannot be written then.
   */
  #roomBut(keptBytes: number): number {
    return this.#diskBytes < keptBytes / 2 ? 0 : this.room - keptBytes
  }

  #assert(keptBytes: number, expectedBytes = 0): void {
    if (this.#isOld) void this.measure().catch(() => {})
    const room = this.#roomBut(keptBytes)
    if (room <= 0 || expectedBytes > room)
      throw new BlobFault('FULL', `${expectedBytes} more bytes do not fit: ${Math.max(0, room)} are free`)
  }
}
