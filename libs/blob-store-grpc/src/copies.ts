/** Descriptions of copies as messages. */

import { BlobFault, type BlobInfo, type BlobName } from '@holdfast/blob-store'
import { blobIdBytes, incarnationBytes } from '@holdfast/kernel'
import type { Copy } from '@holdfast/wire/storage'

export function messageOf(info: BlobInfo): Copy {
  return {
    id: Buffer.from(info.id),
    incarnation: Buffer.from(info.incarnation),
    size: info.size,
    crc32: info.crc32,
    createdMs: info.createdMs,
    placementGroup: info.placementGroup ?? 0,
    damaged: info.damaged ?? false,
  }
}

/** @throws BlobFault INVALID */
export function infoOfMessage(copy: Copy): BlobInfo {
  return {
    id: contentId(copy.id),
    incarnation: uploadIdOf(copy.incarnation),
    size: copy.size,
    crc32: copy.crc32,
    createdMs: copy.createdMs,
    placementGroup: copy.placementGroup,
    damaged: copy.damaged ? true : undefined,
  }
}

/** @throws BlobFault INVALID */
export function blobNameOf({ id, incarnation }: { id: Uint8Array; incarnation: Uint8Array }): BlobName {
  return { id: contentId(id), incarnation: uploadIdOf(incarnation), placementGroup: undefined }
}

/** @throws BlobFault INVALID */
export function contentId(id: Uint8Array): Uint8Array {
  if (id.length !== blobIdBytes) throw new BlobFault('INVALID', `a blob id of ${id.length} bytes`)
  return id
}

/** @throws BlobFault INVALID */
export function uploadIdOf(id: Uint8Array): Uint8Array {
  if (id.length !== incarnationBytes) throw new BlobFault('INVALID', `an upload id of ${id.length} bytes`)
  return id
}
