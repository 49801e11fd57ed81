/**
 * Contents that timers and operators deleted, and their restoring by the operator, for as long as
 * the settings, or the deletion, allow.
 */
import type { HeldContent, UndoSweeps } from '@holdfast/wire'
import { contentsMax, itemsPerAnswerMax } from '../bounds.ts'
import type { Outcome } from '../contract.ts'
import { none } from '../tree/columns.ts'
import { isList } from './check.ts'
import { itemsOf } from './lists.ts'
import { answer, type RequestContext, refuse } from './request-context.ts'

/** Newest first, as many as an answer holds. */
export function readHeld({ tree, viewer }: RequestContext): Outcome {
  if (viewer.kind !== 'operator') return refuse('error-notOwner')
  const rows = tree.held === none ? [] : [...tree.children(tree.held)]
  const contents: HeldContent[] = []
  for (const row of rows) {
    const swept = tree.sparse.sweptByRow.get(row)
    if (swept === undefined) continue
    const { files, bytes } = tree.totalsOf(row)
    contents.push({
      id: tree.idOf(row),
      isFolder: tree.isFolder(row),
      name: tree.contents.names[row] as string,
      why: swept.why,
      deletedTime: swept.time,
      heldUntil: swept.until,
      files,
      bytes,
    })
  }
  contents.sort((one, other) => other.deletedTime - one.deletedTime)
  return answer({ $case: 'held', value: { contents: contents.slice(0, itemsPerAnswerMax) } })
}

/** Restores to the old folder, or to the root, without expiries in the past. */
export function undoSweeps(context: RequestContext, { contentIds }: UndoSweeps): Outcome {
  const { tree, viewer } = context
  if (viewer.kind !== 'operator') return refuse('error-notOwner')
  if (!isList(contentIds)) return refuse('error-contentsId')
  const undone: string[] = []
  const before = tree.totals()
  let contents = before.files + before.folders
  for (const id of new Set(contentIds)) {
    const row = tree.findHeld(id)
    if (row < 0) return refuse('error-notFound')
    const { files, folders } = tree.totalsOf(row)
    contents += files + folders
    undone.push(tree.idOf(row))
  }
  if (contents > contentsMax) return refuse('error-limits')
  const value = { ids: [], time: context.now, undone }
  return context.changed([{ $case: 'contentsRestored', value }], () => itemsOf(context, undone))
}
