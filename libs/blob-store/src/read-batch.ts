import { type BlobInfo, type BlobStore, readsWhole } from './blob-store.ts'
import { BlobFault } from './errors.ts'
import { batchBytesMax, batchCopiesMax, smallBlobBytesMax } from './placed-blob-store.ts'

/** `readBatch` for a store whose reads cost no remote calls. */
export async function readBatch(
  store: BlobStore,
  copies: readonly BlobInfo[],
): Promise<(Uint8Array | undefined)[]> {
  const largest = copies.reduce((most, { size }) => Math.max(most, size), 0)
  if (copies.length > batchCopiesMax || largest > smallBlobBytesMax)
    throw new BlobFault('INVALID', `${copies.length} copies of up to ${largest} bytes in one question`)
  let room = batchBytesMax
  const answered = copies.map(({ size }) => {
    room -= size
    return room >= 0
  })
  return Promise.all(
    copies.map(async (copy, n) => {
      if (answered[n] !== true) return undefined
      try {
        return await smallBlobBytes(store, copy)
      } catch (error) {
        if (error instanceof BlobFault && error.code !== 'CLOSED') return undefined
        if (error instanceof RangeError) return undefined
        throw error
      }
    }),
  )
}

async function smallBlobBytes(store: BlobStore, copy: BlobInfo): Promise<Uint8Array | undefined> {
  const range = { start: 0, end: copy.size }
  const whole = readsWhole(store) ? await store.readWhole(copy, range) : undefined
  if (whole !== undefined) {
    const bytes = Buffer.from(whole.bytes)
    whole.release()
    return bytes
  }
  const pieces: Buffer[] = []
  for await (const bytes of store.read(copy, range)) pieces.push(Buffer.from(bytes))
  const bytes = Buffer.concat(pieces)
  return bytes.length === copy.size ? bytes : undefined
}
