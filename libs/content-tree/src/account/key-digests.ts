/**
 * Which commands with a client's key (Idempotency-Key) were carried out within the last 24 hours:
 * 33 bytes each, kept apart from their answers.
 *
 * A ring of packed columns, oldest first, and a hash index of the names. Nothing is dropped before
 * its time: a full ring refuses new keys. Each new digest drops at most a few expired ones, so no
 * change takes long; an expired one that is still there counts as absent.
 *
 * The content and order of the ring are part of the state: a function of the changes alone.
 */
import type { KeyDigestColumns } from '@holdfast/wire'
import { forgottenDigestsPerChange, keyDigestsMax, keyDigestsPerPart, keyedSecondsMax } from '../bounds.ts'
import { columnBytes } from '../column-bytes.ts'
import { assertRows, setColumn } from '../tree/columns.ts'
import { CutClock, RowMarks } from '../tree/row-marks.ts'
import { WordIndex } from '../tree/word-index.ts'

/**
 * The part of a request id that is stored: the last two bytes that all chosen ids share, and the
 * ten of the key.
 */
const nameStart = 4
const nameEnd = 16
const nameWords = 3
const askedWords = 2
/** In `operations`: the id contained a digest of the request. */
const askedFlag = 0x80
const firstCapacity = 16

export interface KeyDigest {
  operation: number
  /** False when the command is known to be another one. */
  asks(requestId: Uint8Array): boolean
}

export class KeyDigests {
  readonly #max: number
  #names = new Uint32Array(firstCapacity * nameWords)
  #asked = new Uint32Array(firstCapacity * askedWords)
  #seconds = new Uint32Array(firstCapacity)
  #operations = new Uint8Array(firstCapacity)
  #index = new WordIndex(this.#names, { words: nameWords, hashWord: nameWords - 1 })
  /** Row of the oldest. A capacity is a power of two. */
  #first = 0
  #count = 0
  /** Number of the oldest. Numbers rise by one. */
  oldest = 0
  /** What of it a checkpoint has to write, by numbers. */
  readonly marks: RowMarks
  readonly #key = new Uint32Array(nameWords)
  readonly #question = new Uint32Array(askedWords)

  constructor({ max = keyDigestsMax, cuts = new CutClock() }: { max?: number; cuts?: CutClock } = {}) {
    this.#max = max
    this.marks = new RowMarks(cuts, keyDigestsPerPart)
  }

  get bytes(): number {
    return this.#seconds.length * 25 + this.#index.bytes
  }

  get count(): number {
    return this.#count
  }

  /** Number of the next one. */
  get end(): number {
    return this.oldest + this.#count
  }

  /** No new key can be taken now. */
  isFull(nowMs: number): boolean {
    return this.#count >= this.#max && !this.#isOver(this.#first, nowMs)
  }

  find(requestId: Uint8Array, nowMs: number): KeyDigest | undefined {
    const row = this.#rowOf(requestId)
    if (row < 0 || this.#isOver(row, nowMs)) return undefined
    const flagged = this.#operations[row] as number
    return {
      operation: flagged & ~askedFlag,
      asks: (other) => {
        if ((flagged & askedFlag) === 0 || other.length === nameEnd) return true
        copyWords(this.#question, other, { start: nameEnd, end: nameEnd + askedWords * 4 })
        return this.#question.every((word, at) => word === this.#asked[row * askedWords + at])
      },
    }
  }

  /** @throws Error when the key was used within its time, or there is no room. */
  add(requestId: Uint8Array, { operation, timeMs }: { operation: number; timeMs: number }): void {
    if (operation >= askedFlag) throw new Error(`operation ${operation} does not fit a digest`)
    this.#forget(timeMs)
    const before = this.#rowOf(requestId)
    if (before >= 0) {
      if (!this.#isOver(before, timeMs)) throw new Error('a key was carried out twice')
      this.#index.remove(before)
    }
    if (this.#count >= this.#max) throw new Error(`more than ${this.#max} keys within their time`)
    if (this.#count === this.#seconds.length) this.#reserve(this.#count * 2)
    const row = this.#at(this.#count)
    const withAsked = requestId.length > nameEnd
    this.#names.set(this.#key, row * nameWords)
    this.#question.fill(0)
    if (withAsked) copyWords(this.#question, requestId, { start: nameEnd, end: nameEnd + askedWords * 4 })
    this.#asked.set(this.#question, row * askedWords)
    this.#seconds[row] = Math.ceil(timeMs / 1000)
    this.#operations[row] = operation | (withAsked ? askedFlag : 0)
    this.marks.touch(this.end)
    this.#count++
    this.#index.add(row)
  }

  /** Those with the numbers from `first` on, before `end`, as far as they are left. */
  saved(first = 0, end = this.end): KeyDigestColumns {
    const from = Math.max(first, this.oldest)
    return this.#columns(from - this.oldest, Math.max(0, Math.min(end, this.end) - from))
  }

  /** Adds what a checkpoint has, in the order of numbers; what is forgotten by now is left out. */
  load(columns: KeyDigestColumns): void {
    const rows = columns.operations.length
    assertRows(rows, [
      [columns.names, nameWords * 4],
      [columns.asked, askedWords * 4],
      [columns.seconds, 4],
    ])
    const over = Math.min(rows, Math.max(0, this.oldest - columns.first))
    const count = rows - over
    this.#reserve(this.#count + count)
    const row = this.#count
    setColumn(this.#names, row, columns.names.subarray(over * nameWords * 4), nameWords)
    setColumn(this.#asked, row, columns.asked.subarray(over * askedWords * 4), askedWords)
    setColumn(this.#seconds, row, columns.seconds.subarray(over * 4))
    this.#operations.set(columns.operations.subarray(over), row)
    this.#count += count
    for (let at = row; at < row + count; at++) this.#addToIndex(at)
  }

  #rowOf(requestId: Uint8Array): number {
    copyWords(this.#key, requestId, { start: nameStart, end: nameEnd })
    return this.#index.find(this.#key)
  }

  #isOver(row: number, nowMs: number): boolean {
    return nowMs / 1000 - (this.#seconds[row] as number) > keyedSecondsMax
  }

  #at(place: number): number {
    return (this.#first + place) & (this.#seconds.length - 1)
  }

  #forget(nowMs: number): void {
    this.marks.dropBefore(this.oldest)
    for (let dropped = 0; dropped < forgottenDigestsPerChange && this.#count > 0; dropped++) {
      if (!this.#isOver(this.#first, nowMs)) return
      // A key that was used again after its time has a younger row.
      if (this.#index.find(this.#names, this.#first * nameWords) === this.#first)
        this.#index.remove(this.#first)
      this.#first = this.#at(1)
      this.#count--
      this.oldest++
    }
  }

  #columns(start: number, count: number): KeyDigestColumns {
    const names = new Uint32Array(count * nameWords)
    const asked = new Uint32Array(count * askedWords)
    const seconds = new Uint32Array(count)
    const operations = Buffer.alloc(count)
    for (let place = 0; place < count; place++) {
      const row = this.#at(start + place)
      copyRow(names, place, { from: this.#names, row, words: nameWords })
      copyRow(asked, place, { from: this.#asked, row, words: askedWords })
      seconds[place] = this.#seconds[row] as number
      operations[place] = this.#operations[row] as number
    }
    const first = this.oldest + start
    return {
      names: columnBytes(names),
      asked: columnBytes(asked),
      seconds: columnBytes(seconds),
      operations,
      first,
    }
  }

  /** Room for this number. The oldest is in row 0 then. */
  #reserve(rows: number): void {
    let capacity = this.#seconds.length
    while (capacity < rows) capacity *= 2
    if (capacity === this.#seconds.length) return
    const columns = this.#columns(0, this.#count)
    this.#names = new Uint32Array(capacity * nameWords)
    this.#asked = new Uint32Array(capacity * askedWords)
    this.#seconds = new Uint32Array(capacity)
    this.#operations = new Uint8Array(capacity)
    this.#index = new WordIndex(this.#names, { words: nameWords, hashWord: nameWords - 1 })
    this.#index.reserve(capacity)
    this.#first = 0
    this.#count = 0
    this.load(columns)
  }

  #addToIndex(row: number): void {
    const older = this.#index.find(this.#names, row * nameWords)
    if (older >= 0) this.#index.remove(older)
    this.#index.add(row)
  }
}

function copyWords(to: Uint32Array, bytes: Uint8Array, { start, end }: { start: number; end: number }): void {
  new Uint8Array(to.buffer).set(bytes.subarray(start, end))
}

function copyRow(
  to: Uint32Array,
  place: number,
  { from, row, words }: { from: Uint32Array; row: number; words: number },
): void {
  for (let word = 0; word < words; word++) to[place * words + word] = from[row * words + word] as number
}
