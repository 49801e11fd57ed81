/**
 * Approximate size of content in an answer, in bytes of JSON. Close enough to bound an answer: long
 * parts are counted as they will be written, the rest by its usual size.
 */
import { hasNotes, noteNames } from '../tree/notes.ts'
import type { Tree } from '../tree/tree.ts'
import { jsonBytes, linksBytes, urlBytes } from './json-bytes.ts'
import type { ReaderView } from './reader-view.ts'

/** Ids, times, numbers, the names of the members, a server, the link with its capability. */
const fileBytes = 700
const folderBytes = 350

/** An item as it is listed, without children. */
export function listedBytes(view: ReaderView, row: number): number {
  const { tree } = view
  const name = tree.contents.names[row] as string
  const isFolder = tree.isFolder(row)
  if (!view.isOpen(row)) return folderBytes + jsonBytes(name)
  let bytes = isFolder ? folderBytes + jsonBytes(name) : fileBytes + jsonBytes(name) + urlBytes(name)
  bytes += notesBytes(tree, row)
  if (!isFolder) bytes += jsonBytes(tree.contents.mimetypes[row] as string)
  if (view.isOwner) bytes += linksBytes(tree.sparse.directLinks.get(row), name)
  return bytes
}

function notesBytes(tree: Tree, row: number): number {
  const known = tree.sparse.notesInAnswers.get(row)
  if (known !== undefined) return known
  const notes = tree.sparse.notesOf(row)
  if (!hasNotes(notes)) return 0
  let bytes = 0
  for (const name of noteNames) bytes += jsonBytes(notes[name] ?? '')
  tree.sparse.notesInAnswers.set(row, bytes)
  return bytes
}
