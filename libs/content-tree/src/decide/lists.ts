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
  context: RequestContext,
  { contentIds, representation, heldSeconds }: DeleteContents,
): Outcome {
  if (!isList(contentIds)) return refuse('error-contentsId')
  const { tree, viewer } = context
  const byOperator = heldSeconds !== undefined
  if (byOperator && viewer.kind !== 'operator') return refuse('error-forbidden')
  if (byOperator && !(heldSeconds >= 0 && heldSeconds <= heldSecondsMax)) return refuse('error-heldSeconds')
  const rows: number[] = []
  for (const id of contentIds) {
    const row = tree.find(id)
    const seen = row >= 0 && (viewer.isOwner || !(tree.inBin(row) || context.isExpired(row)))
    if (!seen) return refuse('error-notFound')
    rows.push(row)
  }
  if (!viewer.isOwner) return refuse('error-owner')
  if (rows.includes(tree.root) || rows.includes(tree.bin)) return refuse('error-protectedFolder')
  const named = new Set(rows)
  const tops = [...named].filter((row) => !isBelowAny(context, row, named))
  const toBin = (row: number) => !byOperator && context.account.known.recycleBin && !tree.inBin(row)
  const heldUntil = heldSeconds ? context.now + heldSeconds : undefined
  if (heldUntil !== undefined && !fitsHeld(context, tops)) return refuse('error-limits')
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
      events.push({ $case: 'contentsDeleted', value: { ids, toBin: bin, ...byRequest(context), sweep } })
  }
  if (representation !== true) return context.changed(events, done)
  // Deleted content cannot be shown again. If the items are too large to be kept, a retry only
  // learns that it succeeded.
  return context.changed(events, itemsOf(context, contentIds), { keptIfLarge: done })
}

/**
 * Whether these contents may be held besides those held already. At most as many contents may be
 * held in all as an account may have.
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

export function moveContents(context: RequestContext, { contentIds, folderId }: MoveContents): Outcome {
  if (!isList(contentIds)) return refuse('error-contentsId')
  const { tree, viewer } = context
  const rows: number[] = []
  for (const id of [...contentIds, folderId]) {
    const row = context.visible(id)
    if (isRefusal(row)) return refuse(row.status)
    rows.push(row)
  }
  if (!viewer.isOwner) return refuse('error-notOwner')
  rows.pop()
  const folder = context.destination(folderId, 'folderId')
  if (isRefusal(folder)) return refuse(folder.status)
  if (rows.includes(tree.root)) return refuse('error-rootFolder')
  if (rows.some((row) => tree.isBelow(folder, row))) return refuse('error-folderId')
  if (rows.some((row) => tree.depthOf(folder) + tree.heightOf(row, treeDepthMax) > treeDepthMax))
    return refuse('error-limits')
  const ids = rows.map((row) => tree.idOf(row))
  const result = () => itemsOf(context, ids)
  const value = { ids, folderId: tree.idOf(folder), time: context.now }
  return context.changed([{ $case: 'contentsMoved', value }], result)
}

export function restoreContents(context: RequestContext, { contentIds }: RestoreContents): Outcome {
  if (!isList(contentIds)) return refuse('error-contentsId')
  const { tree, viewer } = context
  if (!viewer.isOwner) return refuse('error-notOwner')
  const ids: string[] = []
  for (const id of contentIds) {
    const row = tree.find(id)
    if (row < 0 || !tree.inBin(row)) return refuse('error-notFound')
    if (row === tree.bin) return refuse('error-protectedFolder')
    ids.push(tree.idOf(row))
  }
  const value = { ids, time: context.now, undone: [] }
  return context.changed([{ $case: 'contentsRestored', value }], () => itemsOf(context, ids))
}

export function emptyBin(context: RequestContext): Outcome {
  const { tree, viewer } = context
  if (!viewer.isOwner) return refuse('error-notOwner')
  if (tree.childCount(tree.bin) === 0) return context.changed([], done)
  const value = { ids: [tree.idOf(tree.bin)], toBin: false, ...byRequest(context) }
  return context.changed([{ $case: 'contentsDeleted', value }], done)
}

/** As they are now, one for each id that still exists. */
export function itemsOf(context: RequestContext, ids: readonly string[]): Result {
  const view = context.owners()
  const rows = ids.map((id) => context.tree.find(id)).filter((row) => row >= 0)
  return { $case: 'items', value: { items: rows.map((row) => view.item(row)) } }
}
