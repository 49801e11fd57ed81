/**
 * The rows of the catalogue, and the rows in use in memory.
 *
 *   b ‖ blob id (48)      the copies of that blob: usually one
 *   u ‖ incarnation (16)  the blob id: data records carry the upload id alone, and so does a commit
 *                         that is repeated
 *   e ‖ extent (4, BE)    an extent's generation, state, live bytes, where a recovery scan starts
 *   m ‖ name              identity and counters of the store
 *   l ‖ life (16) ‖ sequence (8, BE)   replication log: copies that came and went in this life
 *   t ‖ blob id ‖ incarnation          when a copy was deleted, Unix milliseconds
 *   n ‖ name              notes of others, which live and die with the catalogue
 *
 * The catalogue can be rebuilt from the extents, so these layouts may change: `catalogueVersion`
 * then moves, and a store that finds another version rebuilds.
 */
import { type QuarantineReason, quarantineReasons } from '@holdfast/blob-store'
import { blobIdBytes, incarnationBytes, latin1 } from '@holdfast/kernel'
import type { Run } from '../format.ts'
import { Slab } from '../memory/slab.ts'
import { getU64, putU64 } from '../numbers.ts'
import type { Catalogue } from './catalogue.ts'

export const catalogueVersion = 2

/** A generation of an extent in which a commit entry stands. */
export interface ExtentGeneration {
  extent: number
  generation: number
}

export interface Copy {
  /** 16 bytes. */
  incarnation: Buffer
  size: number
  crc32: number
  createdMs: number
  placementGroup: number
  /** Bytes of it were found damaged: never the target of dedup, read up to the damage. */
  quarantined: boolean
  /**
   * The sequence number of the group record that holds its commit entry, and where that record is.
   */
  sequence: number
  commitExtent: number
  commitGeneration: number
  /** Where entries that this one replaced may still be read: a deletion must name them, too. */
  earlierHomes: readonly ExtentGeneration[]
  /** Bytes of the commit entry, part of that extent's live bytes. */
  entryBytes: number
  /** From the start of the extent; for a blob packed into its group record. */
  inlineOffset: number | undefined
  /** For a blob in data records; empty when inline. */
  runs: Run[]
  /** When it was last verified on disk, or written: monotonic milliseconds, lost with the row. */
  verifiedAt: number
}

export const neverVerified = Number.NEGATIVE_INFINITY

/** Few copies were ever moved. */
export const noHomes: readonly ExtentGeneration[] = []

const fixedCopyBytes = 80
const runBytes = 28
const homeBytes = 12

export function encodeCopies(copies: readonly Copy[]): Buffer {
  const bytes = copies.reduce(
    (sum, { runs, earlierHomes }) =>
      sum + fixedCopyBytes + runs.length * runBytes + earlierHomes.length * homeBytes,
    0,
  )
  const row = Buffer.alloc(bytes)
  let at = 0
  for (const copy of copies) {
    copy.incarnation.copy(row, at)
    putU64(row, copy.size, at + 16)
    putU64(row, copy.createdMs, at + 24)
    row.writeUInt32LE(copy.crc32, at + 32)
    row[at + 36] = copy.quarantined ? 1 : 0
    row[at + 37] = copy.inlineOffset === undefined ? 0 : 1
    row.writeUInt16LE(copy.earlierHomes.length, at + 38)
    putU64(row, copy.sequence, at + 40)
    putU64(row, copy.commitGeneration, at + 48)
    row.writeUInt32LE(copy.commitExtent, at + 56)
    row.writeUInt32LE(copy.entryBytes, at + 60)
    putU64(row, copy.inlineOffset ?? 0, at + 64)
    row.writeUInt32LE(copy.runs.length, at + 72)
    row.writeUInt32LE(copy.placementGroup, at + 76)
    at += fixedCopyBytes
    for (const run of copy.runs) {
      row.writeUInt32LE(run.extent, at)
      putU64(row, run.generation, at + 4)
      putU64(row, run.offset, at + 12)
      putU64(row, run.bytes, at + 20)
      at += runBytes
    }
    for (const home of copy.earlierHomes) {
      row.writeUInt32LE(home.extent, at)
      putU64(row, home.generation, at + 4)
      at += homeBytes
    }
  }
  return row
}

export function decodeCopies(row: Buffer): Copy[] {
  const copies: Copy[] = []
  for (let at = 0; at < row.length; ) {
    const start = at
    at += fixedCopyBytes
    const runs: Run[] = []
    for (let left = row.readUInt32LE(start + 72); left > 0; left--, at += runBytes)
      runs.push({
        extent: row.readUInt32LE(at),
        generation: getU64(row, at + 4),
        offset: getU64(row, at + 12),
        bytes: getU64(row, at + 20),
      })
    const earlierHomes: ExtentGeneration[] = []
    for (let left = row.readUInt16LE(start + 38); left > 0; left--, at += homeBytes)
      earlierHomes.push({ extent: row.readUInt32LE(at), generation: getU64(row, at + 4) })
    copies.push({
      incarnation: ownCopy(row.subarray(start, start + incarnationBytes)),
      size: getU64(row, start + 16),
      createdMs: getU64(row, start + 24),
      crc32: row.readUInt32LE(start + 32),
      placementGroup: row.readUInt32LE(start + 76),
      quarantined: row[start + 36] === 1,
      inlineOffset: row[start + 37] === 1 ? getU64(row, start + 64) : undefined,
      sequence: getU64(row, start + 40),
      commitGeneration: getU64(row, start + 48),
      commitExtent: row.readUInt32LE(start + 56),
      earlierHomes: earlierHomes.length === 0 ? noHomes : earlierHomes,
      entryBytes: row.readUInt32LE(start + 60),
      runs,
      verifiedAt: neverVerified,
    })
  }
  return copies
}

/** An entry of the replication log: 104 bytes. */
export interface LogRow {
  deleted: boolean
  id: Buffer
  incarnation: Buffer
  size: number
  crc32: number
  createdMs: number
  placementGroup: number
  /** Unix milliseconds at which it was recorded. */
  atMs: number
}

export function encodeLogRow(entry: LogRow): Buffer {
  const row = Buffer.alloc(104)
  row[0] = entry.deleted ? 1 : 0
  row.writeUInt32LE(entry.placementGroup, 4)
  entry.id.copy(row, 8)
  entry.incarnation.copy(row, 56)
  putU64(row, entry.size, 72)
  putU64(row, entry.createdMs, 80)
  putU64(row, entry.atMs, 88)
  row.writeUInt32LE(entry.crc32, 96)
  return row
}

export function decodeLogRow(row: Buffer): LogRow {
  return {
    deleted: row[0] === 1,
    placementGroup: row.readUInt32LE(4),
    id: Buffer.from(row.subarray(8, 56)),
    incarnation: Buffer.from(row.subarray(56, 72)),
    size: getU64(row, 72),
    createdMs: getU64(row, 80),
    atMs: getU64(row, 88),
    crc32: row.readUInt32LE(96),
  }
}

/** `paused`: open, but the store was closed cleanly, so nothing is behind its frontier. */
export type ExtentState = 'open' | 'sealed' | 'free' | 'paused'

export interface ExtentRow {
  number: number
  generation: number
  state: ExtentState
  /** Where the next record goes: nothing is written behind it. */
  frontier: number
  /** Recovery of an open extent scans for group records from here on. */
  scanFrom: number
  /** Bytes of live copies, their commit entries included. */
  liveBytes: number
  /** Deletion and void entries in it. */
  marks: number
  /** A write or sync of it failed. */
  suspect: boolean
  quarantine: QuarantineReason | undefined
  gap: boolean
}

const extentStates = ['open', 'sealed', 'free', 'paused'] as const
/** By number; 0: none. */
const quarantines = [undefined, ...quarantineReasons] as const

export function encodeExtentRow(extent: ExtentRow): Buffer {
  const row = Buffer.alloc(48)
  putU64(row, extent.generation, 0)
  putU64(row, extent.frontier, 8)
  putU64(row, extent.scanFrom, 16)
  putU64(row, extent.liveBytes, 24)
  putU64(row, extent.marks, 32)
  row[40] = extentStates.indexOf(extent.state)
  row[41] = extent.suspect ? 1 : 0
  row[42] = quarantines.indexOf(extent.quarantine)
  row[43] = extent.gap ? 1 : 0
  return row
}

export function decodeExtentRow(key: Buffer, row: Buffer): ExtentRow {
  return {
    number: key.readUInt32BE(1),
    generation: getU64(row, 0),
    frontier: getU64(row, 8),
    scanFrom: getU64(row, 16),
    liveBytes: getU64(row, 24),
    marks: getU64(row, 32),
    state: extentStates[row[40] ?? 0] ?? 'sealed',
    suspect: row[41] === 1,
    quarantine: quarantines[row[42] ?? 0],
    gap: row[43] === 1,
  }
}

export const blobPrefix = Buffer.from('b')
export const extentPrefix = Buffer.from('e')
export const logPrefix = Buffer.from('l')
export const tombstonePrefix = Buffer.from('t')

export function logKey(life: Uint8Array, sequence: number): Buffer {
  const key = Buffer.alloc(25)
  key[0] = 0x6c // l
  key.set(life, 1)
  key.writeBigUInt64BE(BigInt(sequence), 17)
  return key
}

export function logSequenceOf(key: Buffer): number {
  return Number(key.readBigUInt64BE(17))
}

/** All entries of a life. */
export function logPrefixOf(life: Uint8Array): Buffer {
  return logKey(life, 0).subarray(0, 17)
}

export function tombstoneKey(id: Uint8Array, incarnation: Uint8Array): Buffer {
  return Buffer.concat([tombstonePrefix, id, incarnation])
}

export function noteKey(name: string): Buffer {
  return Buffer.concat([Buffer.from('n'), Buffer.from(name, 'utf8')])
}

export function blobKey(id: Uint8Array): Buffer {
  const key = Buffer.allocUnsafe(1 + blobIdBytes)
  key[0] = 0x62 // b
  key.set(id, 1)
  return key
}

export function uploadKey(incarnation: Uint8Array): Buffer {
  const key = Buffer.allocUnsafe(1 + incarnationBytes)
  key[0] = 0x75 // u
  key.set(incarnation, 1)
  return key
}

export function extentKey(number: number): Buffer {
  const key = Buffer.allocUnsafe(5)
  key[0] = 0x65 // e
  key.writeUInt32BE(number, 1)
  return key
}

/** The state of a blob that is in use or was used recently. */
export interface RowEntry {
  /** Blob id. */
  readonly id: Buffer
  /** As durable: a copy exists once its commit is durable, until its deletion is. */
  copies: Copy[]
  /** Those whose deletion is being written. */
  deleting: readonly Copy[]
  users: number
  /** Batches with this row that the catalogue has not accepted yet. */
  unwritten: number
}

/** Most rows have no deletion under way. */
const noCopies: readonly Copy[] = []

/**
 * Unused rows that are kept, in two generations. A row is about a KiB, which the garbage collector
 * walks.
 */
const generationRows = 4_096
/** One blob id in use keeps the whole slab in memory. */
const idsSlabBytes = 64 * blobIdBytes

/**
 * The rows in use. While an entry is here it is authoritative, and the catalogue follows. So each
 * decision uses the entry, in one turn, and no stale answer of the catalogue can undo it.
 */
export class RowCache {
  readonly #catalogue: Catalogue
  /**
   * By blob id (latin1): recently used ones, and those of the previous generation, which may be
   * here as well.
   */
  #young = new Map<string, RowEntry>()
  #old = new Map<string, RowEntry>()
  #fullAt = generationRows
  readonly #ids = new Slab(idsSlabBytes)
  readonly #loading = new Map<string, { entry: Promise<RowEntry>; waiting: number }>()
  #wanted: { id: Buffer; resolve: (entry: RowEntry) => void; reject: (error: unknown) => void }[] = []

  constructor(catalogue: Catalogue) {
    this.#catalogue = catalogue
  }

  /** The blob's row, to be released after use. */
  acquire(id: Uint8Array): RowEntry | Promise<RowEntry> {
    const name = latin1(id)
    const entry = this.#young.get(name) ?? this.#old.get(name)
    if (entry === undefined) return this.#acquireLater(name, id)
    this.#young.set(name, entry)
    entry.users++
    return entry
  }

  release(entry: RowEntry): void {
    entry.users--
    this.trim()
  }

  #acquireLater(name: string, id: Uint8Array): Promise<RowEntry> {
    let loading = this.#loading.get(name)
    if (loading === undefined) {
      const entry = new Promise<RowEntry>((resolve, reject) => {
        if (this.#wanted.length === 0) setImmediate(() => void this.#load())
        this.#wanted.push({ id: this.#ids.copy(id), resolve, reject })
      })
      loading = { entry, waiting: 0 }
      this.#loading.set(name, loading)
    }
    loading.waiting++
    return loading.entry
  }

  /**
   * One request to the catalogue for all reads of this turn of the loop: uploads end in bursts,
   * because group commits release them together.
   */
  async #load(): Promise<void> {
    const wanted = this.#wanted
    this.#wanted = []
    try {
      const rows = await this.#catalogue.get(wanted.map(({ id }) => blobKey(id)))
      for (const [n, { id, resolve }] of wanted.entries()) {
        const name = latin1(id)
        const row = rows[n]
        const entry = {
          id,
          copies: row === undefined ? [] : decodeCopies(row),
          deleting: noCopies,
          users: this.#loading.get(name)?.waiting ?? 0,
          unwritten: 0,
        }
        this.#loading.delete(name)
        this.#young.set(name, entry)
        resolve(entry)
      }
    } catch (error) {
      for (const { id, reject } of wanted) {
        this.#loading.delete(latin1(id))
        reject(error)
      }
    }
  }

  /**
   * Drops the older generation when the younger is full; rows in use stay. A whole map at a time: a
   * map that loses its first entries one by one searches through all deleted ones for its first.
   */
  trim(): void {
    if (this.#young.size < this.#fullAt) return
    const dropped = this.#old
    this.#old = this.#young
    this.#young = new Map()
    for (const [name, entry] of dropped)
      if ((entry.users > 0 || entry.unwritten > 0) && !this.#old.has(name)) this.#young.set(name, entry)
    this.#fullAt = this.#young.size + generationRows
  }
}

/** Not from the shared pool, where 48 bytes that stay would keep 8 KiB of others' memory. */
function ownCopy(bytes: Uint8Array): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length)
  copy.set(bytes)
  return copy
}
