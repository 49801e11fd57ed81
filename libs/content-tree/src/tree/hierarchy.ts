/**
 * Which content lies in which folder: parents, lists of children in the order of their insertion,
 * and on every folder the totals of all that is below it.
 *
 * Everything is below a top, a folder without a parent. The order of insertion is part of the state
 * (copies and archives follow it); row numbers are not.
 */
import { rowsPerSlice } from '../bounds.ts'
import { BlobTable } from './blobs.ts'
import { ContentTable, FolderTable, none } from './columns.ts'
import { CutClock } from './row-marks.ts'

export interface Totals {
  files: number
  folders: number
  bytes: number
}

export class Hierarchy {
  readonly cuts = new CutClock()
  readonly contents = new ContentTable(this.cuts)
  /** Saved with the contents: it needs no marks of its own. */
  readonly folders = new FolderTable(this.cuts)
  readonly blobs = new BlobTable(this.cuts)
  #changes = 0

  // ---- reading

  /** Its row in the table of folders. @throws Error when it is a file. */
  folderRow(row: number): number {
    if (this.contents.isFolder[row] !== 1) throw new Error(`row ${row} is no folder`)
    return this.contents.link[row] as number
  }

  isFolder(row: number): boolean {
    return this.contents.isFolder[row] === 1
  }

  parentOf(row: number): number {
    return this.contents.parent[row] as number
  }

  topOf(row: number): number {
    let at = row
    for (let above = this.parentOf(at); above !== none; above = this.parentOf(at)) at = above
    return at
  }

  /**
   * Its name behind those of the folders above it, without the top's: `/photos/a.jpg`. Of a longer
   * one the end, behind `…`.
   */
  pathOf(row: number, max = Number.POSITIVE_INFINITY): string {
    let path = ''
    for (let at = row; this.parentOf(at) !== none; at = this.parentOf(at)) {
      path = `/${this.contents.names[at]}${path}`
      if (path.length > max) return `…${path.slice(-max).toWellFormed()}`
    }
    return path
  }

  /** Levels of folders between it and the top: 0 for a top. */
  depthOf(row: number): number {
    let depth = 0
    for (let at = this.parentOf(row); at !== none; at = this.parentOf(at)) depth++
    return depth
  }

  /** Levels of folders inside it: 0 for a file, 1 for a folder without folders. Stops at `max`. */
  heightOf(row: number, max = Number.POSITIVE_INFINITY): number {
    if (!this.isFolder(row)) return 0
    let level = [row]
    let height = 0
    while (level.length > 0 && height < max) {
      height++
      level = level.flatMap((folder) => [...this.folderRows(folder)])
    }
    return height
  }

  isBelow(row: number, folder: number): boolean {
    for (let at = row; at !== none; at = this.parentOf(at)) if (at === folder) return true
    return false
  }

  sizeOf(row: number): number {
    return this.isFolder(row) ? 0 : this.blobs.size(this.contents.link[row] as number)
  }

  blobRowOf(file: number): number {
    return this.contents.link[file] as number
  }

  childCount(folder: number): number {
    const at = this.folderRow(folder)
    return (this.folders.folderCount[at] as number) + (this.folders.fileCount[at] as number)
  }

  /** Child folders that are private, and those that have an expiry. */
  hiddenCandidates(folder: number): { isPrivate: number; ending: number } {
    const at = this.folderRow(folder)
    return {
      isPrivate: this.folders.privateFolders[at] as number,
      ending: this.folders.endingFolders[at] as number,
    }
  }

  /** Totals of everything below a folder, without itself. */
  below(folder: number): Totals {
    const at = this.folderRow(folder)
    return {
      files: this.folders.filesBelow[at] as number,
      folders: this.folders.foldersBelow[at] as number,
      bytes: this.folders.bytesBelow[at] as number,
    }
  }

  /** Totals of a content and everything below it. */
  totalsOf(row: number): Totals {
    if (!this.isFolder(row)) return { files: 1, folders: 0, bytes: this.sizeOf(row) }
    const { files, folders, bytes } = this.below(row)
    return { files, folders: folders + 1, bytes }
  }

  /**
   * A new number after each change of the folder's content, at any depth, and of names, times and
   * access (public, password, expiry) there and of its own. It means nothing to another tree,
   * including one made from this one's checkpoint.
   */
  changeOf(folder: number): number {
    return this.folders.changed[this.folderRow(folder)] as number
  }

  *fileRows(folder: number): Generator<number> {
    const { next } = this.contents
    let row = this.folders.firstFile[this.folderRow(folder)] as number
    for (; row !== none; row = next[row] as number) yield row
  }

  *folderRows(folder: number): Generator<number> {
    const { next } = this.contents
    let row = this.folders.firstFolder[this.folderRow(folder)] as number
    for (; row !== none; row = next[row] as number) yield row
  }

  /** Files first, then folders, each in the order of insertion. */
  *children(folder: number): Generator<number> {
    // One generator: a search of 10,000 would hand each row through a second one.
    for (const first of ['firstFile', 'firstFolder'] as const) {
      const { next } = this.contents
      let row = this.folders[first][this.folderRow(folder)] as number
      for (; row !== none; row = next[row] as number) yield row
    }
  }

  // ---- changing

  protected emptyLists(folder: number): void {
    const { firstFolder, lastFolder, firstFile, lastFile } = this.folders
    for (const list of [firstFolder, lastFolder, firstFile, lastFile]) list[folder] = none
  }

  protected append(row: number, parent: number): void {
    const { contents, folders } = this
    const folder = this.folderRow(parent)
    const [first, last, count] = this.#listOf(row)
    const tail = folders[last][folder] as number
    contents.parent[row] = parent
    contents.previous[row] = tail
    contents.next[row] = none
    if (tail === none) folders[first][folder] = row
    else contents.next[tail] = row
    folders[last][folder] = row
    folders[count][folder] = (folders[count][folder] as number) + 1
    this.counted(row, 1)
    this.changed(row)
  }

  protected unlink(row: number, parent: number): void {
    const { contents, folders } = this
    const folder = this.folderRow(parent)
    const [first, last, count] = this.#listOf(row)
    const before = contents.previous[row] as number
    const after = contents.next[row] as number
    if (before === none) folders[first][folder] = after
    else contents.next[before] = after
    if (after === none) folders[last][folder] = before
    else {
      contents.previous[after] = before
      this.changed(after)
    }
    folders[count][folder] = (folders[count][folder] as number) - 1
    contents.parent[row] = none
    contents.previous[row] = none
    contents.next[row] = none
    this.changed(row)
  }

  #listOf(row: number) {
    return this.isFolder(row)
      ? (['firstFolder', 'lastFolder', 'folderCount'] as const)
      : (['firstFile', 'lastFile', 'fileCount'] as const)
  }

  protected addToTotals(parent: number, row: number, sign: 1 | -1): void {
    const { files, folders, bytes } = this.totalsOf(row)
    const { filesBelow, foldersBelow, bytesBelow, changed } = this.folders
    this.#changes++
    for (let at = parent; at !== none; at = this.parentOf(at)) {
      const folder = this.contents.link[at] as number
      filesBelow[folder] = (filesBelow[folder] as number) + sign * files
      foldersBelow[folder] = (foldersBelow[folder] as number) + sign * folders
      bytesBelow[folder] = (bytesBelow[folder] as number) + sign * bytes
      changed[folder] = this.#changes
    }
  }

  /** Counts a folder in, or out of, its parent's numbers of private and expiring children. */
  protected counted(row: number, sign: 1 | -1): void {
    const parent = this.parentOf(row)
    if (parent === none || !this.isFolder(row)) return
    const own = this.folderRow(row)
    const above = this.folderRow(parent)
    const { privateFolders, endingFolders, isPublic, expiry } = this.folders
    if (isPublic[own] === 0) privateFolders[above] = (privateFolders[above] as number) + sign
    if (expiry[own] !== 0) endingFolders[above] = (endingFolders[above] as number) + sign
  }

  /** The next checkpoint has to write it. */
  protected changed(row: number): void {
    this.contents.marks.touch(row)
  }

  /** The row, or its content, has changed: for all folders that show it. */
  protected touch(row: number): void {
    this.#changes++
    for (let at = this.isFolder(row) ? row : this.parentOf(row); at !== none; at = this.parentOf(at))
      this.folders.changed[this.contents.link[at] as number] = this.#changes
  }

  // ---- loading a checkpoint

  /**
   * Behind the last row of a checkpoint: lists of children and totals follow from parents and
   * previous neighbours. In slices. @throws Error when they make no trees below these tops.
   */
  protected *link(tops: readonly number[]): Generator<void, void> {
    const { contents, folders } = this
    const { next, previous, parent } = contents
    next.fill(none)
    for (const each of [this.#restoreFirst, this.#restoreLast]) {
      for (const { row, count } of contents.runs())
        for (let at = row; at < row + count; at++) {
          if (parent[at] !== none) each.call(this, at)
          if (at % rowsPerSlice === 0) yield
        }
    }
    const order: number[] = []
    let found = 0
    for (const top of tops) {
      if (parent[top] !== none || previous[top] !== none) throw new Error(`row ${top} is no top of a tree`)
      order.push(top)
    }
    for (let at = 0; at < order.length; at++) {
      for (const below of this.folderRows(order[at] as number)) order.push(below)
      found += 1 + (folders.fileCount[this.folderRow(order[at] as number)] as number)
      if (found > contents.count) break
      if (at % rowsPerSlice === 0) yield
    }
    if (found !== contents.count) throw new Error(`${found} of ${contents.count} rows are in the trees`)
    const { filesBelow, foldersBelow, bytesBelow } = folders
    for (const row of order.reverse()) {
      const above = parent[row] as number
      if (above === none) continue
      const from = contents.link[row] as number
      const to = contents.link[above] as number
      filesBelow[to] = (filesBelow[to] as number) + (filesBelow[from] as number)
      foldersBelow[to] = (foldersBelow[to] as number) + (foldersBelow[from] as number) + 1
      bytesBelow[to] = (bytesBelow[to] as number) + (bytesBelow[from] as number)
    }
  }

  /** It is the first in its folder, or the next of its neighbour. */
  #restoreFirst(row: number): void {
    const { contents, folders } = this
    const [first, , count] = this.#listOf(row)
    const folder = this.folderRow(contents.parent[row] as number)
    const before = contents.previous[row] as number
    const taken = before === none ? folders[first][folder] : contents.next[before]
    if (taken !== none) throw new Error(`rows ${taken} and ${row} are in one place`)
    if (before === none) folders[first][folder] = row
    else contents.next[before] = row
    folders[count][folder] = (folders[count][folder] as number) + 1
    if (this.isFolder(row)) {
      this.counted(row, 1)
      return
    }
    folders.filesBelow[folder] = (folders.filesBelow[folder] as number) + 1
    folders.bytesBelow[folder] = (folders.bytesBelow[folder] as number) + this.sizeOf(row)
  }

  #restoreLast(row: number): void {
    if (this.contents.next[row] !== none) return
    const [, last] = this.#listOf(row)
    this.folders[last][this.folderRow(this.contents.parent[row] as number)] = row
  }
}
