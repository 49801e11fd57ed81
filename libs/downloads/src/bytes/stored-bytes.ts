import {
  type BlobName,
  type BlobSender,
  type BlobStore,
  readsWhole,
  sendsDirectly,
} from '@holdfast/blob-store'
import type { DirectBytes } from './direct-body.ts'
import type { ByteRange } from './ranges.ts'

/** Sent with the head of the answer. */
const firstBytes = 64 * 1024

/**
 * The bytes of a blob, read-only, and a fault when there are too few or too many: the announced
 * length is what is sent.
 */
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
  yield* exactly(blobs.read(blob, range, { signal }), range)
}

async function* exactly(
  source: AsyncIterable<Uint8Array>,
  { start, end }: ByteRange,
): AsyncGenerator<Uint8Array> {
  let missing = end - start
  for await (const bytes of source) {
    missing -= bytes.length
    if (missing < 0) break
    yield bytes
  }
  if (missing !== 0) throw new Error(`a blob's bytes ${start} … ${end} were short or long by ${missing}`)
}

/** A range for a socket, when its beginning is in memory. Undefined: it must be read. */
export async function directBytes(
  blobs: BlobStore,
  blob: BlobName,
  range: ByteRange,
): Promise<DirectBytes | undefined> {
  if (!sendsDirectly(blobs) || !readsWhole(blobs)) return undefined
  const { start, end } = range
  const first = await blobs.readWhole(blob, { start, end: Math.min(end, start + firstBytes) })
  if (first === undefined) return undefined
  let sender: BlobSender | undefined
  try {
    sender = await blobs.openSender(blob)
  } finally {
    if (sender === undefined) first.release()
  }
  return (
    sender && { range, first, sender, read: (rest, signal) => exactly(sender.read(rest, { signal }), rest) }
  )
}
