/** Finding records in an extent without the catalogue, and checking what they hold. */
import { crc32 } from '@node-rs/crc32'
import type { Extent } from './extents.ts'
import {
  blockBytes,
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
} from './format.ts'
import { belongsTo, matches } from './reader.ts'
import { slotBytes } from './slots.ts'

/** Damaged bytes are not lost bytes: what cannot be read now may be readable tomorrow. */
export type Verdict = 'whole' | 'torn' | 'unreadable'

/**
 * Every record of this generation from `from` on, whatever stands between: tries each 4 KiB boundary up to the end of the file,
 * because uploads interleave and an acknowledged record may follow one that was never written.
 *
 * @param window page-aligned memory of `slotBytes`; its content changes while this runs.
 */
export async function* walk(
  extent: Extent,
  from: number,
  seal: HeaderSeal,
  window: Buffer,
): AsyncGenerator<DataHeader | GroupHeader, void, undefined> {
  const place = { extent: extent.number, generation: extent.generation, offset: 0 }
  let at = Math.max(from, firstRecordOffset)
  while (at < extent.fileBytes) {
    const count = await extent.readUncached(window, at)
    if (count < blockBytes) return
    let inWindow = 0
    while (inWindow + blockBytes <= count) {
      place.offset = at + inWindow
      const record = startsRecord(window, inWindow)
        ? await recordAt(extent, place, window.subarray(inWindow, count), seal)
        : undefined
      if (record !== undefined) yield record
      inWindow += record === undefined ? blockBytes : recordBytes(record)
    }
    at += inWindow
  }
}

async function recordAt(
  extent: Extent,
  place: { extent: number; generation: number; offset: number },
  bytes: Buffer,
  seal: HeaderSeal,
): Promise<DataHeader | GroupHeader | undefined> {
  const headerBytes = recordHeaderBytes(bytes, 0, place, seal)
  if (headerBytes === undefined) return undefined
  if (headerBytes <= bytes.length) return decodeRecord(bytes, place, seal)
  const header = Buffer.allocUnsafeSlow(headerBytes)
  await extent.read(header, place.offset)
  return decodeRecord(header, place, seal)
}

/** The data records of a run, one after the other. */
export function* recordsOf(run: Run): Generator<{ offset: number; index: number; payloadBytes: number }> {
  for (let index = 0, left = run.bytes; left > 0; index++, left -= recordBytesMax)
    yield {
      offset: run.offset + index * dataRecordBytes(recordBytesMax),
      index,
      payloadBytes: Math.min(left, recordBytesMax),
    }
}

/** Reads a data record into `window` and checks all of it. */
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
  return matches(bytes.subarray(blockBytes, blockBytes + payloadBytes), header.checksums, 0)
    ? header
    : undefined
}

export async function verifyRuns(
  blob: { runs: readonly Run[]; incarnation: Buffer; size: number },
  extentOf: (run: Run) => Extent | undefined,
  seal: HeaderSeal,
  window: Buffer,
): Promise<Verdict> {
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
): Promise<Verdict> {
  const bytes = Buffer.allocUnsafe(blob.size)
  try {
    await extent.read(bytes, offset)
  } catch {
    return 'unreadable'
  }
  return crc32(bytes) === blob.crc32 ? 'whole' : 'torn'
}

/** Memory that `walk` and the others need. */
export const windowBytes = slotBytes
