/**
 * Checks whether a copy is whole on disk: reads it past the page cache, record by record, and
 * compares it with its checksums. For the scrubber, and for uploads that would be dropped in favour
 * of the copy.
 *
 * A copy that compaction moves meanwhile is followed to its new place between two records.
 */

import { BlobFault } from '@holdfast/blob-store'
import { alignedBytes, hex } from '@holdfast/kernel'
import { crc32 } from '@node-rs/crc32'
import type { Copy, RowEntry } from '../catalogue/rows.ts'
import { readFaultOf } from '../disk/faults.ts'
import type { Extent } from '../extents/extent.ts'
import type { ExtentTable } from '../extents/extent-table.ts'
import { belongsTo, matchesChecksums } from '../extents/scan.ts'
import { blockBytes, dataRecordBytes, decodeRecord, type HeaderSeal, recordBytesMax } from '../format.ts'
import { bufferBytes } from '../memory/buffer-pool.ts'
import type { ExtentClaim } from './reader.ts'

/** Reads of one place before it counts as damaged: a transfer error is gone at the second read. */
const tries = 2
/**
 * Buffers of 1 MiB that are kept: for the scrubber, and for concurrent verifications of uploads.
 */
const idleMax = 3

export interface VerifierDeps {
  extents: Pick<ExtentTable, 'get'>
  seal: HeaderSeal
  /** Monotonic milliseconds. */
  now(): number
  damaged(entry: RowEntry, copy: Copy, error: BlobFault): void
  /** @throws BlobFault `CLOSED`. */
  assertOpen(): void
}

/** A record of a copy. */
interface RecordLocation {
  extent: Extent
  generation: number
  /** Where the header is in the extent. */
  offset: number
  /** Where the payload begins in the blob. */
  position: number
  payloadBytes: number
}

export class Verifier {
  readonly #deps: VerifierDeps
  readonly #idle: Buffer[] = []
  /** For metrics. */
  verifiedBytes = 0

  constructor(deps: VerifierDeps) {
    this.#deps = deps
  }

  /** @throws BlobFault `CORRUPT`, `IO`, `UNAVAILABLE`, `CANCELLED`, `CLOSED`. */
  async *verify(
    entry: RowEntry,
    lease: ExtentClaim,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<number, void, undefined> {
    const memory = this.#idle.pop() ?? alignedBytes(bufferBytes)
    try {
      if (lease.copy.inlineOffset !== undefined) yield* this.#verifyInline(entry, lease, memory)
      else yield* this.#verifyRecords(entry, lease, memory, signal)
      lease.target.verifiedAt = this.#deps.now()
    } finally {
      if (this.#idle.length < idleMax) this.#idle.push(memory)
    }
  }

  async *#verifyInline(entry: RowEntry, lease: ExtentClaim, memory: Buffer): AsyncGenerator<number> {
    const { copy } = lease
    if (copy.size === 0) return
    const extent = this.#deps.extents.get({ extent: copy.commitExtent, generation: copy.commitGeneration })
    const offset = copy.inlineOffset as number
    if (extent === undefined) throw this.#damaged(entry, copy, 'its extent is gone')
    const from = Math.floor(offset / blockBytes) * blockBytes
    const bytes = Math.ceil((offset + copy.size - from) / blockBytes) * blockBytes
    const isRight = () => crc32(memory.subarray(offset - from, offset - from + copy.size)) === copy.crc32
    if (
      !(await this.#reads({ entry, lease, extent, offset: from, into: memory.subarray(0, bytes), isRight }))
    )
      throw this.#damaged(entry, copy, `extent ${extent.number} at ${offset}`)
    yield bytes
  }

  async *#verifyRecords(
    entry: RowEntry,
    lease: ExtentClaim,
    memory: Buffer,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<number> {
    let position = 0
    let copy = lease.copy
    let places = this.#placesOf(entry, copy, position)
    while (position < copy.size) {
      if (lease.copy !== copy) {
        copy = lease.copy // it is at another place now
        places = this.#placesOf(entry, copy, position)
      }
      const { value: place } = places.next()
      if (place === undefined) throw this.#damaged(entry, copy, `no record for byte ${position}`)
      const { extent, generation, offset, payloadBytes } = place
      const into = memory.subarray(0, dataRecordBytes(payloadBytes))
      const isRight = () => {
        const header = decodeRecord(
          into.subarray(0, blockBytes),
          { extent: extent.number, generation, offset },
          this.#deps.seal,
        )
        return (
          belongsTo(header, copy.incarnation, place.position, payloadBytes) &&
          matchesChecksums(into.subarray(blockBytes, blockBytes + payloadBytes), header.checksums, 0)
        )
      }
      if (!(await this.#reads({ entry, lease, extent, offset, into, isRight })))
        throw this.#damaged(entry, copy, `extent ${extent.number} at ${offset}`)
      position = place.position + payloadBytes
      yield into.length
      this.#deps.assertOpen()
      if (signal?.aborted) throw new BlobFault('CANCELLED', 'the caller gave up')
    }
  }

  /** @returns whether the bytes are correct. @throws BlobFault `IO`, `UNAVAILABLE`. */
  async #reads({
    entry,
    lease,
    extent,
    offset,
    into,
    isRight,
  }: {
    entry: RowEntry
    lease: ExtentClaim
    extent: Extent
    offset: number
    into: Buffer
    isRight: () => boolean
  }): Promise<boolean> {
    const { copy } = lease
    lease.begin()
    try {
      for (let left = tries; left > 0; left--) {
        const count = await extent.readUncached(into, offset)
        this.verifiedBytes += count
        if (count === into.length && isRight()) return true
      }
      return false
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code === 'ENOENT')
        throw this.#damaged(entry, copy, `the file of extent ${extent.number} is missing`)
      throw readFaultOf(error, `reading extent ${extent.number}`)
    } finally {
      lease.end()
    }
  }

  /** The records from the one on that holds this byte. */
  *#placesOf(entry: RowEntry, copy: Copy, position: number): Generator<RecordLocation, undefined> {
    let first = 0
    for (const run of copy.runs) {
      const end = first + run.bytes
      for (
        let at = first + Math.floor(Math.max(0, position - first) / recordBytesMax) * recordBytesMax;
        at < end;
        at += recordBytesMax
      ) {
        const extent = this.#deps.extents.get(run)
        if (extent === undefined) throw this.#damaged(entry, copy, `extent ${run.extent} is gone`)
        yield {
          extent,
          generation: run.generation,
          offset: run.offset + ((at - first) / recordBytesMax) * dataRecordBytes(recordBytesMax),
          position: at,
          payloadBytes: Math.min(recordBytesMax, end - at),
        }
      }
      first = end
    }
    return undefined
  }

  #damaged(entry: RowEntry, copy: Copy, where: string): BlobFault {
    const fault = new BlobFault('CORRUPT', `${hex(entry.id)} is damaged: ${where}`)
    this.#deps.damaged(entry, copy, fault)
    return fault
  }
}
