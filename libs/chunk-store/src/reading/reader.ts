/**
 * Reads with every byte verified. Bytes in the page cache are read in this thread, 256 KiB at a
 * time: that little stays in the processor's cache from the read to the checksum and on to the
 * socket. Other bytes are read by the thread pool; while the consumer has one buffer the next one
 * is being read. A reader has two buffers, of 1 MiB while such are available and of 256 KiB when
 * many read. A range reads the 64 KiB chunks it touches, and the record's header for their
 * checksums unless that is remembered.
 *
 * A reader holds the extents of its blob, so they are not reused while it reads, however slow it
 * is. Compaction switches an idle reader to the new place of the copy. A deleted blob stays
 * readable for readers that had begun.
 */

import { setImmediate } from 'node:timers/promises'
import { BlobFault, type BlobSender, type SentBytes, type WholeBytes } from '@holdfast/blob-store'
import { alignedBytes, asBuffer, hex } from '@holdfast/kernel'
import { crc32 } from '@node-rs/crc32'
import { LRUCache } from 'lru-cache'
import type { Copy, RowEntry } from '../catalogue/rows.ts'
import { readFaultOf } from '../disk/faults.ts'
import type { HeldRead } from '../disk/splice-sender.ts'
import type { Extent } from '../extents/extent.ts'
import type { ExtentTable } from '../extents/extent-table.ts'
import { belongsTo, matchesChecksums, readInline } from '../extents/scan.ts'
import {
  blockBytes,
  chunkBytes,
  dataRecordBytes,
  decodeRecord,
  type HeaderSeal,
  type Run,
  recordBytesMax,
} from '../format.ts'

/**
 * Payload bytes of one read: large while large buffers are available and the range is long, else
 * small.
 */
const readBytesSmall = 256 * 1024
const readBytesLarge = recordBytesMax
/**
 * Maximum number of large buffers, in use or idle. Two per reader, or one where one read is enough.
 */
const largeBuffersMax = 16
/**
 * Small ones kept for the next reader. Allocating memory for each read would cost more than the
 * read.
 */
const idleSmallMax = 64
/** Bytes that one reader takes from memory before others have their turn. */
const turnBytes = 1024 * 1024
/** Headers cached for ranges: 64 bytes of checksums and some 200 of keys each. */
const rememberedHeadersMax = 8192

/** One reader's claim on the extents of a copy. */
export class ExtentClaim {
  copy: Copy
  readonly #extents: ExtentTable
  readonly #released: () => void
  readonly #held = new Set<Extent>()
  #busy = 0
  #next: Copy | undefined
  #ended = false

  constructor(copy: Copy, extents: ExtentTable, released: () => void) {
    this.copy = copy
    this.#extents = extents
    this.#released = released
    this.#hold(copy)
  }

  /** Where it reads, or will once it is idle. */
  get target(): Copy {
    return this.#next ?? this.copy
  }

  begin(): void {
    this.#busy++
  }

  end(): void {
    this.#busy--
    this.#settle()
  }

  /**
   * The copy is at another place now; the old place is released once nothing is being read from it.
   */
  moveTo(copy: Copy): void {
    this.#next = copy
    this.#hold(copy)
    this.#settle()
  }

  release(): void {
    this.#ended = true
    this.#settle()
  }

  #settle(): void {
    if (this.#busy > 0) return
    if (this.#next !== undefined) this.copy = this.#next
    const moved = this.#next !== undefined
    this.#next = undefined
    if (this.#ended) this.#letGo(new Set())
    else if (moved) this.#letGo(this.#extentsOf(this.copy))
  }

  #hold(copy: Copy): void {
    for (const extent of this.#extentsOf(copy)) {
      this.#held.add(extent)
      extent.holders.add(this)
    }
  }

  #letGo(keep: Set<Extent>): void {
    for (const extent of this.#held) {
      if (keep.has(extent)) continue
      this.#held.delete(extent)
      extent.holders.delete(this)
    }
    this.#released()
  }

  #extentsOf(copy: Copy): Set<Extent> {
    const found = new Set<Extent>()
    const places =
      copy.inlineOffset === undefined
        ? copy.runs
        : [{ extent: copy.commitExtent, generation: copy.commitGeneration }]
    for (const place of places) {
      const extent = this.#extents.get(place)
      if (extent !== undefined) found.add(extent)
    }
    return found
  }
}

export interface BlobReaderDeps {
  extents: ExtentTable
  seal: HeaderSeal
  /** Bytes of frequently read small blobs. */
  cacheBytes: number
  /** Some bytes of this copy are damaged on disk. */
  damaged(entry: RowEntry, copy: Copy, error: BlobFault): void
  /** @throws BlobFault `CLOSED`. */
  assertOpen(): void
}

interface Record {
  extent: Extent
  generation: number
  /** Where the header is in the extent. */
  offset: number
  /** Where the payload begins in the blob. */
  position: number
  payloadBytes: number
}

/** A stretch of one record: whole chunks of it, and the requested part of them. */
interface Piece {
  record: Record
  /** In the record's payload; a multiple of 64 KiB. */
  from: number
  to: number
}

export class BlobReader {
  readonly #deps: BlobReaderDeps
  readonly #hot: LRUCache<Copy, Buffer>
  readonly #headers = new LRUCache<string, Uint32Array>({ max: rememberedHeadersMax })
  /** Where each run of a blob ends in it, so that a piece is found by binary search. */
  readonly #ends = new WeakMap<readonly Run[], Float64Array>()
  readonly #idleSmall: Buffer[] = []
  readonly #idleLarge: Buffer[] = []
  #largeMade = 0
  /** A borrowed buffer may be dropped by its holder: then another may be made. */
  readonly #collected = new FinalizationRegistry<void>(() => {
    this.#largeMade--
  })
  active = 0
  /** For metrics. */
  hotReads = 0
  damagedReads = 0

  constructor(deps: BlobReaderDeps) {
    this.#deps = deps
    this.#hot = new LRUCache({
      maxSize: Math.max(1, deps.cacheBytes),
      sizeCalculation: ({ length }) => length + 512,
    })
  }

  forget(copy: Copy): void {
    this.#hot.delete(copy)
  }

  /** A small blob from memory. */
  hot(copy: Copy): Buffer | undefined {
    const hot = this.#hot.get(copy)
    if (hot !== undefined) this.hotReads++
    return hot
  }

  /**
   * A blob packed into a group record, whole and verified. The caller must not change the bytes.
   */
  async inline(entry: RowEntry, lease: ExtentClaim): Promise<Buffer> {
    const hot = this.hot(lease.copy)
    if (hot !== undefined) return hot
    lease.begin()
    try {
      const { copy } = lease
      const bytes = await this.#readInline(entry, copy)
      this.#hot.set(copy, bytes)
      return bytes
    } finally {
      lease.end()
    }
  }

  /**
   * A range within one record of a blob in data records, where its chunks are in memory; undefined:
   * use `stream`.
   */
  atHand(
    entry: RowEntry,
    copy: Copy,
    { start, end }: { start: number; end: number },
  ): WholeBytes | undefined {
    if (start === end || end - start > readBytesSmall) return undefined
    const record = this.#recordAt(entry, copy, start)
    const piece = pieceOf(record, start, end, readBytesSmall)
    if (record.position + piece.to < end) return undefined
    const filled = this.#cached(copy, piece)
    if (filled === undefined) return undefined
    return this.#lent(filled.buffer, filled.bytes.subarray(start - filled.position, end - filled.position))
  }

  /**
   * The second path from the page cache: to a socket, without a copy.
   * @param released after the lease.
   */
  sender(entry: RowEntry, lease: ExtentClaim, released: () => void): BlobSender {
    this.active++
    let ended = false
    return {
      send: (range, socket) => {
        this.#deps.assertOpen()
        return this.#send(entry, lease.copy, range, socket)
      },
      read: (range, { signal } = {}) => this.stream(entry, lease, range, signal),
      release: () => {
        if (ended) return
        ended = true
        this.active--
        lease.release()
        released()
      },
    }
  }

  #send(
    entry: RowEntry,
    copy: Copy,
    { start, end }: { start: number; end: number },
    socket: number,
  ): SentBytes | undefined {
    const record = this.#recordAt(entry, copy, start)
    const buffer = this.#takeBuffer(end - start)
    let isLent = false
    try {
      const { from, to } = pieceOf(record, start, end, buffer.length - blockBytes)
      const skipped = start - record.position - from
      const wanted = Math.min(end - record.position, to) - from - skipped
      const checksums = this.#checksumsAtHand(copy, record, buffer)
      const check = (read: HeldRead) => {
        for (let at = from; at < to; at += chunkBytes)
          if (crc32(read(Math.min(chunkBytes, to - at))) !== checksums?.[at / chunkBytes]) return false
        return true
      }
      const place = { position: record.offset + blockBytes + from, length: to - from }
      const passed =
        checksums && record.extent.passOn({ ...place, skipped, wanted, socket, check, into: buffer })
      if (passed === undefined || passed.rest === 0) return passed && { count: passed.count, rest: undefined }
      isLent = true
      return { count: passed.count, rest: this.#lent(buffer, buffer.subarray(0, passed.rest)) }
    } finally {
      if (!isLent) this.#giveBuffer(buffer)
    }
  }

  /** @param block memory for the header. */
  #checksumsAtHand(copy: Copy, record: Record, block: Buffer): Uint32Array | undefined {
    const name = recordKey(record)
    const known = this.#headers.get(name)
    if (known !== undefined) return known
    const header = block.subarray(0, blockBytes)
    if (!record.extent.readCached(header, record.offset)) return undefined
    const checksums = this.#checksumsOf(header, copy, record)
    if (checksums !== undefined) this.#headers.set(name, checksums)
    return checksums
  }

  #lent(buffer: Buffer, bytes: Buffer): WholeBytes {
    let lent: Buffer | undefined = buffer
    return {
      bytes,
      release: () => {
        if (lent !== undefined) this.#giveBuffer(lent)
        lent = undefined
      },
    }
  }

  /** The bytes of a range of a blob in data records. */
  async *stream(
    entry: RowEntry,
    lease: ExtentClaim,
    { start, end }: { start: number; end: number },
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    if (start === end) return
    this.active++
    let position = start
    let turn = 0
    let reading: FilledBuffer | Promise<FilledBuffer> | undefined
    const readNext = () => {
      const record = this.#recordAt(entry, lease.copy, position)
      const cached = this.#cached(lease.copy, pieceOf(record, position, end, readBytesSmall))
      if (cached !== undefined) {
        position = cached.position + cached.bytes.length
        return cached
      }
      const buffer = this.#takeBuffer(end - position)
      const piece = pieceOf(record, position, end, buffer.length - blockBytes)
      position = record.position + piece.to
      const filled = this.#fill(entry, lease, piece, buffer)
      filled.catch(() => {}) // the consumer sees it, unless it is gone
      return filled
    }
    try {
      while (position < end || reading !== undefined) {
        const next: FilledBuffer | Promise<FilledBuffer> = reading ?? readNext()
        reading = undefined
        const waits = next instanceof Promise
        const { buffer, bytes, position: first } = waits ? await next : next
        try {
          if (waits && position < end) reading = readNext()
          this.#deps.assertOpen()
          if (signal?.aborted) throw new BlobFault('CANCELLED', 'the reader gave up')
          yield bytes.subarray(Math.max(0, start - first), Math.min(bytes.length, end - first))
        } finally {
          this.#giveBuffer(buffer)
        }
        turn = waits ? 0 : turn + bytes.length
        if (turn < turnBytes || position >= end) continue
        turn = 0
        await setImmediate()
      }
    } finally {
      this.active--
      void Promise.resolve(reading).then(
        (unused) => unused && this.#giveBuffer(unused.buffer),
        () => {},
      )
    }
  }

  async #readInline(entry: RowEntry, copy: Copy): Promise<Buffer> {
    if (copy.size === 0) return Buffer.alloc(0)
    const extent = this.#deps.extents.get({
      extent: copy.commitExtent,
      generation: copy.commitGeneration,
    })
    const offset = copy.inlineOffset as number
    if (extent === undefined) throw this.#damaged(entry, copy, 'its extent is gone')
    let bytes: Buffer | undefined
    try {
      bytes = await readInline(extent, offset, copy)
    } catch (error) {
      throw this.#faultOfCopy(error, { entry, copy, extent })
    }
    if (bytes !== undefined) return bytes
    throw this.#damaged(entry, copy, `extent ${extent.number} at ${offset}`)
  }

  #recordAt(entry: RowEntry, copy: Copy, position: number): Record {
    const { runs } = copy
    const ends = runs.length > 1 ? this.#endsOf(runs) : undefined
    const n = ends === undefined ? 0 : indexOfEnd(ends, position)
    const run = runs[n]
    const first = n === 0 || ends === undefined ? 0 : (ends[n - 1] as number)
    const extent = run && position < first + run.bytes ? this.#deps.extents.get(run) : undefined
    if (run === undefined || extent === undefined)
      throw this.#damaged(entry, copy, `no record for byte ${position}`)
    const index = Math.floor((position - first) / recordBytesMax)
    return {
      extent,
      generation: run.generation,
      offset: run.offset + index * dataRecordBytes(recordBytesMax),
      position: first + index * recordBytesMax,
      payloadBytes: Math.min(recordBytesMax, run.bytes - index * recordBytesMax),
    }
  }

  /** Made at the first read of it, and dropped with the row. */
  #endsOf(runs: readonly Run[]): Float64Array {
    const known = this.#ends.get(runs)
    if (known !== undefined) return known
    const ends = new Float64Array(runs.length)
    let end = 0
    for (const [n, run] of runs.entries()) {
      end += run.bytes
      ends[n] = end
    }
    this.#ends.set(runs, ends)
    return ends
  }

  async #fill(entry: RowEntry, lease: ExtentClaim, piece: Piece, buffer: Buffer): Promise<FilledBuffer> {
    const { copy } = lease
    lease.begin()
    try {
      const bytes =
        (await this.#readPiece(copy, piece, buffer, false)) ??
        (await this.#readPiece(copy, piece, buffer, true))
      if (bytes !== undefined) return { buffer, bytes, position: piece.record.position + piece.from }
    } catch (error) {
      this.#giveBuffer(buffer)
      throw this.#faultOfCopy(error, { entry, copy, extent: piece.record.extent })
    } finally {
      lease.end()
    }
    this.#giveBuffer(buffer)
    const { extent, offset } = piece.record
    throw this.#damaged(entry, copy, `extent ${extent.number} at ${offset}`)
  }

  /**
   * The piece, verified, when all of it is in memory; a mismatch is left to the path that can
   * bypass every cache.
   */
  #cached(copy: Copy, piece: Piece): FilledBuffer | undefined {
    const { record, from } = piece
    const buffer = this.#takeBuffer(readBytesSmall)
    const known = this.#headers.get(recordKey(record))
    const isThere = readsOf(piece, buffer, known).every(([into, at]) => record.extent.readCached(into, at))
    const bytes = isThere ? this.#checked(copy, piece, buffer, known) : undefined
    if (bytes !== undefined) return { buffer, bytes, position: record.position + from }
    this.#giveBuffer(buffer)
    return undefined
  }

  /** The payload bytes of the piece, verified; undefined when they do not match. */
  async #readPiece(copy: Copy, piece: Piece, buffer: Buffer, uncached: boolean): Promise<Buffer | undefined> {
    const { extent } = piece.record
    const known = uncached ? undefined : this.#headers.get(recordKey(piece.record))
    const reads = readsOf(piece, buffer, known).map(([into, at]) =>
      uncached ? readUncached(extent, into, at) : extent.read(into, at),
    )
    await Promise.all(reads)
    return this.#checked(copy, piece, buffer, known)
  }

  /** @param known the record's checksums; undefined: its header was read, too. */
  #checked(
    copy: Copy,
    { record, from, to }: Piece,
    buffer: Buffer,
    known: Uint32Array | undefined,
  ): Buffer | undefined {
    const payload = buffer.subarray(blockBytes, blockBytes + to - from)
    const checksums = known ?? this.#checksumsOf(buffer.subarray(0, blockBytes), copy, record)
    if (checksums === undefined || !matchesChecksums(payload, checksums, from)) return undefined
    if (known === undefined && to - from < record.payloadBytes)
      this.#headers.set(recordKey(record), checksums)
    return payload
  }

  #checksumsOf(block: Buffer, copy: Copy, { extent, generation, offset, position, payloadBytes }: Record) {
    const place = { extent: extent.number, generation, offset }
    const header = decodeRecord(block, place, this.#deps.seal)
    if (header === undefined || !belongsTo(header, copy.incarnation, position, payloadBytes)) return undefined
    return header.checksums
  }

  /**
   * What cannot be read now may be readable later; a missing file will not return, so that is
   * damage.
   */
  #faultOfCopy(
    error: unknown,
    { entry, copy, extent }: { entry: RowEntry; copy: Copy; extent: Extent },
  ): BlobFault {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT')
      return this.#damaged(entry, copy, `the file of extent ${extent.number} is missing`)
    return readFaultOf(error, `reading extent ${extent.number}`)
  }

  #damaged(entry: RowEntry, copy: Copy, where: string): BlobFault {
    this.damagedReads++
    const fault = new BlobFault('CORRUPT', `${hex(entry.id)} is damaged: ${where}`)
    this.#deps.damaged(entry, copy, fault)
    return fault
  }

  /** For a header block and the part of this many bytes that one read covers. */
  #takeBuffer(wanted: number): Buffer {
    if (wanted > readBytesSmall) {
      const idle = this.#idleLarge.pop()
      if (idle !== undefined) return idle
      if (this.#largeMade < largeBuffersMax) {
        this.#largeMade++
        const buffer = Buffer.allocUnsafeSlow(blockBytes + readBytesLarge)
        this.#collected.register(buffer.buffer, undefined)
        return buffer
      }
    }
    return this.#idleSmall.pop() ?? Buffer.allocUnsafeSlow(blockBytes + readBytesSmall)
  }

  #giveBuffer(buffer: Buffer): void {
    if (buffer.length > blockBytes + readBytesSmall) this.#idleLarge.push(buffer)
    else if (this.#idleSmall.length < idleSmallMax) this.#idleSmall.push(buffer)
  }
}

/** The index of the first end behind the position. */
function indexOfEnd(ends: Float64Array, position: number): number {
  let low = 0
  let high = ends.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((ends[middle] as number) > position) high = middle
    else low = middle + 1
  }
  return low
}

function pieceOf(record: Record, position: number, end: number, size: number): Piece {
  const from = Math.floor((position - record.position) / chunkBytes) * chunkBytes
  const wanted = Math.min(record.payloadBytes, end - record.position)
  const to = Math.min(record.payloadBytes, from + size, Math.ceil(wanted / chunkBytes) * chunkBytes)
  return { record, from, to }
}

/** The positions of header and payload in the buffer, read together where they are adjacent. */
function readsOf(
  { record, from, to }: Piece,
  buffer: Buffer,
  known: Uint32Array | undefined,
): [into: Buffer, at: number][] {
  const payloadAt = record.offset + blockBytes + from
  const payload = buffer.subarray(blockBytes, blockBytes + to - from)
  if (known !== undefined) return [[payload, payloadAt]]
  if (from === 0) return [[buffer.subarray(0, blockBytes + to), record.offset]]
  return [
    [buffer.subarray(0, blockBytes), record.offset],
    [payload, payloadAt],
  ]
}

function recordKey({ extent, generation, offset }: Record): string {
  return `${extent.number}/${generation}/${offset}`
}

interface FilledBuffer {
  buffer: Buffer
  bytes: Buffer
  /** Where its first byte is in the blob. */
  position: number
}

/** Into memory of any alignment. */
async function readUncached(extent: Extent, into: Buffer, at: number): Promise<number> {
  const aligned = alignedBytes(Math.ceil(into.length / blockBytes) * blockBytes)
  const count = await extent.readUncached(aligned, at)
  asBuffer(aligned).copy(into, 0, 0, into.length)
  return Math.min(count, into.length)
}
