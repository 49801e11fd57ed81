/**
 * The expiries of folders that have not fired yet, and what starts and ends their wait. An expiry
 * that fired stays on a folder that is kept: it is closed to visitors.
 */
import { ExpiryHeap } from './expiry-heap.ts'
import type { Hierarchy } from './hierarchy.ts'

export class FolderTimers {
  readonly #tree: Hierarchy
  readonly #heap: ExpiryHeap
  /** Folders that wait for their expiry. */
  waiting = 0

  /** @param isFound whether callers find this content: timers of deleted folders do not fire. */
  constructor(tree: Hierarchy, isFound: (row: number) => boolean) {
    this.#tree = tree
    this.#heap = new ExpiryHeap((row, time) => this.#waitsFor(row, time) && isFound(row))
  }

  get bytes(): number {
    return this.#heap.bytes
  }

  /** The earliest expiry, Unix seconds. */
  next(): number | undefined {
    return this.#heap.next()
  }

  /** Folders that are due, each once, in no particular order, at most `max`. Changes nothing. */
  due(now: number, max: number): number[] {
    return this.#heap.due(now, max)
  }

  start(folder: number, expiry: number): void {
    this.#tree.folders.expiry[this.#tree.folderRow(folder)] = expiry
    this.waiting++
    this.#heap.add(folder, expiry)
    this.#heap.tidy(this.waiting)
  }

  stop(folder: number): void {
    const at = this.#tree.folderRow(folder)
    if (this.#tree.folders.expiry[at] !== 0 && this.#tree.folders.closed[at] === 0) this.waiting--
    this.#tree.folders.expiry[at] = 0
    this.#tree.folders.closed[at] = 0
  }

  /** Its expiry fired and it stays; it keeps the expiry, which closes it to visitors. */
  close(folder: number): void {
    const { folders } = this.#tree
    const at = this.#tree.folderRow(folder)
    if (folders.closed[at] === 1 || folders.expiry[at] === 0) return
    folders.closed[at] = 1
    this.waiting--
    this.#tree.contents.marks.touch(folder)
  }

  /**
   * Starts the timers of a folder and of the folders in it again: they were dropped while callers
   * could not find the folder.
   */
  wake(folder: number): void {
    const { folders } = this.#tree
    const open = [folder]
    for (let row = open.pop(); row !== undefined; row = open.pop()) {
      const expiry = folders.expiry[this.#tree.folderRow(row)] as number
      if (expiry !== 0) this.#heap.add(row, expiry)
      open.push(...this.#tree.folderRows(row))
    }
    this.#heap.tidy(this.waiting)
  }

  #waitsFor(row: number, time: number): boolean {
    const { contents, folders } = this.#tree
    if (contents.isFolder[row] !== 1) return false
    const at = contents.link[row] as number
    return folders.expiry[at] === time && folders.closed[at] === 0
  }
}
