import type { BlobInfo } from './blob-store.ts'
import { BlobFault } from './errors.ts'
import {
  type PlacedBlobStore,
  type PutOptions,
  type SmallBlob,
  smallBlobBytesMax,
} from './placed-blob-store.ts'

/** `put` for a store whose stages cost no remote calls. */
export async function putSmall(
  store: Pick<PlacedBlobStore, 'stage'>,
  blob: SmallBlob,
  { uploadId, placement, ...commit }: PutOptions,
): Promise<BlobInfo> {
  const { length } = blob.bytes
  if (length > smallBlobBytesMax)
    throw new BlobFault('INVALID', `a small blob of ${length} bytes, at most ${smallBlobBytesMax}`)
  const stage = await store.stage({ uploadId, placement, expectedBytes: length })
  try {
    const room = stage.write(blob.bytes)
    if (room !== undefined) await room
    const { id } = await stage.seal()
    if (Buffer.compare(id, blob.id) !== 0) throw new BlobFault('CORRUPT', 'the bytes do not match their name')
    return await stage.commit(commit)
  } finally {
    await stage.abort() // harmless after the commit
  }
}
