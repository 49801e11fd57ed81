/**
 * The part of a change that is valid for a state without earlier changes.
 *
 * Only what names existing things is applied, and nothing is removed: a lost change may have moved
 * a file out of the folder that this one deletes. Copies are left out, because their ids derive
 * from the content of the source. Ends of effects are left out, because numbers of effects follow
 * from all earlier changes: pending effects are carried out again, which is harmless.
 */
import { hex, isTier } from '@holdfast/kernel'
import type { Change, Event } from '@holdfast/wire'
import type { Account } from '../account/account.ts'
import { attributesOf } from '../attributes.ts'
import { treeDepthMax } from '../bounds.ts'

export interface SalvageResult {
  /** Undefined: nothing of it. */
  change: Change | undefined
  /** The omitted parts, as text. */
  left: string[]
}

type KnownEvent = NonNullable<Event['event']>

export function salvage(account: Account, change: Change): SalvageResult {
  const left: string[] = []
  const events: KnownEvent[] = []
  // Things that this change itself makes.
  const made = new Map<string, 'folder' | 'file'>()
  for (const { event } of change.events) {
    const kept = event === undefined ? 'an event of an unknown kind' : salvageEvent(account, event, made)
    if (typeof kept === 'string') left.push(kept)
    else if (kept !== undefined) events.push(kept)
  }
  if (events.length === 0) return { change: undefined, left }
  return { change: { ...change, events: events.map((event) => ({ event })) }, left }
}

/** @returns undefined for what is left out without a loss. */
function salvageEvent(
  account: Account,
  event: KnownEvent,
  made: Map<string, 'folder' | 'file'>,
): KnownEvent | string | undefined {
  const { tree } = account
  const isThere = (id: string) => tree.find(id) >= 0 || made.has(id)
  const isFolder = (id: string) =>
    made.has(id) ? made.get(id) === 'folder' : isThere(id) && tree.isFolder(tree.find(id))
  if (event.$case !== 'accountCreated' && account.record === undefined && !made.has('account'))
    return `${event.$case}: the account itself was lost`
  switch (event.$case) {
    case 'accountCreated':
      if (account.record !== undefined) return 'a second creation of the account'
      made.set('account', 'file').set(event.value.rootId, 'folder').set(event.value.binId, 'folder')
      return event
    case 'folderAdded':
    case 'fileAdded': {
      const { id, name, parentId } = event.value
      const what = event.$case === 'fileAdded' ? 'file' : 'folder'
      if (isThere(id)) return `${what} ${id} ("${name}"): it is there already`
      if (!isFolder(parentId)) return `${what} ${id} ("${name}"): its folder ${parentId} is lost`
      if (event.$case === 'fileAdded' && event.value.blob === undefined) return `file ${id}: it has no bytes`
      made.set(id, what)
      return event
    }
    case 'attributeSet': {
      const { id, attribute } = event.value
      if (!isThere(id) || attribute === undefined) return `an attribute of ${id}, which is lost`
      return attributesOf[attribute.$case] === 'all' || isFolder(id)
        ? event
        : `${attribute.$case} of ${id}, which is no folder`
    }
    case 'contentsMoved': {
      const { ids, folderId } = event.value
      const row = tree.find(folderId)
      if (row < 0 || !tree.isFolder(row) || tree.inBin(row))
        return `a move of ${ids.length} contents into ${folderId}`
      const fits = ids.filter((id) => {
        const moved = tree.find(id)
        return (
          moved >= 0 &&
          moved !== tree.root &&
          moved !== tree.bin &&
          !tree.inBin(moved) &&
          !tree.isBelow(row, moved) &&
          tree.depthOf(row) + tree.heightOf(moved) <= treeDepthMax
        )
      })
      // Folders of one list may be nested: what fits alone fits one after the other.
      return fits.length === ids.length ? event : `a move of ${ids.length} contents into ${folderId}`
    }
    case 'contentsRestored': {
      const ids = event.value.ids.filter((id) => tree.find(id) >= 0)
      const undone = event.value.undone.filter((id) => tree.findHeld(id) >= 0)
      if (ids.length + undone.length === 0)
        return `a restoring of ${event.value.ids.length + event.value.undone.length} contents`
      return { ...event, value: { ...event.value, ids, undone } }
    }
    case 'contentsDeleted':
      return `a deletion of ${event.value.ids.length} contents: ${event.value.ids.join(', ')}`
    case 'contentsCopied':
      return `a copy of ${event.value.sources.length} contents into ${event.value.folderId}`
    case 'directLinkPut':
      return isThere(event.value.contentId) && event.value.link !== undefined
        ? event
        : `a direct link of ${event.value.contentId}`
    case 'directLinkDeleted':
      return isThere(event.value.contentId)
        ? event
        : `an end of a direct link of ${event.value.contentId}, which is lost`
    case 'tokenReset':
      return account.record === undefined || event.value.tokenCounter > account.record.tokenCounter
        ? event
        : 'an older reset of the token'
    case 'accountSet': {
      const { tier } = event.value.set ?? {}
      return event.value.set !== undefined && (tier === undefined || isTier(tier)) ? event : 'a setting'
    }
    case 'downloadsReported': {
      const { report } = event.value
      const isNew = report !== undefined && account.isNewReport(hex(report.source), report.sequence)
      return isNew ? event : 'a report of downloads'
    }
    case 'folderClosed':
      return isFolder(event.value.id) ? event : `the end of folder ${event.value.id}, which is lost`
    case 'emailConfirmed':
      return event
    case 'signInRequested':
      return 'a sign-in mail'
    case 'effectsDone':
      return undefined
  }
}
