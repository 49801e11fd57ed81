/** Commands on lists of contents: all or nothing, one bad id changes nothing. */
import {
  type DeleteContents,
  type Event,
  type MoveContents,
  type RestoreContents,
  SweepReason,
} from '@holdfast/wire'
import { contentsMax, heldSecondsMax, treeDepthMax } from '../bounds.ts'
import type { Outcome } from '../contract.ts'
import { none } from '../tree/columns.ts'
import { isList } from './check.ts'
import { done, isRefusal, type RequestContext, type Result, refuse } from './request-context.ts'

/**
 * Into the bin when it is on; what is already in the bin is deleted permanently. By the operator:
 * from everywhere, held for as long as they say.
 */
export function deleteContents(
  deciding: RequestContext,
  { contentIds, representation, heldSeconds }: DeleteContents,
): Outcome {
  if (!isList(contentIds)) return refuse('error-contentsId')
  const { tree, viewer } = deciding
  const byOperator = heldSeconds !== undefined
  if (byOperator && viewer.kind !== 'operator') return refuse('error-forbidden')
  if (byOperator && !(heldSeconds >= 0 && heldSeconds <= heldSecondsMax)) return refuse('error-heldSeconds')
  const rows: number[] = []
  for (const id of contentIds) {
    const row = tree.find(id)
    const seen = row >= 0 && (viewer.isOwner || !(tree.inBin(row) || deciding.isExpired(row)))
    if (!seen) return refuse('error-notFound')
    rows.push(row)
  }
  if (!viewer.isOwner) return refuse('error-owner')
  if (rows.includes(tree.root) || rows.includes(tree.bin)) return refuse('error-protectedFolder')
  const named = new Set(rows)
  const tops = [...named].filter((row) => !isBelowAny(deciding, row, named))
  const toBin = (row: number) => !byOperator && deciding.account.known.recycleBin && !tree.inBin(row)
  const heldUntil = heldSeconds ? deciding.now + heldSeconds : undefined
  if (heldUntil !== undefined && !fitsHeld(deciding, tops)) return refuse('error-limits')
  const sweep = byOperator ? { why: SweepReason.OPERATOR, heldUntil, folders: [] } : undefined
  const recycled = tops.filter((row) => toBin(row))
  const gone = tops.filter((row) => !toBin(row))
  const events: NonNullable<Event['event']>[] = []
  for (const [list, bin] of [
    [recycled, true],
    [gone, false],
  ] as const) {
    const ids = list.map((row) => tree.idOf(row))
    if (ids.length > 0)
      events.push({ $case: 'contentsDeleted', value: { ids, toBin: bin, ...byRequest(deciding), sweep } })
  }
  if (representation !== true) return deciding.changed(events, done)
  // Deleted content cannot be shown again. If the items are too large to be kept, a retry only
  // learns that it succeeded.
  return deciding.changed(events, itemsOf(deciding, contentIds), { keptIfLarge: done })
}

/**
 * Whether these may be held beside the contents held already: in all as many as an account may
 * have.
 */
function fitsHeld({ tree }: RequestContext, rows: readonly number[]): boolean {
  const held = tree.held === none ? { files: 0, folders: 0 } : tree.below(tree.held)
  let contents = held.files + held.folders
  for (const row of rows) {
    const { files, folders } = tree.totalsOf(row)
    contents += files + folders
  }
  return contents <= contentsMax
}

/** A deletion that no timer made. */
function byRequest({ now }: RequestContext) {
  return { time: now, sweep: undefined, ended: [] }
}

function isBelowAny({ tree }: RequestContext, row: number, named: ReadonlySet<number>): boolean {
  if (row === tree.root || row === tree.bin) return false
  for (let at = tree.parentOf(row); at !== tree.root && at !== tree.bin; at = tree.parentOf(at))
    if (named.has(at)) return true
  return false
}

export function moveContents(deciding: RequestContext, { contentIds, folderId }: MoveContents): Outcome {
  if (!isList(contentIds)) return refuse('error-contentsId')
  const { tree, viewer } = deciding
  const rows: number[] = []
  for (const id of [...contentIds, folderId]) {
    const row = deciding.visible(id)
    if (isRefusal(row)) return refuse(row.status)
    rows.push(row)
  }
  if (!viewer.isOwner) return refuse('error-notOwner')
  rows.pop()
  const folder = deciding.destination(folderId, 'folderId')
  if (isRefusal(folder)) return refuse(folder.status)
  if (rows.includes(tree.root)) return refuse('error-rootFolder')
  if (rows.some((row) => tree.isBelow(folder, row))) return refuse('error-folderId')
  if (rows.some((row) => tree.depthOf(folder) + tree.heightOf(row, treeDepthMax) > treeDepthMax))
    return refuse('error-limits')
  const ids = rows.map((row) => tree.idOf(row))
  const result = () => itemsOf(deciding, ids)
  const value = { ids, folderId: tree.idOf(folder), time: deciding.now }
  return deciding.changed([{ $case: 'contentsMoved', value }], result)
}

export function restoreContents(deciding: RequestContext, { contentIds }: RestoreContents): Outcome {
  if (!isList(contentIds)) return refuse('error-contentsId')
  const { tree, viewer } = deciding
  if (!viewer.isOwner) return refuse('error-notOwner')
  const ids: string[] = []
  for (const id of contentIds) {
    const row = tree.find(id)
    if (row < 0 || !tree.inBin(row)) return refuse('error-notFound')
    if (row === tree.bin) return refuse('error-protectedFolder')
    ids.push(tree.idOf(row))
  }
  const value = { ids, time: deciding.now, undone: [] }
  return deciding.changed([{ $case: 'contentsRestored', value }], () => itemsOf(deciding, ids))
}

export function emptyBin(deciding: RequestContext): Outcome {
  const { tree, viewer } = deciding
  if (!viewer.isOwner) return refuse('error-notOwner')
  if (tree.childCount(tree.bin) === 0) return deciding.changed([], done)
  const value = { ids: [tree.idOf(tree.bin)], toBin: false, ...byRequest(deciding) }
  return deciding.changed([{ $case: 'contentsDeleted', value }], done)
}

/** As they are now, one for each id that still exists. */
export function itemsOf(deciding: RequestContext, ids: readonly string[]): Result {
  const reading = deciding.owners()
  const rows = ids.map((id) => deciding.tree.find(id)).filter((row) => row >= 0)
  return { $case: 'items', value: { items: rows.map((row) => reading.item(row)) } }
}
