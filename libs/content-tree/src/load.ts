/** The tree from the columns of a checkpoint. */
import type { CheckpointPage, ContentColumns } from '@holdfast/wire'
import { none, setColumn } from './columns.ts'
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

/** Sets whole columns; what is left to do for a row is its name, its place in the index and its neighbours. */
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
    const parents = columns.parents.length / 4
    if (parents !== count || columns.links.length / 4 !== count || columns.ids.length !== 16 * count)
      throw new Error('checkpoint columns of different lengths')
    const mimetypes = columns.mimetypes.map((mimetype) => this.#tree.shared(mimetype))
    const first = contents.takeRun(count)
    setColumn(contents.ids, first, columns.ids, 4)
    setColumn(contents.code, first, columns.codes, 8)
    setColumn(contents.created, first, columns.createTimes)
    setColumn(contents.modified, first, columns.modTimes)
    setColumn(contents.downloads, first, columns.downloads)
    setColumn(contents.parent, first, columns.parents)
    setColumn(contents.link, first, columns.links)
    let nameAt = 0
    let folderAt = 0
    for (let place = 0; place < count; place++) {
      const row = first + place
      const parent = contents.parent[row] as number
      if (parent !== none && parent >= row) throw new Error('a checkpoint row before its parent')
      const nameEnd = nameAt + nameLengths.readUInt32LE(place * 4)
      const name = names.toString('utf8', nameAt, nameEnd)
      nameAt = nameEnd
      const flag = flags[place] as number
      if ((flag & 1) === 0) {
        const mimetype = mimetypes[mimetypeIndexes.readUInt16LE(place * 2)] as string
        this.#tree.restoreFile(row, { name, parent, mimetype })
        continue
      }
      const link = contents.link[row] as number
      const expiry = columns.expiries.readDoubleLE(folderAt++ * 8)
      const password = link === 0 ? undefined : this.#passwords[link - 1]
      this.#tree.restoreFolder(row, { name, parent, flags: flag, expiry, password })
    }
  }
}
