/**
 * Files without a use for a long time. An upload, a download, a move and a return from the bin are
 * uses. The use of a folder (its archive) counts for everything in it.
 *
 * Counts of downloads reach the account seconds later, so a file is due some minutes after its
 * time. It is due only at full hours, so that an account with many files is searched at most once
 * an hour.
 */
import { idleDueEverySeconds, idleSlackSeconds } from '../bounds.ts'
import type { Tree } from './tree.ts'

/** When a file with this last use is due, Unix seconds. */
export function idleDue(since: number, idleSeconds: number): number {
  const soonest = since + idleSeconds + idleSlackSeconds
  return Math.ceil(soonest / idleDueEverySeconds) * idleDueEverySeconds
}

/** The latest last use of the files that are due now. */
export function idleBefore(now: number, idleSeconds: number): number {
  return Math.floor(now / idleDueEverySeconds) * idleDueEverySeconds - idleSeconds - idleSlackSeconds
}

/**
 * Files below the root with a last use at or before `before`, at most `max` of them, and the
 * earliest last use of all others; undefined: there are none.
 *
 * @param from uses are noted from then on: no file counts as unused since before.
 */
export function idleFiles(
  tree: Tree,
  { from, before, max }: { from: number; before: number; max: number },
): { rows: number[]; since: number | undefined } {
  const { used, created } = tree.contents
  const rows: number[] = []
  let least = Number.POSITIVE_INFINITY
  const open = [{ folder: tree.root, above: from }]
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    const above = Math.max(at.above, used[at.folder] as number)
    for (const file of tree.fileRows(at.folder)) {
      const since = Math.max(above, used[file] as number, created[file] as number)
      if (since <= before && rows.length < max) rows.push(file)
      else if (since < least) least = since
    }
    for (const folder of tree.folderRows(at.folder)) open.push({ folder, above })
  }
  return { rows, since: least === Number.POSITIVE_INFINITY ? undefined : least }
}
