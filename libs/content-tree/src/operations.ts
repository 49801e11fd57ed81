/** Which operations keep a result, and the ids in it. */
import { bytesOfUuid, isRequestId, uuidOfBytes } from '@holdfast/kernel'
import { type Change, type Event, isCommand, type OperationName, operations } from '@holdfast/wire'

/** @returns 0 for a read: no result of it is kept. */
export function commandNumber(name: OperationName): number {
  return isCommand(name) ? operations[name].number : 0
}

/** Reports have sequence numbers of their own, and a second Tick finds nothing due. */
const ownMeansOfBeingOnce = new Set([operations.reportDownloads.number, operations.tick.number])

/** Whether a change's result is kept for a retry. */
export function isKept(change: Pick<Change, 'requestId' | 'operation'>): boolean {
  return isRequestId(change.requestId) && change.operation !== 0 && !ownMeansOfBeingOnce.has(change.operation)
}

/** Ids from which an answer can be made again. */
export function recipeIds(event: NonNullable<Event['event']>): string[] {
  if (event.$case === 'folderAdded' || event.$case === 'fileAdded' || event.$case === 'attributeSet')
    return [event.value.id]
  if (event.$case === 'contentsMoved') return event.value.ids
  if (event.$case === 'contentsRestored') return [...event.value.ids, ...event.value.undone]
  if (event.$case !== 'directLinkPut' || event.value.link === undefined) return []
  return [event.value.contentId, event.value.link.id]
}

export function idsOfRecipe(bytes: Buffer): string[] {
  const ids: string[] = []
  for (let at = 0; at < bytes.length; at += 16) ids.push(uuidOfBytes(bytes.subarray(at, at + 16)))
  return ids
}

export function recipeBytes(ids: readonly string[]): Buffer {
  return Buffer.concat(ids.map((id) => bytesOfUuid(id)))
}
