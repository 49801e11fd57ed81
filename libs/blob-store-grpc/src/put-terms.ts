/**
 * The terms in a small blob's request and its answer: they are in the path, which its proof covers.
 */
import { BlobFault, type BlobInfo, type PutOptions } from '@holdfast/blob-store'
import { hex } from '@holdfast/kernel'

/** The path after the name. */
type Terms = Omit<PutOptions, 'uploadId'>

export function putPath(id: Uint8Array, { uploadId, ...terms }: PutOptions): string {
  const { placement, pinMs, createdMs, asNew = false } = terms
  const made = createdMs === undefined ? '' : `&created=${createdMs}`
  return `/blobs/${hex(id)}/${hex(uploadId)}?group=${placement.group}&version=${placement.version}&pin=${pinMs}&new=${asNew ? 1 : 0}${made}`
}

/** @throws BlobFault INVALID */
export function putTermsOf(text: string | undefined): Terms {
  const [, group, version, pinMs, isNew, createdMs] =
    /^group=(\d{1,10})&version=(\d{1,15})&pin=(\d{1,15})&new=([01])(?:&created=(\d{1,15}))?$/.exec(
      text ?? '',
    ) ?? []
  if (group === undefined) throw new BlobFault('INVALID', `the terms of a small blob: ${text}`)
  return {
    placement: { group: Number(group), version: Number(version) },
    pinMs: Number(pinMs),
    asNew: isNew === '1',
    ...(createdMs === undefined ? {} : { createdMs: Number(createdMs) }),
  }
}

/** The caller knows the id. */
export function putAnswerOf({ incarnation, size, crc32, createdMs, placementGroup = 0 }: BlobInfo): string {
  return JSON.stringify({ incarnation: hex(incarnation), size, crc32, createdMs, placementGroup })
}

export function putInfoOf(answer: unknown, id: Uint8Array): BlobInfo {
  const { incarnation, size, crc32, createdMs, placementGroup } = answer as Record<string, unknown>
  const isComplete =
    typeof incarnation === 'string' &&
    /^[0-9a-f]{32}$/.test(incarnation) &&
    [size, crc32, createdMs, placementGroup].every(Number.isSafeInteger)
  if (!isComplete) throw new BlobFault('UNKNOWN', 'the answer to a small blob cannot be read')
  return {
    id: Buffer.from(id),
    incarnation: Buffer.from(incarnation, 'hex'),
    size: size as number,
    crc32: crc32 as number,
    createdMs: createdMs as number,
    placementGroup: placementGroup as number,
    damaged: undefined,
  }
}
