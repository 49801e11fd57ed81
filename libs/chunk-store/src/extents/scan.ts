/** Finds records in an extent without the catalogue, and verifies their content. */
import { alignedBytes, isUnreadable } from '@holdfast/kernel'
import { crc32 } from '@node-rs/crc32'
import {
  blockBytes,
  chunkBytes,
  type DataHeader,
  dataRecordBytes,
  decodeRecord,
  firstRecordOffset,
  type GroupHeader,
  type HeaderSeal,
  type Run,
  recordBytes,
  recordBytesMax,
  recordHeaderBytes,
  startsRecord,
} from '../format.ts'
import { bufferBytes } from '../memory/buffer-pool.ts'
import { alignUp } from '../numbers.ts'
import type { Extent } from './extent.ts'

/** Damaged bytes are distinguished from unreadable ones: those may be readable tomorrow. */
export type RecordState = 'whole' | 'torn' | 'unreadable'

/** Blocks of an extent that a walk could not read. */
export class UnreadBlocks {
  blocks = 0
  /** Unread blocks in which a record may have begun: its content is unknown. */
  unknown = 0
}

/** After this many a walk abandons the rest of an extent: each one may take the disk seconds. */
const missedMax = 4096

/**
 * Every record of this generation from `from` on, also behind damaged bytes. Each 4 KiB boundary
 * up to the end of the file is tried, because uploads interleave and an acknowledged record may
 * follow one that was never written. Unreadable blocks are skipped one by one.
 *
 * @param options.window page-aligned memory of `bufferBytes`; its content changes while this runs.
 */
export async function* walk(
  extent: Extent,
  from: number,
  { seal, window, missed }: { seal: HeaderSeal; window: Buffer; missed: UnreadBlocks },
): AsyncGenerator<DataHeader | GroupHeader, void, undefined> {
  const place = { extent: extent.number, generation: extent.generation, offset: 0 }
  let at = Math.max(from, firstRecordOffset)
  while (at < extent.fileBytes) {
    const { count, unread } = await readAround(extent, window, at)
    if (count < blockBytes) return
    missed.blocks += unread?.size ?? 0
    let inWindow = 0
    while (inWindow + blockBytes <= count) {
      place.offset = at + inWindow
      if (unread?.has(inWindow)) missed.unknown++
      const record = startsRecord(window, inWindow)
        ? await recordAt(extent, place, { bytes: window.subarray(inWindow, count), seal, missed })
        : undefined
      if (record !== undefined) yield record
      inWindow += record === undefined ? blockBytes : recordBytes(record)
    }
    at += inWindow
    if (missed.blocks <= missedMax) continue
    const rest = Math.max(0, Math.ceil((extent.fileBytes - at) / blockBytes))
    missed.blocks += rest
    missed.unknown += rest
    return
  }
}

/**
 * Fills the memory from `at` on, with zeros where the disk returns an error.
 * @returns how many bytes there are, and which of its blocks failed.
 */
export async function readAround(
  extent: Extent,
  into: Buffer,
  at: number,
): Promise<{ count: number; unread?: Set<number> }> {
  try {
    return { count: await extent.readUncached(into, at) }
  } catch (error) {
    if (!isUnreadable(error)) throw error
  }
  const count = Math.min(into.length, Math.max(0, extent.fileBytes - at))
  const unread = new Set<number>()
  await readHalves(extent, into.subarray(0, alignUp(count, blockBytes)), { at, start: at, unread })
  return { count, unread }
}

/** Reads the halves of a range that could not be read as a whole. */
async function readHalves(
  extent: Extent,
  into: Buffer,
  { at, start, unread }: { at: number; start: number; unread: Set<number> },
): Promise<void> {
  if (into.length <= blockBytes) {
    into.fill(0)
    unread.add(at - start)
    return
  }
  const middle = alignUp(into.length / 2, blockBytes)
  for (const [from, to] of [
    [0, middle],
    [middle, into.length],
  ] as const) {
    const half = into.subarray(from, to)
    try {
      half.fill(0, await extent.readUncached(half, at + from))
    } catch (error) {
      if (!isUnreadable(error)) throw error
      await readHalves(extent, half, { at: at + from, start, unread })
    }
  }
}

async function recordAt(
  extent: Extent,
  place: { extent: number; generation: number; offset: number },
  { bytes, seal, missed }: { bytes: Buffer; seal: HeaderSeal; missed: UnreadBlocks },
): Promise<DataHeader | GroupHeader | undefined> {
  const headerBytes = recordHeaderBytes(bytes, 0, place, seal)
  if (headerBytes === undefined) return undefined
  if (headerBytes <= bytes.length) return decodeRecord(bytes, place, seal)
  const header = Buffer.allocUnsafeSlow(headerBytes)
  try {
    await extent.read(header, place.offset)
  } catch (error) {
    if (!isUnreadable(error)) throw error
    missed.blocks++
    missed.unknown++
    return undefined
  }
  return decodeRecord(header, place, seal)
}

export function belongsTo(
  header: ReturnType<typeof decodeRecord>,
  incarnation: Buffer,
  position: number,
  payloadBytes: number,
): header is DataHeader {
  return (
    header?.kind === 'data' &&
    header.uploadId.equals(incarnation) &&
    header.position === position &&
    header.payloadBytes === payloadBytes
  )
}

/** @param from where the bytes begin in the record's payload; a multiple of 64 KiB. */
export function matchesChecksums(payload: Buffer, checksums: Uint32Array, from: number): boolean {
  for (let at = 0, n = from / chunkBytes; at < payload.length; at += chunkBytes, n++)
    if (crc32(payload.subarray(at, at + chunkBytes)) !== checksums[n]) return false
  return true
}

/**
 * A blob packed into its group record, verified. On a mismatch it is read once more past the page
 * cache.
 * @returns undefined when it is damaged.
 */
export async function readInline(
  extent: Extent,
  offset: number,
  blob: { size: number; crc32: number },
): Promise<Buffer | undefined> {
  const bytes = Buffer.allocUnsafeSlow(blob.size)
  if (blob.size === 0) return bytes
  if (!extent.readCached(bytes, offset)) await extent.read(bytes, offset)
  if (crc32(bytes) === blob.crc32) return bytes
  const from = Math.floor(offset / blockBytes) * blockBytes
  const block = alignedBytes(Math.ceil((offset + blob.size - from) / blockBytes) * blockBytes)
  await extent.readUncached(block, from)
  block.copy(bytes, 0, offset - from)
  return crc32(bytes) === blob.crc32 ? bytes : undefined
}

/** The data records of a run, in sequence. */
export function* recordsOf(run: Run): Generator<{ offset: number; index: number; payloadBytes: number }> {
  for (let index = 0, left = run.bytes; left > 0; index++, left -= recordBytesMax)
    yield {
      offset: run.offset + index * dataRecordBytes(recordBytesMax),
      index,
      payloadBytes: Math.min(left, recordBytesMax),
    }
}

/** Reads a data record into `window` and verifies all of it. */
export async function readRecord(
  extent: Extent,
  record: { offset: number; payloadBytes: number; position: number; incarnation: Buffer },
  seal: HeaderSeal,
  window: Buffer,
): Promise<DataHeader | undefined> {
  const { offset, payloadBytes, position, incarnation } = record
  const bytes = window.subarray(0, dataRecordBytes(payloadBytes))
  await extent.readUncached(bytes, offset)
  const place = { extent: extent.number, generation: extent.generation, offset }
  const header = decodeRecord(bytes, place, seal)
  if (!belongsTo(header, incarnation, position, payloadBytes)) return undefined
  return matchesChecksums(bytes.subarray(blockBytes, blockBytes + payloadBytes), header.checksums, 0)
    ? header
    : undefined
}

export async function verifyRuns(
  blob: { runs: readonly Run[]; incarnation: Buffer; size: number },
  extentOf: (run: Run) => Extent | undefined,
  seal: HeaderSeal,
  window: Buffer,
): Promise<RecordState> {
  let position = 0
  for (const run of blob.runs) {
    const extent = extentOf(run)
    if (extent === undefined) return 'torn'
    for (const { offset, payloadBytes } of recordsOf(run)) {
      const record = { offset, payloadBytes, position, incarnation: blob.incarnation }
      try {
        if ((await readRecord(extent, record, seal, window)) === undefined) return 'torn'
      } catch {
        return 'unreadable'
      }
      position += payloadBytes
    }
  }
  return position === blob.size ? 'whole' : 'torn'
}

export async function verifyInline(
  blob: { size: number; crc32: number },
  extent: Extent,
  offset: number,
): Promise<RecordState> {
  try {
    return (await readInline(extent, offset, blob)) === undefined ? 'torn' : 'whole'
  } catch {
    return 'unreadable'
  }
}

/** Memory that `walk` and the others need. */
export const windowBytes = bufferBytes
