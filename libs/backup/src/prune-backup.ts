/**
 * Removes old snapshots, and the objects that no other one names. Nothing else may write to the
 * directory at the same time: a running backup needs objects that no snapshot names yet.
 */
import { hex } from '@holdfast/kernel'
import type { BackupDirectory } from './backup-directory.ts'
import { copyOfRow, readSegments } from './segments.ts'

/** Digits of a name that are compared: two that agree are both kept. */
const comparedDigits = 32

export interface PruneResult {
  snapshots: string[]
  objects: number
  bytes: number
}

/**
 * Keeps the newest `keep` snapshots, those that are at most `withinMs` old, and always the newest.
 * A kill leaves objects that the next run removes.
 * @throws BackupFault `DAMAGED` when a snapshot that stays cannot be read; then nothing is removed.
 */
export async function pruneBackup(
  directory: BackupDirectory,
  { keep, withinMs, nowMs }: { keep: number; withinMs: number; nowMs: number },
): Promise<PruneResult> {
  const times = await directory.snapshots()
  const stays = (time: string, at: number) =>
    at >= times.length - Math.max(1, keep) || nowMs - msOf(time) <= withinMs
  const used = new Set<string>()
  const use = (object: string) => used.add(directory.nameOf(object).slice(0, comparedDigits))
  for (const time of times.filter(stays)) {
    const { rows, copies } = await directory.snapshot(time)
    for (const segment of [...rows, ...copies]) use(segment)
    for await (const row of readSegments(directory, copies)) use(hex(copyOfRow(row).id))
  }
  const pruned: PruneResult = { snapshots: [], objects: 0, bytes: 0 }
  for (const time of times.filter((each, at) => !stays(each, at))) {
    await directory.removeSnapshot(time)
    pruned.snapshots.push(time)
  }
  for await (const name of directory.objects()) {
    if (used.has(name.slice(0, comparedDigits))) continue
    pruned.bytes += await directory.removeObject(name)
    pruned.objects++
  }
  return pruned
}

/** The time in a snapshot's name. */
function msOf(time: string): number {
  return Date.parse(time.replace(/T(\d\d)\.(\d\d)\./, 'T$1:$2:'))
}
