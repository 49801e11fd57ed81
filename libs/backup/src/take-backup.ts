/**
 * Takes a snapshot into a backup directory while the service serves.
 *
 * The rows are read first, from one moment; the copies afterwards. A copy is stored before a row
 * names it, and the caller keeps copies from being deleted, so each copy that the rows name is in
 * the inventory. Copies that were stored later only cost space.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { BlobFault, type BlobInfo, type BlobStore, nameOfCopy } from '@holdfast/blob-store'
import { type Clock, hex } from '@holdfast/kernel'
import type { BackupDirectory } from './backup-directory.ts'
import { checkBytes, forEachOf } from './copies.ts'
import { rowOfCopy, type SegmentRow, SegmentWriter } from './segments.ts'

/** Each waits for a sync of its object; more would compete with the service for the disk. */
const copiesAtOnce = 8
/** Names in the snapshot; with more damage a full list is not useful. */
const unreadableMax = 10_000

export interface BackupProgress {
  rows: number
  copies: number
  /** Bytes that the target did not have. */
  writtenBytes: number
}

export interface TakenBackup extends BackupProgress {
  /** Its name in the backup. */
  snapshot: string
  takenMs: number
  /** Bytes of all copies. */
  bytes: number
  /** Copies, and in a cluster journals, that could not be read. They are not in this snapshot. */
  unreadable: string[]
}

export async function takeBackup({
  directory,
  rows,
  blobs,
  bytesPerSecond,
  cluster,
  clock,
  signal,
  onProgress = () => {},
}: {
  directory: BackupDirectory
  /** All rows, as they were at this call or later. Those of one machine are of one moment. */
  rows: () => AsyncIterable<SegmentRow>
  blobs: Pick<BlobStore, 'inventory' | 'read'>
  /** Bytes written to the target; absent: as fast as it takes them. */
  bytesPerSecond?: number | undefined
  /** For a cluster: its regions, and what could not be read so far. */
  cluster?: { regions: readonly string[]; unread: () => readonly string[] }
  clock: Clock
  signal: AbortSignal
  onProgress?: (progress: BackupProgress) => void
}): Promise<TakenBackup> {
  const takenMs = clock.now()
  const progress: BackupProgress = { rows: 0, copies: 0, writtenBytes: 0 }
  const pace = paceOf({ bytesPerSecond, clock, signal })
  const wrote = async (bytes: number) => {
    progress.writtenBytes += bytes
    onProgress(progress)
    await pace(bytes)
  }

  const rowSegments = new SegmentWriter(directory)
  for await (const row of rows()) {
    signal.throwIfAborted()
    await wrote(await rowSegments.add(row))
    progress.rows++
  }

  const copySegments = new SegmentWriter(directory)
  const unreadable: string[] = []
  let bytes = 0
  const underWay = new Map<string, Promise<boolean>>()
  const copied = async (info: BlobInfo): Promise<boolean> => {
    const object = hex(info.id)
    // two copies of one content have one object
    const other = underWay.get(object)
    if (other !== undefined) return other
    const copying = copyObject(directory, { blobs, info, wrote, signal })
    underWay.set(object, copying)
    return copying.finally(() => underWay.delete(object))
  }
  for await (const batch of inBatches(blobs.inventory(), copiesAtOnce * 32)) {
    const readable = new Set<BlobInfo>()
    await forEachOf(batch, copiesAtOnce, async (info) => {
      signal.throwIfAborted()
      if (await copied(info)) readable.add(info)
      else if (unreadable.length < unreadableMax) unreadable.push(nameOfCopy(info))
    })
    for (const info of batch) {
      if (!readable.has(info)) continue
      await wrote(await copySegments.add(rowOfCopy(info)))
      progress.copies++
      bytes += info.size
    }
  }

  unreadable.push(...(cluster?.unread() ?? []))
  const snapshot = await directory.putSnapshot({
    takenMs,
    rows: await rowSegments.end(),
    copies: await copySegments.end(),
    figures: { rows: progress.rows, copies: progress.copies, bytes },
    unreadable,
    regions: cluster && [...cluster.regions],
  })
  return { snapshot, takenMs, ...progress, bytes, unreadable }
}

/** @returns false when the store cannot read it. */
async function copyObject(
  directory: BackupDirectory,
  {
    blobs,
    info,
    wrote,
    signal,
  }: {
    blobs: Pick<BlobStore, 'read'>
    info: BlobInfo
    wrote: (bytes: number) => Promise<void>
    signal: AbortSignal
  },
): Promise<boolean> {
  const object = hex(info.id)
  if (await directory.has(object)) return true
  const paced = async function* () {
    for await (const piece of blobs.read(info, { start: 0, end: info.size }, { signal })) {
      yield piece
      await wrote(piece.length)
    }
  }
  try {
    await directory.put(object, paced(), (written) => checkBytes(info.id, written))
    return true
  } catch (error) {
    if (error instanceof BlobFault && isUnreadable.has(error.code)) return false
    throw error
  }
}

/** The copy is damaged or gone. Anything else is a fault of the run. */
const isUnreadable = new Set<string>(['CORRUPT', 'IO', 'NOT_FOUND'])

/** Waits until the time has passed that the bytes so far take at the given rate. */
function paceOf({
  bytesPerSecond,
  clock,
  signal,
}: {
  bytesPerSecond: number | undefined
  clock: Clock
  signal: AbortSignal
}): (bytes: number) => Promise<void> {
  if (bytesPerSecond === undefined) return async () => {}
  let freeAtMs = clock.monotonic()
  return async (bytes) => {
    freeAtMs = Math.max(freeAtMs, clock.monotonic()) + (bytes / bytesPerSecond) * 1000
    const waitMs = freeAtMs - clock.monotonic()
    if (bytes > 0 && waitMs > 1) await delay(waitMs, undefined, { signal })
  }
}

async function* inBatches<Item>(items: AsyncIterable<Item>, size: number): AsyncGenerator<Item[]> {
  let batch: Item[] = []
  for await (const item of items) {
    batch.push(item)
    if (batch.length < size) continue
    yield batch
    batch = []
  }
  if (batch.length > 0) yield batch
}
