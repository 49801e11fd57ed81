/**
 * The operations by name: their field numbers in AccountRequest, and which of them keep a result.
 */
import { bytesOfUuid, isRequestId, uuidOfBytes } from '@holdfast/kernel'
import type { AccountOperation, Change, Event } from '@holdfast/wire'

export type OperationName = AccountOperation['$case']

export const commandNumbers: Partial<Record<OperationName, number>> = {
  createAccount: 30,
  addFile: 31,
  createFolder: 32,
  updateContent: 33,
  deleteContents: 34,
  copyContents: 35,
  moveContents: 36,
  putDirectLink: 37,
  deleteDirectLink: 38,
  resetToken: 39,
  setAccount: 40,
  addLegacyFolder: 41,
  restoreContents: 42,
  emptyBin: 43,
  reportDownloads: 44,
  tick: 45,
  sendSignIn: 46,
  confirmEmail: 47,
  undoSweeps: 48,
}

/** Reports have sequence numbers of their own, and a second Tick finds nothing due. */
const ownMeansOfBeingOnce = new Set([commandNumbers.reportDownloads, commandNumbers.tick])

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
