/** The tree from the columns of a checkpoint. */
import type { CheckpointPage, ContentColumns } from '@holdfast/wire'
import { none } from './columns.ts'
import type { Tree } from './tree.ts'

export function loadContents(tree: Tree, pages: readonly CheckpointPage[]): void {
  reserve(tree, pages)
  const passwords = pages.flatMap((page) => page.passwords)
  for (const { blobs } of pages) if (blobs !== undefined) tree.blobs.load(blobs)
  const rows = new Loader(tree, passwords)
  for (const { contents } of pages) if (contents !== undefined) rows.load(contents)
  rows.end()
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

class Loader {
  readonly #tree: Tree
  readonly #passwords: CheckpointPage['passwords']
  #end = 0

  constructor(tree: Tree, passwords: CheckpointPage['passwords']) {
    this.#tree = tree
    this.#passwords = passwords
  }

  /** Rows come in pre-order: a parent before its children. */
  load(columns: ContentColumns): void {
    const count = columns.flags.length
    const parents = u32(columns.parents)
    const links = u32(columns.links)
    const lengths = u32(columns.nameLengths)
    const mimetypes = new Uint16Array(copied(columns.mimetypeIndexes))
    const expiries = f64(columns.expiries)
    const ids = u32(columns.ids)
    const createTimes = f64(columns.createTimes)
    const modTimes = f64(columns.modTimes)
    const downloads = f64(columns.downloads)
    if (parents.length !== count || links.length !== count || ids.length !== 4 * count)
      throw new Error('checkpoint columns of different lengths')
    const { contents } = this.#tree
    let nameAt = 0
    let folderAt = 0
    for (let place = 0; place < count; place++) {
      const flags = columns.flags[place] as number
      const name = columns.names.toString('utf8', nameAt, nameAt + (lengths[place] as number))
      nameAt += lengths[place] as number
      const row = contents.take()
      if (row !== this.#end++) throw new Error('a checkpoint is loaded into an empty tree')
      contents.ids.set(ids.subarray(place * 4, place * 4 + 4), row * 4)
      contents.code.set(columns.codes.subarray(place * 8, place * 8 + 8), row * 8)
      contents.created[row] = createTimes[place] as number
      contents.modified[row] = modTimes[place] as number
      contents.downloads[row] = downloads[place] as number
      const parent = parents[place] as number
      if (parent !== none && parent >= row) throw new Error('a checkpoint row before its parent')
      const link = links[place] as number
      if ((flags & 1) === 1)
        this.#tree.restoreFolder(row, {
          name,
          parent,
          flags,
          expiry: expiries[folderAt++] as number,
          password: link === 0 ? undefined : this.#passwords[link - 1],
        })
      else
        this.#tree.restoreFile(row, {
          name,
          parent,
          blob: link,
          mimetype: columns.mimetypes[mimetypes[place] as number] as string,
        })
    }
  }

  end(): void {
    this.#tree.restored()
  }
}

/** Buffers from the decoder lie at any offset; typed arrays want theirs aligned. */
function copied(bytes: Buffer): ArrayBuffer {
  const aligned = new ArrayBuffer(bytes.length)
  new Uint8Array(aligned).set(bytes)
  return aligned
}

function u32(bytes: Buffer): Uint32Array {
  return new Uint32Array(copied(bytes))
}

function f64(bytes: Buffer): Float64Array {
  return new Float64Array(copied(bytes))
}
