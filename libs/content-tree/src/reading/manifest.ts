/** A tree as a flat list in pre-order: for copies into other accounts and for archives. */

import { accessRefusal } from '@holdfast/access'
import { asBuffer } from '@holdfast/kernel'
import { Manifest, type ManifestEntry } from '@holdfast/wire'
import { manifestEntriesPerSlice } from '../bounds.ts'
import type { Tree } from '../tree/tree.ts'
import type { ReaderView } from './reader-view.ts'

/**
 * What to do with a folder met on the way down: take it, leave it out with everything below it, or
 * fail with this status.
 */
export type Choice = 'take' | 'leave' | { refuse: string }

/**
 * Stops at the first refusal. Yields between slices.
 * @param chosen contents of the top folder; undefined: all of them.
 */
export function* manifestOf(
  tree: Tree,
  top: number,
  choose: (folder: number) => Choice,
  chosen?: readonly number[],
): Generator<void, Manifest | { refuse: string }> {
  const entries: ManifestEntry[] = [entryOf(tree, top, 0)]
  if (!tree.isFolder(top)) return { entries }
  const open: { row: number; place: number }[] = [{ row: top, place: 0 }]
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    if (at.row !== top) {
      const parent = at.place
      at = { row: at.row, place: entries.length }
      entries.push(entryOf(tree, at.row, parent))
    }
    if (entries.length % manifestEntriesPerSlice === 0) yield
    const some = at.row === top ? chosen : undefined
    for (const file of some?.filter((row) => !tree.isFolder(row)) ?? tree.fileRows(at.row)) {
      entries.push(entryOf(tree, file, at.place))
      if (entries.length % manifestEntriesPerSlice === 0) yield
    }
    const below: { row: number; place: number }[] = []
    for (const folder of some?.filter((row) => tree.isFolder(row)) ?? tree.folderRows(at.row)) {
      const choice = choose(folder)
      if (typeof choice === 'object') return choice
      if (choice === 'take') below.push({ row: folder, place: at.place })
    }
    for (const folder of below.reverse()) open.push(folder)
  }
  return { entries }
}

/** The manifest, encoded in pages. Yields between pages. */
export function* manifestPages({ entries }: Manifest): Generator<void, Buffer[]> {
  const pages: Buffer[] = []
  for (let at = 0; at < entries.length; at += manifestEntriesPerSlice) {
    if (at > 0) yield
    const page = { entries: entries.slice(at, at + manifestEntriesPerSlice) }
    pages.push(asBuffer(Manifest.encode(page).finish()))
  }
  return pages
}

/**
 * Expired folders are never taken; a visitor takes readable folders, and leaves out or fails on the
 * rest.
 */
export function readableOnly(view: ReaderView, skipUnreadable: boolean): (folder: number) => Choice {
  return (folder) => {
    const ends = view.tree.expiryOf(folder)
    if (ends !== undefined && view.now >= ends) return 'leave'
    const access = view.accessToChild(folder)
    // A check that is still to be made decides the request again.
    if (access === 'open' || access === 'unknown') return 'take'
    return skipUnreadable || access === 'notFound' ? 'leave' : { refuse: accessRefusal(access) }
  }
}

function entryOf(tree: Tree, row: number, parent: number): ManifestEntry {
  const isFolder = tree.isFolder(row)
  return {
    sourceId: tree.idOf(row),
    parent,
    isFolder,
    name: tree.contents.names[row] as string,
    ...tree.sparse.notesOf(row),
    modTime: tree.contents.modified[row] as number,
    mimetype: tree.contents.mimetypes[row] as string,
    blob: isFolder ? undefined : tree.blobs.blob(tree.blobRowOf(row)),
  }
}
