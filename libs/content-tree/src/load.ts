/** The tree from the columns of a checkpoint. */
import { isAscii } from 'node:buffer'
import type { CheckpointPage, ContentColumns } from '@holdfast/wire'
import { assertRows, none, setColumn, wordsOf } from './columns.ts'
import type { Tree } from './tree.ts'

export function* loadContents(tree: Tree, pages: readonly CheckpointPage[]): Generator<void, void> {
  reserve(tree, pages)
  const passwords = pages.flatMap((page) => page.passwords)
  for (const { blobs } of pages) {
    if (blobs === undefined) continue
    tree.blobs.load(blobs)
    yield
  }
  const rows = new Loader(tree, passwords)
  for (const { contents } of pages) {
    if (contents === undefined) continue
    rows.load(contents)
    yield
  }
  tree.restored()
  for (const note of pages.flatMap((page) => page.notes)) {
    if (note.description !== undefined) tree.setText(tree.descriptions, note.row, note.description)
    if (note.tags !== undefined) tree.setText(tree.tags, note.row, note.tags)
    if (note.recycledTime !== undefined)
      tree.recycled.set(note.row, { time: note.recycledTime, from: note.recycledFrom ?? '' })
  }
  for (const { row, link } of pages.flatMap((page) => page.links))
    if (link !== undefined) tree.setDirectLinks(row, [...(tree.directLinks.get(row) ?? []), link])
}

function reserve(tree: Tree, pages: readonly CheckpointPage[]): void {
  const rows = { contents: 0, folders: 0, blobs: 0 }
  for (const { contents, blobs } of pages) {
    rows.contents += contents?.flags.length ?? 0
    rows.folders += (contents?.expiries.length ?? 0) / 8
    rows.blobs += (blobs?.releases.length ?? 0) / 8
  }
  tree.reserve(rows)
}

/**
 * Sets whole columns; the remaining work per row is its name, its place in the index and its
 * neighbours.
 */
class Loader {
  readonly #tree: Tree
  readonly #passwords: CheckpointPage['passwords']

  constructor(tree: Tree, passwords: CheckpointPage['passwords']) {
    this.#tree = tree
    this.#passwords = passwords
  }

  /** Rows come in pre-order: a parent before its children. */
  load(columns: ContentColumns): void {
    const { contents } = this.#tree
    const { flags, names, nameLengths, mimetypeIndexes } = columns
    const count = flags.length
    assertRows(count, [
      [columns.ids, 16],
      [columns.parents, 4],
      [columns.links, 4],
      [columns.codes, 8],
      [columns.createTimes, 8],
      [columns.modTimes, 8],
      [columns.downloads, 8],
      [nameLengths, 4],
      [mimetypeIndexes, 2],
    ])
    const mimetypes = columns.mimetypes.map((mimetype) => this.#tree.shared(mimetype))
    const first = contents.takeRun(count)
    setColumn(contents.ids, first, columns.ids, 4)
    setColumn(contents.code, first, columns.codes, 8)
    setColumn(contents.created, first, columns.createTimes)
    setColumn(contents.modified, first, columns.modTimes)
    setColumn(contents.downloads, first, columns.downloads)
    setColumn(contents.parent, first, columns.parents)
    setColumn(contents.link, first, columns.links)
    const nameOf = namesOf(names, nameLengths)
    const mimetypeOf = new Uint16Array(count)
    setColumn(mimetypeOf, 0, mimetypeIndexes)
    let folderAt = 0
    for (let place = 0; place < count; place++) {
      const row = first + place
      const parent = contents.parent[row] as number
      if (parent !== none && parent >= row) throw new Error('a checkpoint row before its parent')
      const name = nameOf[place] as string
      const flag = flags[place] as number
      if ((flag & 1) === 0) {
        const mimetype = mimetypes[mimetypeOf[place] as number]
        if (mimetype === undefined || (contents.link[row] as number) >= this.#tree.blobs.columns.count)
          throw new Error('a checkpoint row names a type or a blob that is not there')
        this.#tree.restoreFile(row, { name, parent, mimetype })
        continue
      }
      const link = contents.link[row] as number
      const expiry = columns.expiries.readDoubleLE(folderAt++ * 8)
      const password = link === 0 ? undefined : this.#passwords[link - 1]
      if (link !== 0 && password === undefined) throw new Error('a checkpoint folder without its password')
      this.#tree.restoreFolder(row, { name, parent, flags: flag, expiry, password })
    }
  }
}

/**
 * In ASCII they are substrings of one string, which lives as long as one of them; anything else is
 * decoded name by name.
 */
function namesOf(names: Buffer, nameLengths: Uint8Array): string[] {
  const found: string[] = []
  const text = isAscii(names) ? names.toString('latin1') : undefined
  let at = 0
  for (const length of wordsOf(nameLengths)) {
    const end = at + length
    found.push(text === undefined ? names.toString('utf8', at, end) : text.slice(at, end))
    at = end
  }
  if (at !== names.length) throw new Error('checkpoint names of other lengths than theirs')
  return found
}
