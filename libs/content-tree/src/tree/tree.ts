/**
 * The tree of an account's content: what lies where, with all its attributes.
 *
 * Everything is below one of two tops, the root and the recycle bin. A deleted folder of any size
 * is unlinked at once and becomes garbage: its content is not found any more, and its rows are
 * swept a bounded number at a time.
 *
 * Memory: about 80 bytes of columns per content, 50 more for a folder, 90 for each distinct blob,
 * and the name.
 */
import { type PasswordVerifier, SortField } from '@holdfast/wire'
import { freedRowsPerSlice } from '../bounds.ts'
import { textBytes } from '../text.ts'
import { none } from './columns.ts'
import { FolderTimers } from './folder-timers.ts'
import { Hierarchy, type Totals } from './hierarchy.ts'
import { uuidOfWords, wordsOfUuid } from './ids.ts'
import { ListingOrders } from './listing-order.ts'
import { PasswordTable } from './passwords.ts'
import { savedNotesBytes, savedRowBytes, savedTextBytes } from './saved-bytes.ts'
import { SparseColumns } from './sparse-columns.ts'
import { WordIndex } from './word-index.ts'

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

/** Mimetypes shared between rows; beyond this number each row keeps its own. */
const sharedMimetypesMax = 1_024

export class Tree extends Hierarchy {
  readonly passwords = new PasswordTable(this.cuts)
  readonly sparse = new SparseColumns(this.contents.marks)
  readonly orders: ListingOrders
  readonly timers: FolderTimers
  root = none
  bin = none
  /** The top of restorable deletions by timers; callers find nothing in it. */
  held = none
  /** Tops of deleted folders, in the order of their deletion. */
  readonly garbage: number[] = []
  readonly #index: WordIndex
  readonly #key = new Uint32Array(4)
  readonly #mimetypes = new Map<string, string>()
  #textBytes = 0
  /** Names and mimetypes as a checkpoint saves them. */
  #savedTextBytes = 0

  constructor() {
    super()
    this.#index = new WordIndex(this.contents.ids, { words: 4, hashWord: 0 })
    this.contents.indexed(this.#index)
    this.orders = new ListingOrders(this)
    this.timers = new FolderTimers(this, (row) => this.#isFound(row))
  }

  /** Estimated bytes in memory. */
  get bytes(): number {
    const tables = this.contents.bytes + this.folders.bytes + this.blobs.bytes + this.passwords.bytes
    return (
      tables + this.sparse.bytes + this.#textBytes + this.#index.bytes + this.orders.bytes + this.timers.bytes
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
      this.sparse.savedBytes +
      this.#savedTextBytes
    )
  }

  /** The size that a copy of only this row would add, without its blob. */
  savedBytesOf(row: number): number {
    return (
      savedRowBytes.content +
      savedTextBytes(this.contents.names[row] as string) +
      savedTextBytes(this.contents.mimetypes[row] as string) +
      savedNotesBytes(this.sparse.notesOf(row))
    )
  }

  // ---- reading

  /** The row of a content that was not deleted, or -1. */
  find(id: string): number {
    if (!wordsOfUuid(id, this.#key)) return -1
    const row = this.#index.find(this.#key)
    return row >= 0 && this.#isFound(row) ? row : -1
  }

  /** The row of a content that lies in the folder `held` by itself, or -1. */
  findHeld(id: string): number {
    if (this.held === none || !wordsOfUuid(id, this.#key)) return -1
    const row = this.#index.find(this.#key)
    return row >= 0 && this.sparse.sweptByRow.has(row) ? row : -1
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
    return this.folders.expiry[this.folderRow(folder)] || undefined
  }

  isPublic(folder: number): boolean {
    return this.folders.isPublic[this.folderRow(folder)] === 1
  }

  isClosed(folder: number): boolean {
    return this.folders.closed[this.folderRow(folder)] === 1
  }

  deletesAfterExpiry(folder: number): boolean {
    return this.folders.deleteAfterExpiry[this.folderRow(folder)] === 1
  }

  passwordOf(folder: number): PasswordVerifier | undefined {
    const row = this.folders.password[this.folderRow(folder)] as number
    return row === 0 ? undefined : this.passwords.verifier(row - 1)
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
    this.emptyLists(folder)
    this.folders.isPublic[folder] = attributes.isPublic ? 1 : 0
    if (attributes.password !== undefined)
      this.folders.password[folder] = 1 + this.passwords.use(attributes.password)
    if (attributes.expiry !== undefined) this.timers.start(row, attributes.expiry)
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
    this.changed(row)
    this.touch(row)
  }

  addDownloads(row: number, count: number): void {
    this.#changing(row, [SortField.DOWNLOADS], () => {
      this.contents.downloads[row] = (this.contents.downloads[row] as number) + count
    })
    this.changed(row)
  }

  setCode(row: number, code: string): void {
    this.contents.code.fill(0, row * 8, row * 8 + 8)
    for (let at = 0; at < code.length; at++) this.contents.code[row * 8 + at] = code.charCodeAt(at)
    this.changed(row)
  }

  setModTime(row: number, seconds: number): void {
    this.contents.modified[row] = seconds
    this.changed(row)
    this.touch(row)
  }

  setPublic(folder: number, isPublic: boolean): void {
    this.counted(folder, -1)
    this.folders.isPublic[this.folderRow(folder)] = isPublic ? 1 : 0
    this.counted(folder, 1)
    this.changed(folder)
    this.touch(folder)
  }

  setPassword(folder: number, verifier: PasswordVerifier | undefined): void {
    this.#setPassword(folder, verifier)
    this.touch(folder)
  }

  #setPassword(folder: number, verifier: PasswordVerifier | undefined): void {
    const at = this.folderRow(folder)
    const before = this.folders.password[at] as number
    this.folders.password[at] = verifier === undefined ? 0 : 1 + this.passwords.use(verifier)
    if (before !== 0) this.passwords.unuse(before - 1)
    this.changed(folder)
  }

  /** A new expiry makes a closed folder undecided again. */
  setExpiry(folder: number, expiry: number | undefined, deleteAfterExpiry: boolean): void {
    this.counted(folder, -1)
    this.timers.stop(folder)
    if (expiry !== undefined) this.timers.start(folder, expiry)
    this.folders.deleteAfterExpiry[this.folderRow(folder)] = expiry !== undefined && deleteAfterExpiry ? 1 : 0
    this.counted(folder, 1)
    this.changed(folder)
    this.touch(folder)
  }

  /** A use that keeps a file, or all that is in a folder, from being idle. */
  setUsed(row: number, seconds: number): void {
    this.contents.used[row] = Math.max(seconds, this.contents.used[row] as number)
    this.changed(row)
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
        const folder = this.folderRow(at)
        const below = this.folders.firstFolder[folder] as number
        const file = this.folders.firstFile[folder] as number
        if (below !== none) {
          at = below
          continue
        }
        left--
        if (left % freedRowsPerSlice === 0) yield
        if (file !== none) {
          this.unlink(file, at)
          this.#freeFile(file, unused)
          continue
        }
        const above = this.parentOf(at)
        if (above !== none) this.unlink(at, above)
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
    this.emptyLists(folder)
    this.folders.isPublic[folder] = (saved.flags & 2) >> 1
    this.folders.deleteAfterExpiry[folder] = (saved.flags & 4) >> 2
    if (saved.password !== undefined) {
      this.passwords.useRow(saved.password)
      this.folders.password[folder] = 1 + saved.password
    }
    if (saved.expiry !== 0) this.timers.start(row, saved.expiry)
    if ((saved.flags & 8) !== 0) this.timers.close(row)
    this.#restoreRow(row, saved.name, '')
  }

  /** Its link is a row of the blobs. */
  restoreFile(row: number, name: string, mimetype: string): void {
    this.blobs.useRow(this.contents.link[row] as number)
    this.#restoreRow(row, name, mimetype)
  }

  #restoreRow(row: number, name: string, mimetype: string): void {
    this.contents.names[row] = name
    this.contents.mimetypes[row] = mimetype
    this.#textBytes += textBytes(name)
    this.#savedTextBytes += savedTextBytes(name) + savedTextBytes(mimetype)
    this.#index.add(row)
  }

  /** Behind the last row. In slices. @throws Error when the rows make no trees. */
  *restored(): Generator<void, void> {
    this.contents.restored()
    this.passwords.restored()
    const held = this.held === none ? [] : [this.held]
    yield* this.link([this.root, this.bin, ...held, ...this.garbage])
  }

  /** One string for equal mimetypes. */
  shared(mimetype: string): string {
    const known = this.#mimetypes.get(mimetype)
    if (known !== undefined) return known
    if (this.#mimetypes.size < sharedMimetypesMax) this.#mimetypes.set(mimetype, mimetype)
    return mimetype
  }

  // ---- internals

  /** It was not deleted, and no timer took it. */
  #isFound(row: number): boolean {
    const top = this.topOf(row)
    return top === this.root || top === this.bin
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
    this.append(row, parent)
    this.addToTotals(parent, row, 1)
    this.orders.inserted(parent, row)
  }

  #detach(row: number): void {
    const parent = this.parentOf(row)
    this.orders.removing(parent, row)
    this.addToTotals(parent, row, -1)
    this.counted(row, -1)
    this.unlink(row, parent)
  }

  #changing(row: number, fields: readonly SortField[], change: () => void): void {
    const parent = this.parentOf(row)
    if (parent === none) change()
    else this.orders.changing(parent, row, fields, change)
  }

  #freeFile(row: number, unused: (blobRow: number) => void): void {
    const blob = this.contents.link[row] as number
    if (this.blobs.unuse(blob)) unused(blob)
    this.#freeRow(row)
  }

  #freeFolder(row: number): void {
    const folder = this.folderRow(row)
    this.orders.drop(row)
    this.#setPassword(row, undefined)
    this.timers.stop(row)
    this.folders.give(folder)
    this.#freeRow(row)
  }

  #freeRow(row: number): void {
    this.sparse.clear(row)
    const name = this.contents.names[row] as string
    this.#textBytes -= textBytes(name)
    this.#savedTextBytes -= savedTextBytes(name) + savedTextBytes(this.contents.mimetypes[row] as string)
    this.contents.names[row] = ''
    this.contents.mimetypes[row] = ''
    this.#index.remove(row)
    this.contents.give(row)
  }
}
