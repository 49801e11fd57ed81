/** Writes a snapshot into empty stores. */
import { type NodeStore, restoreCopy, smallBlobBytesMax } from '@holdfast/blob-store'
import { hex } from '@holdfast/kernel'
import type { BackupDirectory } from './backup-directory.ts'
import { forEachOf } from './copies.ts'
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
 * Writes the copies first, so that rows never name missing bytes.
 * @throws BackupFault `DAMAGED`, and what the stores throw; then the target cannot be used.
 */
export async function restoreBackup(
  directory: BackupDirectory,
  snapshot: Snapshot,
  target: RestoreTarget,
  onCopy: (bytes: number) => void = () => {},
): Promise<void> {
  await forEachOf(readSegments(directory, snapshot.copies), copiesAtOnce, async (row) => {
    const copy = copyOfRow(row)
    const bytes = directory.read(hex(copy.id))
    if (copy.size > smallBlobBytesMax)
      await restoreCopy(target.blobs, copy, bytes, { pinMs, source: 'the backup' })
    else
      await target.blobs.put(
        { id: copy.id, bytes: Buffer.concat(await Array.fromAsync(bytes)) },
        {
          uploadId: copy.incarnation,
          placement: { group: 0, version: 0 },
          pinMs,
          createdMs: copy.createdMs,
          asNew: true,
        },
      )
    onCopy(copy.size)
  })
  await target.putRows(readSegments(directory, snapshot.rows))
}
