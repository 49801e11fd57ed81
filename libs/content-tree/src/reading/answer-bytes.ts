/**
 * Approximate size of content in an answer, in bytes of JSON. Close enough to bound an answer: long
 * parts are counted as they will be written, the rest by its usual size.
 */
import type { Tree } from '../tree/tree.ts'
import { jsonBytes, linksBytes, urlBytes } from './json-bytes.ts'
import type { Reading } from './reading.ts'

/** Ids, times, numbers, the names of the members, a server, the link with its capability. */
const fileBytes = 700
const folderBytes = 350

/** An item as it is listed, without children. */
export function answerBytes(reading: Reading, row: number): number {
  const { tree } = reading
  const name = tree.contents.names[row] as string
  const isFolder = tree.isFolder(row)
  if (!reading.isOpen(row)) return folderBytes + jsonBytes(name)
  let bytes = isFolder ? folderBytes + jsonBytes(name) : fileBytes + jsonBytes(name) + urlBytes(name)
  bytes += notesBytes(tree, row)
  if (!isFolder) bytes += jsonBytes(tree.contents.mimetypes[row] as string)
  if (reading.isOwner) bytes += linksBytes(tree.directLinks.get(row), name)
  return bytes
}

function notesBytes(tree: Tree, row: number): number {
  const known = tree.notesInAnswers.get(row)
  if (known !== undefined) return known
  const tags = tree.tags.get(row)
  const description = tree.descriptions.get(row)
  if (tags === undefined && description === undefined) return 0
  const bytes = jsonBytes(tags ?? '') + jsonBytes(description ?? '')
  tree.notesInAnswers.set(row, bytes)
  return bytes
}
