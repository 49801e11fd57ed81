/**
 * Copies: what one change makes of sources in this account and of manifests from others.
 *
 * The plan is complete before anything is made, so a folder can be copied below itself. New ids and
 * codes follow the plan's pre-order, from the change's seed and code counter.
 */
import type { Blob, Change, ContentsCopied, Manifest, PasswordVerifier } from '@holdfast/wire'
import type { Account } from './account/account.ts'
import type { TreeSettings } from './contract.ts'
import { NewIds } from './new-ids.ts'
import { type Notes, noteNames, notesIn } from './tree/notes.ts'
import type { Tree } from './tree/tree.ts'

/** Ids of a copy, made in slices while it was decided. Only a cache: replay makes the same ones. */
export interface PreparedIds {
  seed: Uint8Array
  codeStart: number
  ids: string[]
  codes: string[]
}

/** Copies planned or made before other accounts get their turn: a few milliseconds. */
const copiesPerSlice = 1_024

interface PlannedCopy {
  /** Place in the plan; -1: the destination. */
  parent: number
  isFolder: boolean
  name: string
  notes: Notes
  modTime: number
  mimetype: string
  blob: Blob | undefined
  isPublic: boolean
  password: PasswordVerifier | undefined
  expiry: number | undefined
}

/** @returns for each source its id and that of its copy. */
export function* applyCopy(
  account: Account,
  event: ContentsCopied,
  {
    settings,
    change,
    prepared,
  }: { settings: TreeSettings; change: Change; prepared: PreparedIds | undefined },
): Generator<void, string[]> {
  const { tree } = account
  const plan: PlannedCopy[] = []
  const starts: number[] = []
  const leftOut = new Set(event.leftOut.map((id) => account.row(id)))
  for (const source of event.sources) {
    starts.push(plan.length)
    if (source.manifest === undefined)
      yield* planOwn(tree, account.row(source.contentId), { plan, leftOut, event })
    else planForeign(source.manifest, { plan, event })
  }
  const { ids, codes } = idsOf(account, plan.length, { settings, change, prepared })
  const destination = account.row(event.folderId)
  tree.orders.expect(destination, starts.length)
  const rows: number[] = []
  for (const [place, planned] of plan.entries()) {
    const parent = planned.parent < 0 ? destination : (rows[planned.parent] as number)
    rows.push(
      make(tree, parent, planned, {
        id: ids[place] as string,
        code: codes[place] as string,
        time: event.time,
      }),
    )
    if (place % copiesPerSlice === copiesPerSlice - 1) yield
  }
  tree.setModTime(destination, event.time)
  return event.sources.flatMap((source, index) => [source.contentId, ids[starts[index] as number] as string])
}

function idsOf(
  account: Account,
  count: number,
  {
    settings,
    change,
    prepared,
  }: { settings: TreeSettings; change: Change; prepared: PreparedIds | undefined },
): { ids: string[]; codes: string[] } {
  if (
    prepared !== undefined &&
    prepared.ids.length === count &&
    prepared.codeStart === change.codeStart &&
    Buffer.compare(prepared.seed, change.seed) === 0
  )
    return prepared
  const from = { account: account.id, seed: change.seed, codeStart: change.codeStart }
  return new NewIds(settings, from).both(count)
}

function* planOwn(
  tree: Tree,
  top: number,
  { plan, leftOut, event }: { plan: PlannedCopy[]; leftOut: Set<number>; event: ContentsCopied },
): Generator<void, void> {
  const open = [{ row: top, parent: -1 }]
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    const place = plan.length
    plan.push(ownEntry(tree, at.row, { parent: at.parent, event }))
    if (!tree.isFolder(at.row)) continue
    for (const file of tree.fileRows(at.row)) {
      plan.push(ownEntry(tree, file, { parent: place, event }))
      if (plan.length % copiesPerSlice === 0) yield
    }
    const below = [...tree.folderRows(at.row)].filter((folder) => !leftOut.has(folder))
    for (const row of below.reverse()) open.push({ row, parent: place })
  }
}

/**
 * Copies of own folders keep public, password and a future expiry, within the lifetimes of new
 * folders.
 */
function ownEntry(
  tree: Tree,
  row: number,
  { parent, event }: { parent: number; event: ContentsCopied },
): PlannedCopy {
  const isFolder = tree.isFolder(row)
  const expiry = isFolder ? tree.expiryOf(row) : undefined
  return {
    parent,
    isFolder,
    name: tree.contents.names[row] as string,
    notes: tree.sparse.notesOf(row),
    modTime: isFolder ? event.time : (tree.contents.modified[row] as number),
    mimetype: tree.contents.mimetypes[row] as string,
    blob: isFolder ? undefined : tree.blobs.blob(tree.blobRowOf(row)),
    isPublic: isFolder && tree.isPublic(row),
    password: isFolder ? tree.passwordOf(row) : undefined,
    expiry: isFolder ? copiedExpiry(expiry, event) : undefined,
  }
}

function copiedExpiry(expiry: number | undefined, event: ContentsCopied): number | undefined {
  const { ownExpiry, latestExpiry } = event
  const kept = expiry !== undefined && expiry > event.time ? expiry : ownExpiry
  return kept === undefined || latestExpiry === undefined ? kept : Math.min(kept, latestExpiry)
}

function planForeign(
  manifest: Manifest,
  { plan, event }: { plan: PlannedCopy[]; event: ContentsCopied },
): void {
  const start = plan.length
  for (const [index, entry] of manifest.entries.entries())
    plan.push({
      parent: index === 0 ? -1 : start + entry.parent,
      isFolder: entry.isFolder,
      name: entry.name,
      notes: notesIn(entry),
      modTime: entry.isFolder ? event.time : entry.modTime,
      mimetype: entry.mimetype,
      blob: entry.blob,
      isPublic: event.isPublic,
      password: event.password,
      expiry: event.expiry,
    })
}

function make(
  tree: Tree,
  parent: number,
  planned: PlannedCopy,
  { id, code, time }: { id: string; code: string; time: number },
): number {
  const details = { id, code, name: planned.name, createTime: time, modTime: planned.modTime }
  const row =
    planned.blob === undefined
      ? tree.addFolder(parent, {
          ...details,
          isPublic: planned.isPublic,
          password: planned.password,
          expiry: planned.expiry,
        })
      : tree.addFile(parent, { ...details, mimetype: planned.mimetype }, tree.blobs.use(planned.blob))
  for (const name of noteNames) {
    const text = planned.notes[name]
    if (text) tree.sparse.setNote(name, row, text)
  }
  return row
}
