/** Reading copies by their names: from memory, from the disk, or sent by the operating system. */

import { BlobFault, type BlobName, type BlobSender, type WholeBytes } from '@holdfast/blob-store'
import { hex } from '@holdfast/kernel'
import type { Copy, RowCache, RowEntry } from '../catalogue/rows.ts'
import type { Extent } from '../extents/extent.ts'
import type { ExtentTable } from '../extents/extent-table.ts'
import { BlobReader, type BlobReaderDeps, ExtentClaim } from './reader.ts'
import { Verifier, type VerifierDeps } from './verifier.ts'

export interface ReadsDeps extends BlobReaderDeps, VerifierDeps {
  extents: ExtentTable
  rows: RowCache
  /** An extent may be without readers now. */
  released: () => void
}

export class Reads {
  readonly #deps: ReadsDeps
  readonly reader: BlobReader
  readonly verifier: Verifier

  constructor(deps: ReadsDeps) {
    this.#deps = deps
    this.reader = new BlobReader(deps)
    this.verifier = new Verifier(deps)
  }

  async *read(
    blob: BlobName,
    range: { start: number; end: number },
    options: { signal?: AbortSignal },
  ): AsyncGenerator<Uint8Array, void, undefined> {
    const { reader } = this
    const { rows } = this.#deps
    this.#deps.assertOpen()
    const entry = await rows.acquire(blob.id)
    let lease: ExtentClaim | undefined
    try {
      const copy = copyOf(entry, blob, range)
      const { start, end } = range
      if (options.signal?.aborted) throw new BlobFault('CANCELLED', 'the reader gave up')
      lease = this.#claim(copy)
      if (copy.inlineOffset === undefined) {
        yield* reader.stream(entry, lease, range, options.signal)
      } else if (start < end) {
        const bytes = await reader.inline(entry, lease)
        if (options.signal?.aborted) throw new BlobFault('CANCELLED', 'the reader gave up')
        yield Buffer.from(bytes.subarray(start, end))
        // The consumer asks again: an abort meanwhile is reported as for larger blobs.
        if (options.signal?.aborted) throw new BlobFault('CANCELLED', 'the reader gave up')
      }
    } finally {
      lease?.release()
      rows.release(entry)
    }
  }

  async readWhole(
    blob: BlobName,
    { start, end }: { start: number; end: number },
  ): Promise<WholeBytes | undefined> {
    const { reader } = this
    const { rows } = this.#deps
    this.#deps.assertOpen()
    const found = rows.acquire(blob.id)
    const entry = found instanceof Promise ? await found : found
    let lease: ExtentClaim | undefined
    try {
      const copy = copyOf(entry, blob, { start, end })
      if (copy.inlineOffset === undefined) return reader.atHand(entry, copy, { start, end })
      const hot = reader.hot(copy)
      if (hot !== undefined) return kept(hot.subarray(start, end))
      lease = this.#claim(copy)
      const bytes = await reader.inline(entry, lease)
      return kept(bytes.subarray(start, end))
    } finally {
      lease?.release()
      rows.release(entry)
    }
  }

  async openSender(blob: BlobName): Promise<BlobSender | undefined> {
    const { reader } = this
    const { rows } = this.#deps
    this.#deps.assertOpen()
    const entry = await rows.acquire(blob.id)
    let sender: BlobSender | undefined
    try {
      const copy = copyOf(entry, blob, { start: 0, end: 0 })
      if (copy.inlineOffset !== undefined) return undefined
      sender = reader.sender(entry, this.#claim(copy), () => rows.release(entry))
      return sender
    } finally {
      if (sender === undefined) rows.release(entry)
    }
  }

  async *verify(
    blob: BlobName,
    { signal }: { signal?: AbortSignal },
  ): AsyncGenerator<number, void, undefined> {
    const { rows } = this.#deps
    this.#deps.assertOpen()
    const entry = await rows.acquire(blob.id)
    try {
      yield* this.verifyCopy(entry, copyOf(entry, blob, { start: 0, end: 0 }), signal)
    } finally {
      rows.release(entry)
    }
  }

  async *verifyCopy(
    entry: RowEntry,
    copy: Copy,
    signal?: AbortSignal,
  ): AsyncGenerator<number, void, undefined> {
    const lease = this.#claim(copy)
    try {
      yield* this.verifier.verify(entry, lease, signal)
    } finally {
      lease.release()
    }
  }

  /** Bytes that may have no row yet. */
  async *readCopy(entry: RowEntry, copy: Copy): AsyncGenerator<Uint8Array, void, undefined> {
    const lease = this.#claim(copy)
    try {
      yield* this.reader.stream(entry, lease, { start: 0, end: copy.size }, undefined)
    } finally {
      lease.release()
    }
  }

  /** Compaction wrote the copy to another place: idle readers continue there. */
  moved(old: Copy, copy: Copy, from: Extent): void {
    this.reader.forget(old)
    for (const holder of [...from.holders])
      if (holder instanceof ExtentClaim && holder.target === old) holder.moveTo(copy)
  }

  #claim(copy: Copy): ExtentClaim {
    return new ExtentClaim(copy, this.#deps.extents, this.#deps.released)
  }
}

export function copyNamed(entry: RowEntry, incarnation: Uint8Array): Copy | undefined {
  return entry.copies.find((copy) => copy.incarnation.equals(incarnation))
}

/** @throws BlobFault `NOT_FOUND`. */
function copyOf(entry: RowEntry, { incarnation }: BlobName, range: { start: number; end: number }): Copy {
  const copy = copyNamed(entry, incarnation)
  if (copy === undefined) throw new BlobFault('NOT_FOUND', `no copy of ${hex(entry.id)}`)
  const { start, end } = range
  if (!(0 <= start && start <= end && end <= copy.size))
    throw new RangeError(`bytes ${start}..${end} of a blob of ${copy.size}`)
  return copy
}

/** Memory that is not reused. */
function kept(bytes: Uint8Array): WholeBytes {
  return { bytes, release() {} }
}
