import { type BlobName, type BlobStore, readsWhole } from '@holdfast/blob-store'
import type { ByteRange } from './ranges.ts'

/** The bytes of a blob, nobody's to change, and a fault instead of too few or too many: what was announced is what is sent. */
export async function* storedBytes(
  blobs: BlobStore,
  blob: BlobName,
  range: ByteRange,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  if (range.start === range.end) return
  const whole = readsWhole(blobs) ? await blobs.readWhole(blob, range) : undefined
  if (whole !== undefined) {
    try {
      yield whole.bytes
    } finally {
      whole.release()
    }
    return
  }
  let missing = range.end - range.start
  for await (const bytes of blobs.read(blob, range, { signal })) {
    missing -= bytes.length
    if (missing < 0) break
    yield bytes
  }
  if (missing !== 0)
    throw new Error(`a blob's bytes ${range.start} … ${range.end} came short or long by ${missing}`)
}
