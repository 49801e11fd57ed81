/**
 * The attributes that few contents have, in maps by row beside the packed columns: notes, direct
 * links, and the way back of what lies in the bin or was deleted by a timer.
 */
import type { DirectLink, SweepReason } from '@holdfast/wire'
import { textBytes } from '../text.ts'
import { ExpiryHeap } from './expiry-heap.ts'
import { type NoteName, type Notes, noteNames } from './notes.ts'
import type { RowMarks } from './row-marks.ts'
import { savedLinkBytes, savedNoteBytes, savedRowBytes } from './saved-bytes.ts'

/** Memory of a note, or of a place in the bin. */
const noteBytes = 100

/**
 * Bytes in memory per saved byte of a direct link: its lists are of short texts, each an object.
 * Measured: 4.4 with 100 entries of 20 to 40 characters in each list.
 */
const directLinkObjects = 6

export interface BinPlace {
  time: number
  /** Id of its previous folder. */
  from: string
}

/** Content that a timer deleted and the operator can restore. */
export interface SweptContent extends BinPlace {
  /** Unix seconds. */
  until: number
  why: SweepReason
}

export class SparseColumns {
  readonly notes: Readonly<Record<NoteName, Map<number, string>>> = {
    description: new Map(),
    tags: new Map(),
  }
  /**
   * Bytes that tags and description of a row take in an answer. A row is here if its size was
   * requested since they were set. Counting them again takes as long as writing them.
   */
  readonly notesInAnswers = new Map<number, number>()
  readonly directLinks = new Map<number, DirectLink[]>()
  readonly recycled = new Map<number, BinPlace>()
  /** Contents that lie in the folder `held` by themselves. */
  readonly sweptByRow = new Map<number, SweptContent>()
  /** When content in `held` cannot be restored any more: each has its own time. */
  readonly heldTimers = new ExpiryHeap((row, until) => this.sweptByRow.get(row)?.until === until)
  directLinkCount = 0
  /** Bytes of all direct links, as a checkpoint saves them. */
  #directLinkBytes = 0
  /** Bytes of notes in memory. */
  #textBytes = 0
  /** Notes and direct links as a checkpoint saves them. */
  #savedTextBytes = 0
  readonly #marks: RowMarks

  /** @param marks of the contents: these attributes are saved with them. */
  constructor(marks: RowMarks) {
    this.#marks = marks
  }

  /** Bytes of the direct links in a checkpoint. */
  get directLinkBytes(): number {
    return this.#directLinkBytes
  }

  /** Estimated bytes in memory. */
  get bytes(): number {
    let entries = this.recycled.size + this.sweptByRow.size
    for (const name of noteNames) entries += this.notes[name].size
    return (
      entries * noteBytes +
      this.directLinkCount * 500 +
      this.#directLinkBytes * directLinkObjects +
      this.#textBytes +
      this.heldTimers.bytes
    )
  }

  /** Size in a checkpoint, slightly overestimated. */
  get savedBytes(): number {
    return (this.recycled.size + this.sweptByRow.size) * savedRowBytes.note + this.#savedTextBytes
  }

  notesOf(row: number): Notes {
    return { description: this.notes.description.get(row), tags: this.notes.tags.get(row) }
  }

  hasNotes(row: number): boolean {
    for (const name of noteNames) if (this.notes[name].has(row)) return true
    return false
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
    this.#marks.touch(row)
  }

  /**
   * It goes to the bin, or leaves it: the move marks the row.
   *
   * @param recycled undefined: it does not lie in the bin by itself.
   */
  setRecycled(row: number, recycled: BinPlace | undefined): void {
    if (recycled === undefined) this.recycled.delete(row)
    else this.recycled.set(row, recycled)
  }

  /**
   * It goes to the folder `held`, or leaves it: the move marks the row.
   *
   * @param swept undefined: it does not lie there by itself.
   */
  setSwept(row: number, swept: SweptContent | undefined): void {
    if (swept === undefined) this.sweptByRow.delete(row)
    else {
      this.sweptByRow.set(row, swept)
      this.heldTimers.add(row, swept.until)
      this.heldTimers.tidy(this.sweptByRow.size)
    }
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
    this.#marks.touch(row)
  }

  /** The row is freed. */
  clear(row: number): void {
    for (const name of noteNames) this.setNote(name, row, '')
    this.setDirectLinks(row, [])
    this.setRecycled(row, undefined)
    this.setSwept(row, undefined)
  }
}
