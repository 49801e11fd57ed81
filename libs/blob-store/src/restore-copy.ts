import { hex } from '@holdfast/kernel'
import type { BlobInfo } from './blob-store.ts'
import { BlobFault } from './errors.ts'
import type { NodeStore, PlacedStage } from './placed-blob-store.ts'

/**
 * Writes a copy under the name it has elsewhere, or replaces a damaged copy. Resolves when the copy
 * is whole and durable. A damaged copy is removed in the same step, and never without a
 * replacement.
 *
 * @param bytes of the whole blob.
 * @param source for messages: where the bytes come from.
 * @throws BlobFault `CORRUPT` when the bytes do not match the name, `FULL`, `IO`, `UNAVAILABLE`
 *   while an upload of this name is open here: retry later.
 */
export async function restoreCopy(
  store: Pick<NodeStore, 'stage'>,
  copy: BlobInfo,
  bytes: AsyncIterable<Uint8Array>,
  { pinMs, source }: { pinMs: number; source: string },
): Promise<BlobInfo> {
  const stage = await stageOf(store, copy)
  try {
    for await (const part of bytes) {
      const room = stage.write(part)
      if (room !== undefined) await room
    }
    const { id, size } = await stage.seal()
    if (Buffer.compare(id, copy.id) !== 0 || size !== copy.size)
      throw new BlobFault('CORRUPT', `${source} gave other bytes than those of ${hex(copy.id)}`)
    return await stage.commit({ pinMs, createdMs: copy.createdMs, asNew: true })
  } finally {
    await stage.abort() // harmless after the commit
  }
}

/**
 * The upload itself may still have a stage here: before its commit, or abandoned and not yet
 * removed.
 */
async function stageOf(store: Pick<NodeStore, 'stage'>, copy: BlobInfo): Promise<PlacedStage> {
  const options = {
    uploadId: copy.incarnation,
    placement: { group: copy.placementGroup ?? 0, version: 0 },
    expectedBytes: copy.size,
  }
  try {
    return await store.stage(options)
  } catch (error) {
    if (!(error instanceof BlobFault) || error.code !== 'INVALID') throw error
    throw new BlobFault('UNAVAILABLE', `${hex(copy.id)} is being written here already`, { cause: error })
  }
}
