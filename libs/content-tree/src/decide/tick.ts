/**
 * What a timer does in an account: expiries, the end of the bin's 30 days, idle files, and the end
 * of restorable deletions.
 */
import { type Event, SweepReason, type SweptFolder } from '@holdfast/wire'
import type { Account } from '../account/account.ts'
import { limitsOf } from '../account/record.ts'
import { duePerTickMax, heldContentsMax, recycledSecondsMax } from '../bounds.ts'
import type { Outcome, TreeSettings } from '../contract.ts'
import { none } from '../tree/columns.ts'
import { idleBefore, idleDue, idleFiles } from '../tree/idle-files.ts'
import { lifetimesOf } from './lifetimes.ts'
import { answer, done, type RequestContext, refuse } from './request-context.ts'

type Events = NonNullable<Event['event']>[]

export function tick(context: RequestContext): Outcome {
  if (context.viewer.kind !== 'system' && context.viewer.kind !== 'operator') return refuse('error-notOwner')
  const { endTime } = context.account.known
  const events =
    endTime === undefined
      ? [...dueEvents(context), ...heldOver(context, false), ...idleNow(context)]
      : endExpiredAccount(context, context.now >= endTime)
  const garbage = context.tree.garbage.length > 0
  return events.length === 0 && !garbage ? answer(done) : context.changed(events, done)
}

/**
 * Folders whose expiry is over, and content whose time in the bin is over. By the current tier and
 * consent such a folder is deleted with everything that is in it now, or closed permanently. At
 * most a bounded number is taken; the rest stays due.
 */
export function dueEvents(context: RequestContext): Events {
  const { tree, now } = context
  const expired: number[] = []
  const events: Events = []
  for (const folder of tree.timers.due(now, duePerTickMax)) {
    if (context.isPremium && !tree.deletesAfterExpiry(folder))
      events.push({ $case: 'folderClosed', value: { id: tree.idOf(folder) } })
    else expired.push(folder)
  }
  // Closed first: a closed folder may be inside a deleted one.
  const among = new Set(expired)
  // Content below another deleted one is deleted with it.
  const over = overInBin(context, duePerTickMax - expired.length).filter((row) => !among.has(row))
  const going = among.union(new Set(over))
  const tops = expired.filter((folder) => !isBelowAny(context, folder, going))
  return [
    ...events,
    ...swept(context, SweepReason.EXPIRED, tops, (folder) => folder),
    ...swept(context, SweepReason.BIN_OVER, over, () => tree.bin),
  ]
}

function isBelowAny({ tree }: RequestContext, folder: number, among: ReadonlySet<number>): boolean {
  for (let at = tree.parentOf(folder); at !== none; at = tree.parentOf(at)) if (among.has(at)) return true
  return false
}

function overInBin({ tree, now }: RequestContext, max: number): number[] {
  const rows: number[] = []
  for (const row of tree.children(tree.bin)) {
    if (rows.length >= max) break
    const recycled = tree.sparse.recycled.get(row)
    if (recycled !== undefined && now >= recycled.time + recycledSecondsMax) rows.push(row)
  }
  return rows
}

/** The deletion of these rows by a timer. @param folderOf their folder in the operator's log. */
function swept(
  context: RequestContext,
  why: SweepReason,
  rows: readonly number[],
  folderOf: (row: number) => number,
): Events {
  if (rows.length === 0) return []
  const { tree, now } = context
  const folders = new Map<number, SweptFolder>()
  for (const row of rows) {
    const folder = folderOf(row)
    const { files, folders: below, bytes } = tree.totalsOf(row)
    const so = folders.get(folder) ?? { id: tree.idOf(folder), contents: 0, bytes: 0 }
    folders.set(folder, { ...so, contents: so.contents + files + below, bytes: so.bytes + bytes })
  }
  const sweep = { why, heldUntil: heldUntil(context, [...folders.values()]), folders: [...folders.values()] }
  const ids = rows.map((row) => tree.idOf(row))
  return [{ $case: 'contentsDeleted', value: { ids, toBin: false, time: now, sweep, ended: [] } }]
}

/**
 * Undefined: it cannot be restored. Held content has bounds equal to those of the account, so that
 * expiring folders do not take unlimited space.
 */
function heldUntil(context: RequestContext, folders: readonly SweptFolder[]): number | undefined {
  const { tree, account, settings, now } = context
  if (settings.undoSeconds === 0) return undefined
  const held = tree.held === none ? { files: 0, folders: 0, bytes: 0 } : tree.below(tree.held)
  let contents = held.files + held.folders
  let { bytes } = held
  for (const folder of folders) {
    contents += folder.contents
    bytes += folder.bytes
  }
  const limits = limitsOf(account.known, settings)
  const fits = contents <= Math.min(limits.contents ?? heldContentsMax, heldContentsMax)
  return fits && bytes <= (limits.storage ?? Number.POSITIVE_INFINITY)
    ? now + settings.undoSeconds
    : undefined
}

/**
 * A deleted account keeps its content until its end, so that the deletion can be undone, and is
 * then emptied: as much as one Tick does, the rest stays due.
 */
function endExpiredAccount(context: RequestContext, isOver: boolean): Events {
  const { tree, now } = context
  const held = heldOver(context, isOver)
  if (!isOver) return held
  const ids: string[] = []
  for (const row of tree.children(tree.root)) {
    if (ids.length >= duePerTickMax) break
    ids.push(tree.idOf(row))
  }
  // The bin's own id means everything in it.
  if (tree.childCount(tree.bin) > 0) ids.push(tree.idOf(tree.bin))
  const value = { ids, toBin: false, time: now, sweep: undefined, ended: [] }
  return ids.length === 0 ? held : [{ $case: 'contentsDeleted', value }, ...held]
}

/** Ends held content that cannot be restored any more. @param all ends all held content. */
function heldOver({ tree, now }: RequestContext, all: boolean): Events {
  if (tree.held === none) return []
  const rows = all
    ? tree.children(tree.held).take(duePerTickMax)
    : tree.sparse.heldTimers.due(now, duePerTickMax)
  const ended = [...rows].map((row) => tree.idOf(row))
  const value = { ids: [], toBin: false, time: now, sweep: undefined, ended }
  return ended.length === 0 ? [] : [{ $case: 'contentsDeleted', value }]
}

/**
 * Files without a download for too long. The first time the account only begins to note uses: no
 * file counts as unused since before then.
 */
function idleNow(context: RequestContext): Events {
  const { account, settings, tree, now } = context
  const { idleSeconds } = lifetimesOf(account.known, settings)
  if (idleSeconds === undefined) return []
  const { idleFrom } = account.known
  if (idleFrom === undefined) return [notesUses(now)]
  const found = idleFiles(tree, {
    from: idleFrom,
    before: idleBefore(now, idleSeconds),
    max: duePerTickMax,
  })
  if (found.rows.length === 0) account.idleSince = { earliest: found.since }
  return swept(context, SweepReason.IDLE, found.rows, (row) => tree.parentOf(row))
}

/** From now on the account notes when its contents are used. */
export function notesUses(now: number): Events[number] {
  const set = {
    clearLimits: false,
    clearLimitContents: false,
    clearLimitStorage: false,
    clearEndTime: false,
  }
  const unchanged = {
    tier: undefined,
    premiumType: undefined,
    recycleBin: undefined,
    limitContents: undefined,
    limitStorage: undefined,
    endTime: undefined,
  }
  return { $case: 'accountSet', value: { set: { ...unchanged, ...set, idleFrom: now } } }
}

/** Unix seconds; undefined: nothing will ever be due. */
export function nextDue(account: Account, settings: TreeSettings): number | undefined {
  const { tree, record } = account
  if (record === undefined) return undefined
  if (tree.garbage.length > 0) return 0
  const { endTime } = record
  const times =
    endTime === undefined
      ? [tree.timers.next(), nextInBin(tree), tree.sparse.heldTimers.next(), nextIdle(account, settings)]
      : [isEmpty(tree) ? undefined : endTime, tree.sparse.heldTimers.next()]
  const least = Math.min(...times.map((time) => time ?? Number.POSITIVE_INFINITY))
  return least === Number.POSITIVE_INFINITY ? undefined : least
}

function isEmpty(tree: Account['tree']): boolean {
  return [tree.root, tree.bin, tree.held].every((top) => top === none || tree.childCount(top) === 0)
}

/**
 * Files come into the bin in the order of time, and so do folders: the first of each is due first.
 */
function nextInBin(tree: Account['tree']): number | undefined {
  const first = firstOf(
    tree,
    tree.bin,
    (row) => (tree.sparse.recycled.get(row)?.time ?? 0) + recycledSecondsMax,
  )
  return tree.bin === none ? undefined : first
}

function firstOf(tree: Account['tree'], folder: number, timeOf: (row: number) => number): number | undefined {
  let least: number | undefined
  for (const rows of [tree.fileRows(folder), tree.folderRows(folder)])
    for (const row of rows) {
      const due = timeOf(row)
      if (least === undefined || due < least) least = due
      break
    }
  return least
}

function nextIdle(account: Account, settings: TreeSettings): number | undefined {
  const { idleSeconds } = lifetimesOf(account.known, settings)
  if (idleSeconds === undefined) return undefined
  const { idleFrom } = account.known
  if (idleFrom === undefined) return 0
  account.idleSince ??= {
    earliest: idleFiles(account.tree, { from: idleFrom, before: -1, max: 0 }).since,
  }
  const { earliest } = account.idleSince
  return earliest === undefined ? undefined : idleDue(earliest, idleSeconds)
}
