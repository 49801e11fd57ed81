/** A file that its account opened for a caller, as a representation. */
import { type BlobName, readsWhole } from '@holdfast/blob-store'
import type { Item } from '@holdfast/wire'
import type { DownloadContext } from '../context.ts'
import { type Representation, validatorsOf } from './representation.ts'
import { fileHeaders } from './safe-headers.ts'
import { directBytes, storedBytes } from './stored-bytes.ts'

/** @param item a file with its blob. */
export function openedFile(
  { blobs, blocked, inPlace }: Pick<DownloadContext, 'blobs' | 'blocked' | 'inPlace'>,
  item: Item,
): Representation {
  const blob = item.blob
  if (blob === undefined) throw new Error(`${item.id} was opened without a blob`)
  const { id, incarnation, placementGroup } = blob
  const name: BlobName = { id, incarnation, placementGroup }
  const current = {
    // The BLAKE3: an md5 can be forged, and would poison caches.
    etag: `"${Buffer.from(blob.id).toString('hex', 16)}"`,
    modifiedSeconds: item.modTime,
  }
  return {
    ...current,
    size: blob.size,
    validators: validatorsOf(current),
    ignoresRange: false,
    isBlocked: () => blocked.blocksBlob(id),
    headers: fileHeaders(item.name, item.mimetype, { inPlace }),
    read: (range, signal) => storedBytes(blobs, name, range, signal),
    ...(readsWhole(blobs) ? { readWhole: (range) => blobs.readWhole(name, range) } : {}),
    openDirect: (range) => directBytes(blobs, name, range),
  }
}
