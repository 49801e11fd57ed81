/**
 * The tree of an account's content: rows in packed columns, children in linked lists, totals kept
 * on every folder.
 *
 * Everything is below one of two tops, the root and the recycle bin. A deleted folder of any size
 * is unlinked at once and becomes garbage: its content is not found any more, and its rows are
 * swept a bounded number at a time. The order of insertion into a folder is part of the state
 * (copies and archives follow it); row numbers are not.
 *
 * Memory: about 80 bytes of columns per content, 50 more for a folder, 90 for each distinct blob,
 * and the name.
 */
import { type DirectLink, type PasswordVerifier, SortField, type SweepReason } from '@holdfast/wire'
import { freedRowsPerSlice, rowsPerSlice } from '../bounds.ts'
import { BlobTable } from './blobs.ts'
import { ContentTable, FolderTable, none } from './columns.ts'
import { ExpiryHeap } from './expiry-heap.ts'
import { uuidOfWords, wordsOfUuid } from './ids.ts'
import { ListingOrders } from './listing-order.ts'
import { type NoteName, type Notes, noteNames } from './notes.ts'
import { PasswordTable } from './passwords.ts'
import { Cuts } from './row-marks.ts'
import {
  savedLinkBytes,
  savedNoteBytes,
  savedNotesBytes,
  savedRowBytes,
  savedTextBytes,
} from './saved-bytes.ts'
import { WordIndex } from './word-index.ts'

/** Of a note, or of a place in the bin, in memory. */
const noteBytes = 100

/**
 * Bytes in memory per saved byte of a direct link: its lists are of short texts, each an object.
 * Measured: 4.4 with 100 entries of 20 to 40 characters in each list.
 */
const directLinkObjects = 6

/** The attributes of a new file or folder. */
export interface NewContent {
  id: string
  name: string
  /** Empty: none. */
  code: string
  createTime: number
  modTime: number
}

export interface NewFolder extends NewContent {
  isPublic: boolean
  password: PasswordVerifier | undefined
  expiry: number | undefined
}

export interface Recycled {
  time: number
  /** Id of its previous folder. */
  from: string
}

/** Content that a timer deleted and the operator can restore. */
export interface Swept extends Recycled {
  /** Unix seconds. */
  until: number
  why: SweepReason
}

export interface Totals {
  files: number
  folders: number
  bytes: number
}

/** Mimetypes shared between rows; beyond this number each row keeps its own. */
const sharedMimetypesMax = 1_024

export class Tree {
  readonly cuts = new Cuts()
  readonly contents = new ContentTable(this.cuts)
  /** Saved with the contents: it needs no marks of its own. */
  readonly folders = new FolderTable(this.cuts)
  readonly blobs = new BlobTable(this.cuts)
  readonly passwords = new PasswordTable(this.cuts)
  readonly notes: Readonly<Record<NoteName, Map<number, string>>> = {
    description: new Map(),
    tags: new Map(),
  }
  /**
   * Size of tags and description of a row in an answer, bytes; those requested since they were set.
   * Counting them again takes as long as writing them.
   */
  readonly notesInAnswers = new Map<number, number>()
  readonly directLinks = new Map<number, DirectLink[]>()
  readonly recycled = new Map<number, Recycled>()
  /** Of what lies in the folder `held` by itself. */
  readonly sweptByRow = new Map<number, Swept>()
  readonly orders: ListingOrders
  readonly timers: ExpiryHeap
  /** When content in `held` cannot be restored any more: each has its own time. */
  readonly heldTimers = new ExpiryHeap((row, until) => this.sweptByRow.get(row)?.until === until)
  root = none
  bin = none
  /** The top of restorable deletions by timers; callers find nothing in it. */
  held = none
  /** Folders that wait for their expiry. */
  waiting = 0
  directLinkCount = 0
  /** Of all direct links, as a checkpoint saves them. */
  #directLinkBytes = 0
  /** Tops of deleted folders, in the order of their deletion. */
  readonly garbage: number[] = []
  readonly #index: WordIndex
  readonly #key = new Uint32Array(4)
  readonly #mimetypes = new Map<string, string>()
  #textBytes = 0
  /** Texts and direct links as a checkpoint saves them. */
  #savedTextBytes = 0
  #changes = 0

  constructor() {
    this.#index = new WordIndex(this.contents.ids, { words: 4, hashWord: 0 })
    this.contents.indexed(this.#index)
    this.orders = new ListingOrders(this)
    this.timers = new ExpiryHeap((row, time) => this.#waitsFor(row, time))
  }

  /** Of a checkpoint. */
  get directLinkBytes(): number {
    return this.#directLinkBytes
  }

  /** Estimated bytes in memory. */
  get bytes(): number {
    const tables = this.contents.bytes + this.folders.bytes + this.blobs.bytes + this.passwords.bytes
    let notes = this.recycled.size + this.sweptByRow.size
    for (const name of noteNames) notes += this.notes[name].size
    return (
      tables +
      notes * noteBytes +
      this.directLinkCount * 500 +
      this.#directLinkBytes * directLinkObjects +
      this.#textBytes +
      this.#index.bytes +
      this.orders.bytes +
      this.timers.bytes +
      this.heldTimers.bytes
    )
  }

  /**
   * Size in a checkpoint of contents, folders, blobs, passwords and links, including deleted
   * folders that are not swept yet; slightly overestimated. Kept up to date by every change.
   */
  get savedBytes(): number {
    return (
      this.contents.count * savedRowBytes.content +
      this.blobs.columns.count * savedRowBytes.blob +
      this.passwords.count * savedRowBytes.password +
      (this.recycled.size + this.sweptByRow.size) * savedRowBytes.note +
      this.#savedTextBytes
    )
  }

  /** The size that a copy of only this row would add, without its blob. */
  savedBytesOf(row: number): number {
    return (
      savedRowBytes.content +
      savedTextBytes(this.contents.names[row] as string) +
      savedTextBytes(this.contents.mimetypes[row] as string) +
      savedNotesBytes(this.notesOf(row))
    )
  }

  // ---- reading

  /** The row of a content that was not deleted, or -1. */
  find(id: string): number {
    if (!wordsOfUuid(id, this.#key)) return -1
    const row = this.#index.find(this.#key)
    if (row < 0) return -1
    const top = this.topOf(row)
    return top === this.root || top === this.bin ? row : -1
  }

  /** The row of a content that lies in the folder `held` by itself, or -1. */
  findHeld(id: string): number {
    if (this.held === none || !wordsOfUuid(id, this.#key)) return -1
    const row = this.#index.find(this.#key)
    return row >= 0 && this.sweptByRow.has(row) ? row : -1
  }

  idOf(row: number): string {
    return uuidOfWords(this.contents.ids, row * 4)
  }

  /** All rows are visited: callers cache the answer, and a million take a millisecond. */
  idOfCode(code: string): string | undefined {
    if (code.length === 0 || code.length > 8) return undefined
    const [low, high] = new Uint32Array(Uint8Array.from(Buffer.from(code.padEnd(8, '\0'), 'latin1')).buffer)
    const { buffer, byteOffset } = this.contents.code
    const words = new Uint32Array(buffer, byteOffset, this.contents.end * 2)
    for (let at = 0; at < words.length; at += 2) {
      if (words[at] !== low || words[at + 1] !== high) continue
      const id = this.idOf(at / 2)
      return this.find(id) < 0 ? undefined : id
    }
    return undefined
  }

  codeOf(row: number): string | undefined {
    const { code } = this.contents
    const at = row * 8
    if (code[at] === 0) return undefined
    // Calls with single characters make one text, and no array.
    const of = (n: number) => code[at + n] as number
    if (of(7) === 0) return String.fromCharCode(of(0), of(1), of(2), of(3), of(4), of(5))
    return String.fromCharCode(of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7))
  }

  notesOf(row: number): Notes {
    return { description: this.notes.description.get(row), tags: this.notes.tags.get(row) }
  }

  hasNotes(row: number): boolean {
    for (const name of noteNames) if (this.notes[name].has(row)) return true
    return false
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

  inBin(row: number): boolean {
    return this.topOf(row) === this.bin
  }

  /** The earliest expiry of a folder and those above it. */
  endsOf(folder: number): number | undefined {
    let ends: number | undefined
    for (let at = folder; at !== none; at = this.parentOf(at)) {
      const own = this.expiryOf(at)
      if (own !== undefined && (ends === undefined || own < ends)) ends = own
    }
    return ends
  }

  expiryOf(folder: number): number | undefined {
    return this.folders.expiry[this.#folder(folder)] || undefined
  }

  isPublic(folder: number): boolean {
    return this.folders.isPublic[this.#folder(folder)] === 1
  }

  isClosed(folder: number): boolean {
    return this.folders.closed[this.#folder(folder)] === 1
  }

  deletesAfterExpiry(folder: number): boolean {
    return this.folders.deleteAfterExpiry[this.#folder(folder)] === 1
  }

  passwordOf(folder: number): PasswordVerifier | undefined {
    const row = this.folders.password[this.#folder(folder)] as number
    return row === 0 ? undefined : this.passwords.verifier(row - 1)
  }

  sizeOf(row: number): number {
    return this.isFolder(row) ? 0 : this.blobs.size(this.contents.link[row] as number)
  }

  blobRowOf(file: number): number {
    return this.contents.link[file] as number
  }

  childCount(folder: number): number {
    const at = this.#folder(folder)
    return (this.folders.folderCount[at] as number) + (this.folders.fileCount[at] as number)
  }

  /** Child folders that are private, and those that have an expiry. */
  hiddenCandidates(folder: number): { isPrivate: number; ending: number } {
    const at = this.#folder(folder)
    return {
      isPrivate: this.folders.privateFolders[at] as number,
      ending: this.folders.endingFolders[at] as number,
    }
  }

  /** Of everything below a folder, without itself. */
  below(folder: number): Totals {
    const at = this.#folder(folder)
    return {
      files: this.folders.filesBelow[at] as number,
      folders: this.folders.foldersBelow[at] as number,
      bytes: this.folders.bytesBelow[at] as number,
    }
  }

  /** Of a content and everything below it. */
  totalsOf(row: number): Totals {
    if (!this.isFolder(row)) return { files: 1, folders: 0, bytes: this.sizeOf(row) }
    const { files, folders, bytes } = this.below(row)
    return { files, folders: folders + 1, bytes }
  }

  /** The totals of the account, with recycled content, without root and bin. */
  totals(): Totals {
    const root = this.below(this.root)
    const bin = this.below(this.bin)
    return {
      files: root.files + bin.files,
      folders: root.folders + bin.folders,
      bytes: root.bytes + bin.bytes,
    }
  }

  /**
   * A new number after each change of the folder's content, at any depth, and of names, times and
   * expiries there and of its own. It means nothing to another tree, including one made from this
   * one's checkpoint.
   */
  changeOf(folder: number): number {
    return this.folders.changed[this.#folder(folder)] as number
  }

  *fileRows(folder: number): Generator<number> {
    const { next } = this.contents
    let row = this.folders.firstFile[this.#folder(folder)] as number
    for (; row !== none; row = next[row] as number) yield row
  }

  *folderRows(folder: number): Generator<number> {
    const { next } = this.contents
    let row = this.folders.firstFolder[this.#folder(folder)] as number
    for (; row !== none; row = next[row] as number) yield row
  }

  /** Files first, then folders, each in the order of insertion. */
  *children(folder: number): Generator<number> {
    yield* this.fileRows(folder)
    yield* this.folderRows(folder)
  }

  // ---- changing

  /** Makes room at once, before a large load. */
  reserve(rows: { contents: number; folders: number; blobs: number }): void {
    this.contents.reserve(rows.contents)
    this.#index.reserve(rows.contents)
    this.folders.reserve(rows.folders)
    this.blobs.reserve(rows.blobs)
  }

  /** @param parent `none` makes a top. */
  addFolder(parent: number, attributes: NewFolder): number {
    const row = this.#addRow(attributes)
    const folder = this.folders.take()
    this.contents.isFolder[row] = 1
    this.contents.link[row] = folder
    this.contents.mimetypes[row] = ''
    this.#emptyLists(folder)
    this.folders.isPublic[folder] = attributes.isPublic ? 1 : 0
    if (attributes.password !== undefined)
      this.folders.password[folder] = 1 + this.passwords.use(attributes.password)
    if (attributes.expiry !== undefined) this.#startTimer(row, attributes.expiry)
    if (parent !== none) this.#attach(row, parent)
    return row
  }

  /** @param blob its row, already counted. */
  addFile(parent: number, attributes: NewContent & { mimetype: string }, blob: number): number {
    const row = this.#addRow(attributes)
    this.contents.link[row] = blob
    this.contents.mimetypes[row] = this.shared(attributes.mimetype)
    this.#savedTextBytes += savedTextBytes(attributes.mimetype)
    this.#attach(row, parent)
    return row
  }

  move(row: number, parent: number): void {
    this.#detach(row)
    this.#attach(row, parent)
  }

  rename(row: number, name: string): void {
    this.#changing(row, [SortField.NAME], () => {
      const before = this.contents.names[row] as string
      this.#textBytes += textBytes(name) - textBytes(before)
      this.#savedTextBytes += savedTextBytes(name) - savedTextBytes(before)
      this.contents.names[row] = name
    })
    this.#changed(row)
    this.#touch(row)
  }

  addDownloads(row: number, count: number): void {
    this.#changing(row, [SortField.DOWNLOADS], () => {
      this.contents.downloads[row] = (this.contents.downloads[row] as number) + count
    })
    this.#changed(row)
  }

  setCode(row: number, code: string): void {
    this.contents.code.fill(0, row * 8, row * 8 + 8)
    for (let at = 0; at < code.length; at++) this.contents.code[row * 8 + at] = code.charCodeAt(at)
    this.#changed(row)
  }

  setModTime(row: number, seconds: number): void {
    this.contents.modified[row] = seconds
    this.#changed(row)
    this.#touch(row)
  }

  setPublic(folder: number, isPublic: boolean): void {
    this.#counted(folder, -1)
    this.folders.isPublic[this.#folder(folder)] = isPublic ? 1 : 0
    this.#counted(folder, 1)
    this.#changed(folder)
  }

  setPassword(folder: number, verifier: PasswordVerifier | undefined): void {
    const at = this.#folder(folder)
    const before = this.folders.password[at] as number
    this.folders.password[at] = verifier === undefined ? 0 : 1 + this.passwords.use(verifier)
    if (before !== 0) this.passwords.unuse(before - 1)
    this.#changed(folder)
  }

  /** A new expiry makes a closed folder undecided again. */
  setExpiry(folder: number, expiry: number | undefined, deleteAfterExpiry: boolean): void {
    this.#counted(folder, -1)
    this.#stopTimer(folder)
    if (expiry !== undefined) this.#startTimer(folder, expiry)
    this.folders.deleteAfterExpiry[this.#folder(folder)] = expiry !== undefined && deleteAfterExpiry ? 1 : 0
    this.#counted(folder, 1)
    this.#changed(folder)
    this.#touch(folder)
  }

  /** Its expiry fired and it stays; it keeps the expiry, which closes it to visitors. */
  close(folder: number): void {
    const at = this.#folder(folder)
    if (this.folders.closed[at] === 1 || this.folders.expiry[at] === 0) return
    this.folders.closed[at] = 1
    this.waiting--
    this.#changed(folder)
  }

  /** Empty: none. */
  setNote(name: NoteName, row: number, text: string): void {
    const notes = this.notes[name]
    const before = notes.get(row)
    this.#textBytes += textBytes(text) - textBytes(before ?? '')
    this.#savedTextBytes += savedNoteBytes(text) - savedNoteBytes(before)
    this.notesInAnswers.delete(row)
    if (text === '') notes.delete(row)
    else notes.set(row, text)
    this.#changed(row)
  }

  /** @param swept undefined: it does not lie in the folder `held` by itself. */
  setSwept(row: number, swept: Swept | undefined): void {
    if (swept === undefined) this.sweptByRow.delete(row)
    else {
      this.sweptByRow.set(row, swept)
      this.heldTimers.add(row, swept.until)
      this.heldTimers.tidy(this.sweptByRow.size)
    }
    this.#changed(row)
  }

  /** A use that keeps a file, or all that is in a folder, from being idle. */
  setUsed(row: number, seconds: number): void {
    this.contents.used[row] = Math.max(seconds, this.contents.used[row] as number)
    this.#changed(row)
  }

  /** Timers of a folder and of the folders in it: they were dropped while it could not be found. */
  wakeTimers(folder: number): void {
    const open = [folder]
    for (let row = open.pop(); row !== undefined; row = open.pop()) {
      const expiry = this.expiryOf(row)
      if (expiry !== undefined) this.timers.add(row, expiry)
      open.push(...this.folderRows(row))
    }
    this.timers.tidy(this.waiting)
  }

  /** @param recycled undefined: it does not lie in the bin by itself. */
  setRecycled(row: number, recycled: Recycled | undefined): void {
    if (recycled === undefined) this.recycled.delete(row)
    else this.recycled.set(row, recycled)
    this.#changed(row)
  }

  setDirectLinks(row: number, links: DirectLink[]): void {
    const before = this.directLinks.get(row) ?? []
    this.directLinkCount += links.length - before.length
    // Most of them stay: only the others are measured.
    let bytes = 0
    for (const link of links) if (!before.includes(link)) bytes += savedLinkBytes(link)
    for (const link of before) if (!links.includes(link)) bytes -= savedLinkBytes(link)
    this.#directLinkBytes += bytes
    this.#savedTextBytes += bytes
    if (links.length === 0) this.directLinks.delete(row)
    else this.directLinks.set(row, links)
    this.#changed(row)
  }

  /**
   * Deletes permanently. A folder is cut off with everything in it; `sweep` frees the rows. @param
   * unused see `sweep`.
   */
  discard(row: number, unused: (blobRow: number) => void): void {
    this.#detach(row)
    if (this.isFolder(row)) this.garbage.push(row)
    else this.#freeFile(row, unused)
  }

  /**
   * Frees rows of deleted folders, at most about `max`, always in the same order: its progress is
   * part of the state. Yields in between.
   *
   * @param unused called for each blob whose last use ended.
   */
  *sweep(max: number, unused: (blobRow: number) => void): Generator<void, void> {
    let left = max
    while (left > 0 && this.garbage.length > 0) {
      const top = this.garbage[0] as number
      let at = top
      while (left > 0) {
        const folder = this.#folder(at)
        const below = this.folders.firstFolder[folder] as number
        const file = this.folders.firstFile[folder] as number
        if (below !== none) {
          at = below
          continue
        }
        left--
        if (left % freedRowsPerSlice === 0) yield
        if (file !== none) {
          this.#unlink(file, at)
          this.#freeFile(file, unused)
          continue
        }
        const above = this.parentOf(at)
        if (above !== none) this.#unlink(at, above)
        this.#freeFolder(at)
        if (at === top) {
          this.garbage.shift()
          break
        }
        at = above
      }
    }
  }

  // ---- loading a checkpoint: plain columns, parent and previous set already, in any order of rows

  /** @param saved its password is a row. */
  restoreFolder(
    row: number,
    saved: { name: string; flags: number; expiry: number; password: number | undefined },
  ): void {
    const { contents } = this
    const folder = this.folders.take()
    contents.isFolder[row] = 1
    contents.link[row] = folder
    this.#emptyLists(folder)
    this.folders.isPublic[folder] = (saved.flags & 2) >> 1
    this.folders.deleteAfterExpiry[folder] = (saved.flags & 4) >> 2
    if (saved.password !== undefined) {
      this.passwords.useRow(saved.password)
      this.folders.password[folder] = 1 + saved.password
    }
    if (saved.expiry !== 0) this.#startTimer(row, saved.expiry)
    if ((saved.flags & 8) !== 0) this.close(row)
    this.#restoreRow(row, saved.name, '')
  }

  /** Its link is a row of the blobs. */
  restoreFile(row: number, name: string, mimetype: string): void {
    this.blobs.useRow(this.contents.link[row] as number)
    this.#restoreRow(row, name, mimetype)
  }

  /**
   * Behind the last row: lists of children and totals follow from parents and neighbours. In
   * slices. @throws Error when they make no trees.
   */
  *restored(): Generator<void, void> {
    this.contents.restored()
    this.passwords.restored()
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
    const held = this.held === none ? [] : [this.held]
    for (const top of [this.root, this.bin, ...held, ...this.garbage]) {
      if (parent[top] !== none || previous[top] !== none) throw new Error(`row ${top} is no top of a tree`)
      order.push(top)
    }
    for (let at = 0; at < order.length; at++) {
      for (const below of this.folderRows(order[at] as number)) order.push(below)
      found += 1 + (folders.fileCount[this.#folder(order[at] as number)] as number)
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
    const folder = this.#folder(contents.parent[row] as number)
    const before = contents.previous[row] as number
    const taken = before === none ? folders[first][folder] : contents.next[before]
    if (taken !== none) throw new Error(`rows ${taken} and ${row} are in one place`)
    if (before === none) folders[first][folder] = row
    else contents.next[before] = row
    folders[count][folder] = (folders[count][folder] as number) + 1
    if (this.isFolder(row)) {
      this.#counted(row, 1)
      return
    }
    folders.filesBelow[folder] = (folders.filesBelow[folder] as number) + 1
    folders.bytesBelow[folder] = (folders.bytesBelow[folder] as number) + this.sizeOf(row)
  }

  #restoreLast(row: number): void {
    if (this.contents.next[row] !== none) return
    const [, last] = this.#listOf(row)
    this.folders[last][this.#folder(this.contents.parent[row] as number)] = row
  }

  #restoreRow(row: number, name: string, mimetype: string): void {
    this.contents.names[row] = name
    this.contents.mimetypes[row] = mimetype
    this.#textBytes += textBytes(name)
    this.#savedTextBytes += savedTextBytes(name) + savedTextBytes(mimetype)
    this.#index.add(row)
  }

  /** One string for equal mimetypes. */
  shared(mimetype: string): string {
    const known = this.#mimetypes.get(mimetype)
    if (known !== undefined) return known
    if (this.#mimetypes.size < sharedMimetypesMax) this.#mimetypes.set(mimetype, mimetype)
    return mimetype
  }

  // ---- internals

  #emptyLists(folder: number): void {
    const { firstFolder, lastFolder, firstFile, lastFile } = this.folders
    for (const list of [firstFolder, lastFolder, firstFile, lastFile]) list[folder] = none
  }

  #folder(row: number): number {
    if (this.contents.isFolder[row] !== 1) throw new Error(`row ${row} is no folder`)
    return this.contents.link[row] as number
  }

  #addRow(attributes: NewContent): number {
    const row = this.contents.take()
    if (!wordsOfUuid(attributes.id, this.contents.ids, row * 4))
      throw new RangeError(`no content id: ${attributes.id}`)
    this.#index.add(row)
    const { contents } = this
    contents.parent[row] = none
    contents.next[row] = none
    contents.previous[row] = none
    contents.created[row] = attributes.createTime
    contents.modified[row] = attributes.modTime
    contents.names[row] = attributes.name
    this.#textBytes += textBytes(attributes.name)
    this.#savedTextBytes += savedTextBytes(attributes.name)
    this.setCode(row, attributes.code)
    return row
  }

  #attach(row: number, parent: number): void {
    this.#append(row, parent)
    this.#addToTotals(parent, row, 1)
    this.orders.inserted(parent, row)
  }

  #append(row: number, parent: number): void {
    const { contents, folders } = this
    const folder = this.#folder(parent)
    const [first, last, count] = this.#listOf(row)
    const tail = folders[last][folder] as number
    contents.parent[row] = parent
    contents.previous[row] = tail
    contents.next[row] = none
    if (tail === none) folders[first][folder] = row
    else contents.next[tail] = row
    folders[last][folder] = row
    folders[count][folder] = (folders[count][folder] as number) + 1
    this.#counted(row, 1)
    this.#changed(row)
  }

  #detach(row: number): void {
    const parent = this.parentOf(row)
    this.orders.removing(parent, row)
    this.#addToTotals(parent, row, -1)
    this.#counted(row, -1)
    this.#unlink(row, parent)
  }

  #unlink(row: number, parent: number): void {
    const { contents, folders } = this
    const folder = this.#folder(parent)
    const [first, last, count] = this.#listOf(row)
    const before = contents.previous[row] as number
    const after = contents.next[row] as number
    if (before === none) folders[first][folder] = after
    else contents.next[before] = after
    if (after === none) folders[last][folder] = before
    else {
      contents.previous[after] = before
      this.#changed(after)
    }
    folders[count][folder] = (folders[count][folder] as number) - 1
    contents.parent[row] = none
    contents.previous[row] = none
    contents.next[row] = none
    this.#changed(row)
  }

  #listOf(row: number) {
    return this.isFolder(row)
      ? (['firstFolder', 'lastFolder', 'folderCount'] as const)
      : (['firstFile', 'lastFile', 'fileCount'] as const)
  }

  /** The next checkpoint has to write it. */
  #changed(row: number): void {
    this.contents.marks.touch(row)
  }

  /** The row, or its content, has changed: for all folders that show it. */
  #touch(row: number): void {
    this.#changes++
    for (let at = this.isFolder(row) ? row : this.parentOf(row); at !== none; at = this.parentOf(at))
      this.folders.changed[this.contents.link[at] as number] = this.#changes
  }

  #addToTotals(parent: number, row: number, sign: 1 | -1): void {
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
  #counted(row: number, sign: 1 | -1): void {
    const parent = this.parentOf(row)
    if (parent === none || !this.isFolder(row)) return
    const own = this.#folder(row)
    const above = this.#folder(parent)
    const { privateFolders, endingFolders, isPublic, expiry } = this.folders
    if (isPublic[own] === 0) privateFolders[above] = (privateFolders[above] as number) + sign
    if (expiry[own] !== 0) endingFolders[above] = (endingFolders[above] as number) + sign
  }

  #changing(row: number, fields: readonly SortField[], change: () => void): void {
    const parent = this.parentOf(row)
    if (parent === none) change()
    else this.orders.changing(parent, row, fields, change)
  }

  #startTimer(row: number, expiry: number): void {
    this.folders.expiry[this.#folder(row)] = expiry
    this.waiting++
    this.timers.add(row, expiry)
    this.timers.tidy(this.waiting)
  }

  #stopTimer(row: number): void {
    const at = this.#folder(row)
    if (this.folders.expiry[at] !== 0 && this.folders.closed[at] === 0) this.waiting--
    this.folders.expiry[at] = 0
    this.folders.closed[at] = 0
  }

  #waitsFor(row: number, time: number): boolean {
    if (this.contents.isFolder[row] !== 1) return false
    const at = this.contents.link[row] as number
    if (this.folders.expiry[at] !== time || this.folders.closed[at] === 1) return false
    const top = this.topOf(row)
    return top === this.root || top === this.bin
  }

  #freeFile(row: number, unused: (blobRow: number) => void): void {
    const blob = this.contents.link[row] as number
    if (this.blobs.unuse(blob)) unused(blob)
    this.#freeRow(row)
  }

  #freeFolder(row: number): void {
    const folder = this.#folder(row)
    this.orders.drop(row)
    this.setPassword(row, undefined)
    this.#stopTimer(row)
    this.folders.give(folder)
    this.#freeRow(row)
  }

  #freeRow(row: number): void {
    for (const name of noteNames) this.setNote(name, row, '')
    this.setDirectLinks(row, [])
    this.setRecycled(row, undefined)
    this.setSwept(row, undefined)
    const name = this.contents.names[row] as string
    this.#textBytes -= textBytes(name)
    this.#savedTextBytes -= savedTextBytes(name) + savedTextBytes(this.contents.mimetypes[row] as string)
    this.contents.names[row] = ''
    this.contents.mimetypes[row] = ''
    this.#index.remove(row)
    this.contents.give(row)
  }
}

/** Approximate memory of a string. */
function textBytes(text: string): number {
  return text === '' ? 0 : 32 + text.length
}
