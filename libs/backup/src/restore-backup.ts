/** Writes a snapshot into empty stores. */
import {
  BlobFault,
  type BlobInfo,
  type GroupVersion,
  type NodeStore,
  restoreCopy,
  smallBlobBytesMax,
} from '@holdfast/blob-store'
import { hex } from '@holdfast/kernel'
import type { BackupDirectory } from './backup-directory.ts'
import { forEachOf } from './copies.ts'
import { BackupFault } from './errors.ts'
import { copyOfRow, readSegments, type SegmentRow } from './segments.ts'
import type { Snapshot } from './snapshot.ts'

export interface RestoreTarget {
  blobs: Pick<NodeStore, 'stage' | 'put'>
  /** Writes all rows; durable when it resolves. */
  putRows(rows: AsyncIterable<SegmentRow>): Promise<void>
}

/** Small files that are written at the same time share a sync. */
const copiesAtOnce = 64
/** Nothing collects while a backup is restored. */
const pinMs = 1

/**
 * Writes the copies first, so that rows never name bytes that are missing without notice.
 * @param onDamaged gets each copy that is damaged in the backup; it is left out unless this throws.
 * @throws BackupFault `DAMAGED` when the rows are damaged, and what the stores throw; then the
 *   target cannot be used.
 */
export async function restoreBackup(
  directory: BackupDirectory,
  snapshot: Snapshot,
  target: RestoreTarget,
  onDamaged: (copy: BlobInfo, fault: Error) => void,
): Promise<void> {
  const put: Parameters<typeof restoreCopies>[2]['put'] = (copy, bytes) =>
    restoreOne(target.blobs, copy, bytes)
  await restoreCopies(directory, snapshot, { put, onDamaged, atOnce: copiesAtOnce })
  await target.putRows(readSegments(directory, snapshot.rows))
}

/**
 * @param options.put stores a copy; may ask for its bytes several times.
 * @param options.onDamaged as of `restoreBackup`.
 */
export async function restoreCopies(
  directory: BackupDirectory,
  snapshot: Snapshot,
  {
    put,
    onDamaged,
    atOnce,
  }: {
    put: (copy: BlobInfo, bytes: () => AsyncIterable<Uint8Array>) => Promise<void>
    onDamaged: (copy: BlobInfo, fault: Error) => void
    atOnce: number
  },
): Promise<void> {
  await forEachOf(readSegments(directory, snapshot.copies), atOnce, async (row) => {
    const copy = copyOfRow(row)
    try {
      await put(copy, () => directory.read(hex(copy.id)))
    } catch (error) {
      if (!isDamage(error)) throw error
      onDamaged(copy, error)
    }
  })
}

/**
 * Writes one copy as a new one.
 * @param placement absent: a store of one machine.
 */
export async function restoreOne(
  blobs: RestoreTarget['blobs'],
  copy: BlobInfo,
  bytes: () => AsyncIterable<Uint8Array>,
  placement: GroupVersion = { group: 0, version: 0 },
): Promise<void> {
  if (copy.size > smallBlobBytesMax) {
    const stage: RestoreTarget['blobs']['stage'] = (options) => blobs.stage({ ...options, placement })
    await restoreCopy({ stage }, copy, bytes(), { pinMs, source: 'the backup' })
    return
  }
  await blobs.put(
    { id: copy.id, bytes: Buffer.concat(await Array.fromAsync(bytes())) },
    {
      uploadId: copy.incarnation,
      placement,
      pinMs,
      createdMs: copy.createdMs,
      asNew: true,
    },
  )
}

/** Whether the backup is damaged. Errors of the target are no damage. */
function isDamage(error: unknown): error is Error {
  return (
    (error instanceof BackupFault && error.code === 'DAMAGED') ||
    (error instanceof BlobFault && error.code === 'CORRUPT')
  )
}
