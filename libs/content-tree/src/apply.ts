/**
 * The effect of each event on the state. Deterministic; the meaning of a published event never
 * changes.
 *
 * An event that does not fit the state is damage or a bug: it throws, and is never skipped.
 */
import { bytesOfUuid, hex, uuidOfBytes } from '@holdfast/kernel'
import {
  type AccountCreated,
  type AttributeSet,
  type Change,
  type ContentsDeleted,
  type ContentsMoved,
  type ContentsRestored,
  type DirectLinkDeleted,
  type DirectLinkPut,
  type DownloadsReported,
  type Event,
  type FileAdded,
  type FolderAdded,
  SweepReason,
  type TokenReset,
} from '@holdfast/wire'
import type { Account } from './account/account.ts'
import { type AccountRecord, withSet } from './account/record.ts'
import { freedRowsPerSlice, sweepRowsPerChangeMax, treeDepthMax } from './bounds.ts'
import type { TreeSettings } from './contract.ts'
import { applyCopy, type PreparedIds } from './copy.ts'
import { isKept, recipeBytes, recipeIds } from './operations.ts'
import { none } from './tree/columns.ts'

const rootName = 'root'
const binName = 'recyclebin'
const heldName = 'held'

/**
 * Yields within large copies, and while many rows are freed.
 * @param prepared ids made while the change was decided; made again when absent.
 */
export function* applyChange(
  account: Account,
  change: Change,
  { settings, prepared }: { settings: TreeSettings; prepared: PreparedIds | undefined },
): Generator<void, void> {
  const recipe: string[] = []
  for (const { event } of change.events) {
    if (event === undefined) throw new Error('an event of a kind this version does not know')
    if (event.$case === 'contentsCopied')
      recipe.push(...(yield* applyCopy(account, event.value, { settings, change, prepared })))
    else if (event.$case === 'contentsDeleted') yield* applyDeletion(account, event.value)
    else {
      applyEvent(account, event, change.timeMs)
      recipe.push(...recipeIds(event))
    }
  }
  // New files were used last, so only the first one changes when the next file becomes idle.
  if (account.idleSince?.earliest === undefined) account.idleSince = undefined
  const { tree, effects } = account
  const { codeStart, codesUsed } = change
  if (codesUsed !== undefined) account.nextCode = { next: codeStart + codesUsed.count, term: codesUsed.term }
  yield* tree.sweep(sweepRowsPerChangeMax, (blob) => effects.addRelease(blob))
  if (!isKept(change)) return
  account.outcomes.keep({
    requestId: change.requestId,
    timeMs: change.timeMs,
    operation: change.operation,
    reply: change.outcome,
    ids: recipeBytes(change.outcome.length > 0 ? [] : recipe),
  })
}

function applyEvent(
  account: Account,
  event: Exclude<NonNullable<Event['event']>, { $case: 'contentsCopied' | 'contentsDeleted' }>,
  timeMs: number,
): void {
  switch (event.$case) {
    case 'accountCreated':
      applyCreation(account, event.value)
      break
    case 'folderAdded':
      folderAdded(account, event.value)
      break
    case 'fileAdded':
      fileAdded(account, event.value)
      break
    case 'attributeSet':
      attributeSet(account, event.value)
      break
    case 'contentsMoved':
      applyMove(account, event.value)
      break
    case 'contentsRestored':
      applyRestoration(account, event.value)
      break
    case 'directLinkPut':
      linkPut(account, event.value)
      break
    case 'directLinkDeleted':
      linkDeleted(account, event.value)
      break
    case 'tokenReset':
      tokenReset(account, event.value)
      break
    case 'accountSet':
      if (event.value.set !== undefined) account.record = withSet(account.known, event.value.set)
      if (event.value.set?.clearEndTime) account.idleSince = undefined
      break
    case 'downloadsReported':
      downloadsReported(account, event.value, Math.floor(timeMs / 1000))
      break
    case 'folderClosed':
      account.tree.timers.close(account.row(event.value.id))
      break
    case 'signInRequested':
      signInRequested(account)
      break
    case 'emailConfirmed':
      account.record = { ...account.known, emailConfirmed: true }
      break
    case 'effectsDone':
      for (const number of event.value.numbers) account.effects.done(number)
      break
  }
}

export function recordOfNew(event: AccountCreated): AccountRecord {
  return {
    id: event.id,
    email: event.email,
    emailConfirmed: false,
    tier: event.email === undefined ? 'guest' : 'standard',
    premiumType: undefined,
    createTime: event.createTime,
    tokenKeyId: event.tokenKeyId,
    tokenCounter: 0,
    previousTokenKeyId: event.tokenKeyId,
    recycleBin: false,
    limitContents: undefined,
    limitStorage: undefined,
    trafficDirect: 0,
    trafficWeb: 0,
    idleFrom: undefined,
    endTime: undefined,
  }
}

function applyCreation(account: Account, event: AccountCreated): void {
  if (account.record !== undefined) throw new Error(`account ${account.id} was created twice`)
  account.record = recordOfNew(event)
  const top = { code: '', createTime: event.createTime, modTime: event.createTime, isPublic: false }
  const { tree } = account
  tree.root = tree.addFolder(none, {
    ...top,
    id: event.rootId,
    name: rootName,
    password: undefined,
    expiry: undefined,
  })
  tree.bin = tree.addFolder(none, {
    ...top,
    id: event.binId,
    name: binName,
    password: undefined,
    expiry: undefined,
  })
}

function folderAdded(account: Account, event: FolderAdded): void {
  const { tree } = account
  const parent = account.row(event.parentId)
  tree.addFolder(parent, { ...event, password: event.password, expiry: event.expiry })
  tree.setModTime(parent, event.createTime)
}

function fileAdded(account: Account, event: FileAdded): void {
  const { tree } = account
  if (event.blob === undefined) throw new Error(`file ${event.id} without a blob`)
  const parent = account.row(event.parentId)
  tree.addFile(parent, event, tree.blobs.use(event.blob))
  tree.setModTime(parent, event.createTime)
}

function attributeSet(account: Account, event: AttributeSet): void {
  const { tree } = account
  const row = account.row(event.id)
  const { attribute } = event
  switch (attribute?.$case) {
    case 'name': {
      tree.rename(row, attribute.value)
      const parent = tree.parentOf(row)
      if (parent !== none) tree.setModTime(parent, event.time)
      break
    }
    case 'description':
    case 'tags':
      tree.sparse.setNote(attribute.$case, row, attribute.value)
      break
    case 'isPublic':
      tree.setPublic(row, attribute.value)
      break
    case 'password':
      tree.setPassword(row, attribute.value.verifier)
      break
    case 'expiry':
      tree.setExpiry(row, attribute.value.expiry, attribute.value.deleteAfterExpiry)
      break
    case 'modTime':
      tree.setModTime(row, attribute.value)
      break
    case 'code':
      tree.setCode(row, attribute.value)
      break
    case undefined:
      throw new Error('an attribute of a kind this version does not know')
  }
}

/**
 * The bin's own id means everything in it. Contents of a folder named before are already deleted.
 */
function* applyDeletion(account: Account, event: ContentsDeleted): Generator<void, void> {
  const { tree } = account
  if (event.sweep?.why === SweepReason.IDLE) account.idleSince = undefined
  for (const id of event.ended) {
    const row = tree.findHeld(id)
    if (row >= 0) discard(account, row, event.time)
  }
  for (const id of event.ids) {
    const row = tree.find(id)
    if (row < 0 || (event.toBin && tree.inBin(row))) continue
    if (event.sweep?.heldUntil !== undefined)
      hold(account, row, { time: event.time, until: event.sweep.heldUntil, why: event.sweep.why })
    else if (row === tree.bin) yield* applyEmptiedBin(account, event.time)
    else if (event.toBin) recycle(account, row, event.time)
    else discard(account, row, event.time)
  }
}

function* applyEmptiedBin(account: Account, time: number): Generator<void, void> {
  const { tree } = account
  const children = [...tree.children(tree.bin)]
  tree.orders.expect(tree.bin, children.length)
  for (const [place, child] of children.entries()) {
    discard(account, child, time)
    if (place % freedRowsPerSlice === freedRowsPerSlice - 1) yield
  }
}

function recycle(account: Account, row: number, time: number): void {
  const { tree } = account
  const parent = tree.parentOf(row)
  tree.sparse.setRecycled(row, { time, from: tree.idOf(parent) })
  tree.move(row, tree.bin)
  tree.setModTime(parent, time)
  tree.setModTime(tree.bin, time)
}

/** Hides a content from every caller. The operator can restore it until `until`. */
function hold(account: Account, row: number, swept: { time: number; until: number; why: SweepReason }): void {
  const { tree } = account
  if (tree.held === none)
    tree.held = tree.addFolder(none, {
      id: heldIdOf(tree.idOf(tree.bin)),
      name: heldName,
      code: '',
      createTime: swept.time,
      modTime: swept.time,
      isPublic: false,
      password: undefined,
      expiry: undefined,
    })
  const parent = tree.parentOf(row)
  const from = tree.sparse.recycled.get(row)?.from ?? tree.idOf(parent)
  tree.sparse.setRecycled(row, undefined)
  tree.sparse.setSwept(row, { ...swept, from })
  tree.move(row, tree.held)
  tree.setModTime(parent, swept.time)
}

/** No content has this id: ids are permutations of an account and a random number. */
function heldIdOf(binId: string): string {
  return uuidOfBytes(bytesOfUuid(binId).map((byte) => byte ^ 0xff))
}

function discard(account: Account, row: number, time: number): void {
  const { tree, effects } = account
  tree.setModTime(tree.parentOf(row), time)
  tree.discard(row, (blob) => effects.addRelease(blob))
}

function applyMove(account: Account, event: ContentsMoved): void {
  const { tree } = account
  const folder = account.row(event.folderId)
  tree.orders.expect(folder, event.ids.length)
  for (const id of event.ids) {
    const row = account.row(id)
    const parent = tree.parentOf(row)
    if (parent === folder) continue
    tree.move(row, folder)
    noteUse(account, row, event.time)
    tree.setModTime(parent, event.time)
    tree.setModTime(folder, event.time)
  }
}

/**
 * Back to its old folder; to the root when that is deleted, recycled, expired, or too deep by now.
 */
function applyRestoration(account: Account, event: ContentsRestored): void {
  const { tree } = account
  for (const id of event.ids) {
    const row = account.row(id)
    if (!tree.inBin(row)) continue
    const parent = tree.parentOf(row)
    const target = restoreTarget(account, row, {
      from: tree.sparse.recycled.get(row)?.from,
      time: event.time,
    })
    tree.sparse.setRecycled(row, undefined)
    tree.move(row, target)
    noteUse(account, row, event.time)
    tree.setModTime(parent, event.time)
    tree.setModTime(target, event.time)
  }
  for (const id of event.undone) undone(account, id, event.time)
  // One of them may be the file with the earliest last use.
  account.idleSince = undefined
}

function undone(account: Account, id: string, time: number): void {
  const { tree } = account
  const row = tree.findHeld(id)
  if (row < 0) throw new Error(`content ${id} of account ${account.id} is not held`)
  const target = restoreTarget(account, row, { from: tree.sparse.sweptByRow.get(row)?.from, time })
  tree.sparse.setSwept(row, undefined)
  tree.move(row, target)
  noteUse(account, row, time)
  tree.setModTime(target, time)
  if (!tree.isFolder(row)) return
  const open = [row]
  for (let folder = open.pop(); folder !== undefined; folder = open.pop()) {
    const expiry = tree.expiryOf(folder)
    if (expiry !== undefined && expiry <= time) tree.setExpiry(folder, undefined, false)
    open.push(...tree.folderRows(folder))
  }
  tree.timers.wake(row)
}

/** Noted once the account's files can become idle. */
function noteUse(account: Account, row: number, time: number): void {
  if (account.known.idleFrom === undefined) return
  account.tree.setUsed(row, time)
}

function restoreTarget(
  account: Account,
  row: number,
  { from, time }: { from: string | undefined; time: number },
): number {
  const { tree } = account
  const before = from === undefined ? -1 : tree.find(from)
  if (before < 0 || tree.inBin(before)) return tree.root
  if ((tree.endsOf(before) ?? Number.POSITIVE_INFINITY) <= time) return tree.root
  return tree.depthOf(before) + tree.heightOf(row) > treeDepthMax ? tree.root : before
}

function linkPut(account: Account, { contentId, link }: DirectLinkPut): void {
  if (link === undefined) throw new Error('a direct link without its record')
  const row = account.row(contentId)
  const links = account.tree.sparse.directLinks.get(row) ?? []
  const known = links.some((other) => other.id === link.id)
  const changed = known ? links.map((other) => (other.id === link.id ? link : other)) : [...links, link]
  account.tree.sparse.setDirectLinks(row, changed)
}

function linkDeleted(account: Account, { contentId, linkId }: DirectLinkDeleted): void {
  const row = account.row(contentId)
  const links = account.tree.sparse.directLinks.get(row) ?? []
  account.tree.sparse.setDirectLinks(
    row,
    links.filter((link) => link.id !== linkId),
  )
}

function tokenReset(account: Account, event: TokenReset): void {
  const record = account.known
  account.record = {
    ...record,
    previousTokenKeyId: record.tokenKeyId,
    tokenKeyId: event.tokenKeyId,
    tokenCounter: event.tokenCounter,
  }
}

function signInRequested(account: Account): void {
  const { email, tokenKeyId, tokenCounter } = account.known
  if (email !== undefined) account.effects.addMail({ email, tokenKeyId, tokenCounter })
}

function downloadsReported(account: Account, { report }: DownloadsReported, time: number): void {
  if (report === undefined) throw new Error('a report without its counts')
  const { tree } = account
  account.heard(hex(report.source), report.sequence)
  const record = account.known
  for (const { contentId, count } of report.counts) {
    const row = tree.find(contentId)
    if (row < 0) continue
    if (!tree.isFolder(row)) tree.addDownloads(row, count)
    if (record.idleFrom !== undefined) tree.setUsed(row, time)
  }
  account.record = {
    ...record,
    trafficDirect: record.trafficDirect + report.trafficDirect,
    trafficWeb: record.trafficWeb + report.trafficWeb,
  }
}
