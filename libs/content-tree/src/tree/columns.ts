/** Rows in packed columns: typed arrays that grow together, with freed rows used again. */
import { rowsPerPart } from '../bounds.ts'
import { type CutClock, RowMarks } from './row-marks.ts'
import type { WordIndex } from './word-index.ts'

type Column = Uint8Array | Uint32Array | Float64Array

/** No row. */
export const none = 0xffffffff

const firstCapacity = 16

function isColumn(field: unknown): field is Column {
  return field instanceof Uint8Array || field instanceof Uint32Array || field instanceof Float64Array
}

/** Zeros, of the same type. */
function emptyLike(column: Column, length: number): Column {
  if (column instanceof Uint8Array) return new Uint8Array(length)
  return column instanceof Uint32Array ? new Uint32Array(length) : new Float64Array(length)
}

/**
 * Sets rows from `row` on to the bytes of a saved column. @throws RangeError when they do not fit.
 */
export function setColumn(column: Column | Uint16Array, row: number, saved: Uint8Array, width = 1): void {
  const { buffer, byteOffset, byteLength, BYTES_PER_ELEMENT } = column
  new Uint8Array(buffer, byteOffset, byteLength).set(saved, row * width * BYTES_PER_ELEMENT)
}

/**
 * Saved columns of this many rows, each with this many bytes per row: a shorter one would leave
 * rows at zero. @throws Error.
 */
export function assertRows(count: number, columns: readonly [Uint8Array, number][]): void {
  if (columns.some(([{ length }, bytes]) => length !== bytes * count))
    throw new Error('checkpoint columns of different lengths')
}

/** A saved column of 32-bit words. @throws RangeError when its length is no multiple. */
export function wordsOf(saved: Uint8Array): Uint32Array {
  const words = new Uint32Array(saved.length / 4)
  setColumn(words, 0, saved)
  return words
}

/** Rows in a run: their first row, and how many. */
export interface RowRun {
  row: number
  count: number
}

/** Hands out row numbers. A table's columns are the typed arrays among its subclass's fields. */
abstract class Table {
  /** What of it a checkpoint has to write. */
  readonly marks: RowMarks
  /** Columns with their values per row. The subclass's fields do not exist while this is made. */
  #columns: [name: string, width: number][] | undefined
  #capacity = firstCapacity
  #end = 0
  #free: number[] = []
  #taken = new Uint8Array(firstCapacity)

  constructor(cuts: CutClock) {
    this.marks = new RowMarks(cuts, rowsPerPart)
  }

  /** Rows in use. */
  get count(): number {
    return this.#end - this.#free.length
  }

  /** One behind the last row that was ever used. */
  get end(): number {
    return this.#end
  }

  get bytes(): number {
    let sum = this.#free.length * 8 + this.#capacity
    for (const [name] of this.#widths()) sum += this.#column(name).byteLength
    return sum
  }

  /** A row whose columns are zero. */
  take(): number {
    if (this.#free.length === 0 && this.#end === this.#capacity) this.reserve(Math.ceil(this.#capacity * 1.5))
    const row = this.#free.pop() ?? this.#end++
    this.#taken[row] = 1
    this.marks.touch(row)
    return row
  }

  /** These rows are taken, as a checkpoint has them; `restored` comes behind the last ones. */
  restore({ row, count }: RowRun): void {
    this.reserve(row + count)
    this.#taken.fill(1, row, row + count)
    this.#end = Math.max(this.#end, row + count)
  }

  /** Rows that no checkpoint had may be taken. */
  restored(): void {
    for (let row = this.#end - 1; row >= 0; row--) if (this.#taken[row] === 0) this.#free.push(row)
  }

  isTaken(row: number): boolean {
    return this.#taken[row] === 1
  }

  /** Runs of taken rows from `first` on, before `end`. */
  *runs(first = 0, end = this.#end): Generator<RowRun> {
    for (let at = first; at < Math.min(end, this.#end); ) {
      let behind = at
      while (behind < end && this.#taken[behind] === 1) behind++
      if (behind > at) yield { row: at, count: behind - at }
      at = behind + 1
    }
  }

  give(row: number): void {
    for (const [name, width] of this.#widths()) this.#column(name).fill(0, row * width, (row + 1) * width)
    this.#taken[row] = 0
    this.#free.push(row)
    this.marks.touch(row)
  }

  /** Makes room for that many rows in all. */
  reserve(capacity: number): void {
    if (capacity <= this.#capacity) return
    const fields = this as unknown as Record<string, Column>
    for (const [name, width] of this.#widths()) {
      const grown = emptyLike(this.#column(name), capacity * width)
      grown.set(this.#column(name))
      fields[name] = grown
    }
    const taken = new Uint8Array(capacity)
    taken.set(this.#taken)
    this.#taken = taken
    this.#capacity = capacity
    this.grown()
  }

  protected abstract grown(): void

  #widths(): [name: string, width: number][] {
    this.#columns ??= Object.entries(this)
      .filter(([, field]) => isColumn(field))
      .map(([name, { length }]) => [name, length / this.#capacity])
    return this.#columns
  }

  #column(name: string): Column {
    return (this as unknown as Record<string, Column>)[name] as Column
  }
}

function u8(width = 1): Uint8Array {
  return new Uint8Array(firstCapacity * width)
}
function u32(width = 1): Uint32Array {
  return new Uint32Array(firstCapacity * width)
}
function f64(): Float64Array {
  return new Float64Array(firstCapacity)
}

/** The common part of files and folders. Strings of a row are kept beside, in plain arrays. */
export class ContentTable extends Table {
  ids = u32(4)
  parent = u32()
  /** Neighbours of the same kind in the same folder. */
  next = u32()
  previous = u32()
  /** Row in the folder table or in the blob table. */
  link = u32()
  isFolder = u8()
  /** ASCII, zero filled. */
  code = u8(8)
  /** Unix seconds. */
  created = f64()
  modified = f64()
  downloads = f64()
  /** Unix seconds: last download, move or restoring that was noted; 0: none. */
  used = u32()
  names: string[] = []
  mimetypes: string[] = []
  #index: WordIndex | undefined

  /** With the two arrays of strings beside the columns. */
  override get bytes(): number {
    return super.bytes + this.names.length * 16
  }

  indexed(index: WordIndex): void {
    this.#index = index
  }

  protected override grown(): void {
    this.#index?.moved(this.ids)
  }
}

export class FolderTable extends Table {
  firstFolder = u32()
  lastFolder = u32()
  firstFile = u32()
  lastFile = u32()
  folderCount = u32()
  fileCount = u32()
  /** Child folders that are not public. */
  privateFolders = u32()
  /** Child folders with an expiry. */
  endingFolders = u32()
  /** Totals of everything below the folder. */
  filesBelow = u32()
  foldersBelow = u32()
  bytesBelow = f64()
  isPublic = u8()
  deleteAfterExpiry = u8()
  /** Its expiry fired and it stays. */
  closed = u8()
  /** Number of the last change of what an archive of it would hold; not saved. */
  changed = f64()
  /** Unix seconds; 0: none. */
  expiry = f64()
  /** 1 + row of the password; 0: none. */
  password = u32()

  protected override grown(): void {}
}

export class BlobColumns extends Table {
  /** Blob id (12 words) and incarnation (4 words). */
  keys = u32(16)
  size = f64()
  crc32 = u32()
  placementGroup = u32()
  uses = u32()
  /** Number of the pending release; 0: none. */
  release = f64()
  #index: WordIndex | undefined

  indexed(index: WordIndex): void {
    this.#index = index
  }

  protected override grown(): void {
    this.#index?.moved(this.keys)
  }
}
