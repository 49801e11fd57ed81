/**
 * Locations and live bytes: rows, extents and totals change together in one turn, and the catalogue
 * follows with batches that each contain the state of one moment. Acknowledgements do not wait for
 * it: the content of a batch is already in synced group records. Everything that frees space waits
 * for a synced batch.
 */
import { BlobFault, type BlobInfo } from '@holdfast/blob-store'
import type { Catalogue, CatalogueChange } from '../catalogue/catalogue.ts'
import {
  blobKey,
  type Copy,
  catalogueVersion,
  encodeCopies,
  encodeExtentRow,
  encodeLogRow,
  extentKey,
  logKey,
  type RowCache,
  type RowEntry,
  tombstoneKey,
  uploadKey,
} from '../catalogue/rows.ts'
import type { Extent } from '../extents/extent.ts'
import { dataRecordBytes, type Run, recordBytesMax } from '../format.ts'
import type { Log } from '../log.ts'
import type { DelayedCall } from '../memory/buffer-pool.ts'
import { getU64, putU64 } from '../numbers.ts'

const storeKey = Buffer.from('mstore')
/** Rows that may wait for a catalogue that does not accept them; beyond it commits are refused. */
const unwrittenRowsMax = 50_000
const retryMs = 1000
/**
 * How far the catalogue may lag without a request for a batch: what a recovery additionally reads,
 * at a GB/s.
 */
const followMs = 20

/** Identity and counters of the store, in one row. */
export interface StoreInfo {
  /** 16 bytes. */
  storeId: Buffer
  /** 32 bytes; keys the seals of all headers. */
  secret: Buffer
  nextGeneration: number
  nextSequence: number
  liveBytes: number
  blobs: number
  /** 16 bytes, random: the life to which the log's sequences belong. */
  life: Buffer
  /** The sequence number of the last entry of the log. */
  logHead: number
  /**
   * The sequence number of the last entry that was dropped because of its age. Earlier positions
   * are unknown.
   */
  logDropped: number
}

export class Ledger {
  readonly info: StoreInfo
  readonly #catalogue: Catalogue
  readonly #rows: RowCache
  readonly #log: Log
  readonly #extentOf: (run: { extent: number; generation: number }) => Extent | undefined
  readonly #now: () => number
  readonly #monotonic: () => number
  readonly #failed: (error: Error) => void
  readonly #after: DelayedCall
  readonly #dirtyRows = new Set<RowEntry>()
  readonly #dirtyExtents = new Set<Extent>()
  readonly #dirtyKeys = new Map<string, CatalogueChange>()
  /** Changes of the running batch. */
  #batchKeys = new Map<string, CatalogueChange>()
  #turn: Promise<void> = Promise.resolve()
  #kicked = false
  #retry: NodeJS.Timeout | undefined
  #closed = false
  /** Entries up to this one survive any crash. */
  #logSynced: number
  /**
   * False while a start reads the existing state: that is not logged, and the log's readers compare
   * inventories then.
   */
  logsChanges = false
  /** The last batch failed. */
  broken: Error | undefined
  /** Monotonic time of the first failure in the current run of failed batches. */
  brokenSinceMs: number | undefined

  constructor(options: {
    info: StoreInfo
    catalogue: Catalogue
    rows: RowCache
    log: Log
    extentOf: (run: { extent: number; generation: number }) => Extent | undefined
    /** Unix milliseconds. */
    now: () => number
    /** Monotonic milliseconds. */
    monotonic: () => number
    /** The catalogue accepted no batch. */
    failed: (error: Error) => void
    after: DelayedCall
  }) {
    this.info = options.info
    this.#logSynced = options.info.logHead
    this.#now = options.now
    this.#monotonic = options.monotonic
    this.#catalogue = options.catalogue
    this.#rows = options.rows
    this.#log = options.log
    this.#extentOf = options.extentOf
    this.#failed = options.failed
    this.#after = options.after
  }

  /** @throws BlobFault `UNAVAILABLE` while the catalogue is too far behind. */
  assertKeepsUp(): void {
    if (this.#dirtyRows.size > unwrittenRowsMax)
      throw new BlobFault('UNAVAILABLE', `the catalogue is ${this.#dirtyRows.size} rows behind`, {
        cause: this.broken,
      })
  }

  addCopy(entry: RowEntry, copy: Copy): void {
    entry.copies = [...entry.copies, copy]
    this.#count(copy, 1)
    this.info.blobs++
    this.info.liveBytes += copy.size
    this.#noteUpload(entry, copy)
    this.#logChange(entry, copy, false)
    this.touchRow(entry)
  }

  removeCopy(entry: RowEntry, copy: Copy, deletedMs: number): void {
    entry.copies = entry.copies.filter((other) => other !== copy)
    this.#count(copy, -1)
    this.info.blobs--
    this.info.liveBytes -= copy.size
    this.note(uploadKey(copy.incarnation), undefined)
    const tombstone = Buffer.alloc(8)
    putU64(tombstone, deletedMs, 0)
    this.note(tombstoneKey(entry.id, copy.incarnation), tombstone)
    this.#logChange(entry, copy, true)
    this.touchRow(entry)
  }

  /** The same copy at another place. */
  replaceCopy(entry: RowEntry, old: Copy, copy: Copy): void {
    entry.copies = entry.copies.map((other) => (other === old ? copy : other))
    this.#count(old, -1)
    this.#count(copy, 1)
    this.#noteUpload(entry, copy)
    this.touchRow(entry)
  }

  touchRow(entry: RowEntry): void {
    if (this.#dirtyRows.has(entry)) return
    this.#dirtyRows.add(entry)
    entry.unwritten++
  }

  touchExtent(extent: Extent): void {
    this.#dirtyExtents.add(extent)
  }

  /** The extent's file is gone. */
  forgetExtent(extent: Extent): void {
    this.#dirtyExtents.delete(extent)
    this.note(extentKey(extent.number), undefined)
  }

  /** A separate row, with the next batch. Without a value it is deleted. */
  note(key: Buffer, value: Buffer | undefined): void {
    this.#dirtyKeys.set(key.toString('latin1'), { key, value })
  }

  /** What `note` was given and no batch has included yet. */
  noted(key: Buffer): CatalogueChange | undefined {
    return this.#dirtyKeys.get(key.toString('latin1')) ?? this.#batchKeys.get(key.toString('latin1'))
  }

  /** Makes the current log durable. @returns its last entry. */
  async syncLog(): Promise<number> {
    const { logHead } = this.info
    if (this.#logSynced < logHead) await this.flush()
    return logHead
  }

  /** Sequences restart: positions issued before are unknown from now on. */
  beginLife(life: Buffer): void {
    this.info.life = life
    this.info.logHead = 0
    this.info.logDropped = 0
    this.#logSynced = 0
  }

  /**
   * Lets the catalogue follow soon: with all groups of the next moment in one batch, because no
   * caller waits for it.
   */
  kick(): void {
    if (this.#kicked || this.#closed) return
    this.#kicked = true
    this.#after(() => this.#follow(), followMs)
  }

  #follow(): void {
    if (this.#closed) return
    this.#write(false).catch((error: Error) => {
      this.#log.error({ error: error.message }, 'the catalogue accepted no batch; it is retried')
      this.#retry ??= setTimeout(() => {
        this.#retry = undefined
        this.kick()
      }, retryMs).unref()
    })
  }

  /**
   * All changes until now are durable in the catalogue when it resolves.
   * @throws BlobFault `IO`, `FULL`.
   */
  flush(): Promise<void> {
    return this.#write(true)
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#retry)
    await this.#write(true)
  }

  #write(sync: boolean): Promise<void> {
    const written = this.#turn.then(() => {
      if (!sync) this.#kicked = false
      return this.#writeDirty(sync)
    })
    this.#turn = written.catch(() => {})
    return written
  }

  async #writeDirty(sync: boolean): Promise<void> {
    const rows = [...this.#dirtyRows]
    const extents = [...this.#dirtyExtents]
    const keys = [...this.#dirtyKeys]
    if (!sync && rows.length + extents.length + keys.length === 0) return
    this.#dirtyRows.clear()
    this.#dirtyExtents.clear()
    this.#batchKeys = new Map(keys)
    this.#dirtyKeys.clear()
    const { logHead, life } = this.info
    const changes: CatalogueChange[] = [{ key: storeKey, value: encodeStoreInfo(this.info) }]
    for (const entry of rows)
      changes.push({
        key: blobKey(entry.id),
        value: entry.copies.length === 0 ? undefined : encodeCopies(entry.copies),
      })
    for (const extent of extents)
      changes.push({ key: extentKey(extent.number), value: encodeExtentRow(extent) })
    for (const [, change] of keys) changes.push(change)
    try {
      await this.#catalogue.apply(changes, { sync })
      this.broken = undefined
      this.brokenSinceMs = undefined
      if (sync && life.equals(this.info.life)) this.#logSynced = Math.max(this.#logSynced, logHead)
    } catch (error) {
      this.broken = error as Error
      this.brokenSinceMs ??= this.#monotonic()
      this.#failed(error as Error)
      for (const entry of rows) this.touchRow(entry)
      for (const extent of extents) this.#dirtyExtents.add(extent)
      for (const [name, change] of keys) if (!this.#dirtyKeys.has(name)) this.#dirtyKeys.set(name, change)
      throw error
    } finally {
      this.#batchKeys = new Map()
      for (const entry of rows) entry.unwritten--
      this.#rows.trim()
    }
  }

  #count(copy: Copy, sign: 1 | -1): void {
    const home = this.#extentOf({ extent: copy.commitExtent, generation: copy.commitGeneration })
    if (home !== undefined) {
      home.liveBytes += sign * (copy.entryBytes + (copy.inlineOffset === undefined ? 0 : copy.size))
      this.#dirtyExtents.add(home)
    }
    for (const run of copy.runs) {
      const extent = this.#extentOf(run)
      if (extent === undefined) continue
      extent.liveBytes += sign * bytesOfRun(run)
      this.#dirtyExtents.add(extent)
    }
  }

  #noteUpload(entry: RowEntry, copy: Copy): void {
    this.note(uploadKey(copy.incarnation), entry.id)
  }

  #logChange(entry: RowEntry, copy: Copy, deleted: boolean): void {
    if (!this.logsChanges) return
    const { incarnation, size, crc32, createdMs, placementGroup } = copy
    const row = {
      deleted,
      id: entry.id,
      incarnation,
      size,
      crc32,
      createdMs,
      placementGroup,
      atMs: this.#now(),
    }
    this.note(logKey(this.info.life, ++this.info.logHead), encodeLogRow(row))
  }
}

/** Bytes that a run's records take in their extent. */
export function bytesOfRun(run: Run): number {
  const full = Math.floor(run.bytes / recordBytesMax)
  const rest = run.bytes - full * recordBytesMax
  return full * dataRecordBytes(recordBytesMax) + (rest > 0 ? dataRecordBytes(rest) : 0)
}

export function infoOfCopy(id: Buffer, copy: Copy): BlobInfo {
  return {
    id: Buffer.from(id),
    incarnation: Buffer.from(copy.incarnation),
    size: copy.size,
    crc32: copy.crc32,
    createdMs: copy.createdMs,
    placementGroup: copy.placementGroup,
    damaged: copy.quarantined ? true : undefined,
  }
}

export async function readStoreInfo(catalogue: Catalogue): Promise<StoreInfo | undefined> {
  const [row] = await catalogue.get([storeKey])
  if (row === undefined || row.readUInt16LE(0) !== catalogueVersion) return undefined
  return {
    storeId: Buffer.from(row.subarray(8, 24)),
    secret: Buffer.from(row.subarray(24, 56)),
    nextGeneration: getU64(row, 56),
    nextSequence: getU64(row, 64),
    liveBytes: getU64(row, 72),
    blobs: getU64(row, 80),
    life: Buffer.from(row.subarray(88, 104)),
    logHead: getU64(row, 104),
    logDropped: getU64(row, 112),
  }
}

function encodeStoreInfo(info: StoreInfo): Buffer {
  const row = Buffer.alloc(120)
  row.writeUInt16LE(catalogueVersion, 0)
  info.storeId.copy(row, 8)
  info.secret.copy(row, 24)
  putU64(row, info.nextGeneration, 56)
  putU64(row, info.nextSequence, 64)
  putU64(row, info.liveBytes, 72)
  putU64(row, info.blobs, 80)
  info.life.copy(row, 88)
  putU64(row, info.logHead, 104)
  putU64(row, info.logDropped, 112)
  return row
}
