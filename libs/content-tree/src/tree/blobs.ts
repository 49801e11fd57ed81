/**
 * The physical contents that an account uses, each with its number of uses, and the pending
 * releases.
 *
 * When the last use ends a release becomes pending; a new use before the release is done withdraws
 * it, so that the reference is not removed under the new use.
 */
import type { Blob, BlobColumns as SavedBlobs } from '@holdfast/wire'
import { assertRows, BlobColumns, type RowRun, setColumn, wordsOf } from './columns.ts'
import type { CutClock } from './row-marks.ts'
import { WordIndex } from './word-index.ts'

const keyBytes = 64

export class BlobTable {
  readonly columns: BlobColumns
  readonly #index: WordIndex
  /** Effect number → row, in the order of numbers. */
  readonly #releases = new Map<number, number>()
  readonly #key = new Uint32Array(16)

  constructor(cuts: CutClock) {
    this.columns = new BlobColumns(cuts)
    // The incarnation is random, an md5 could be chosen.
    this.#index = new WordIndex(this.columns.keys, { words: 16, hashWord: 12 })
    this.columns.indexed(this.#index)
  }

  get bytes(): number {
    return this.columns.bytes + this.#index.bytes + this.#releases.size * 40
  }

  /** Whether the account uses it now. */
  isUsed(blob: Blob): boolean {
    const row = this.#find(blob)
    return row >= 0 && (this.columns.uses[row] as number) > 0
  }

  /** In use, or its release is pending. */
  isKnown(blob: Pick<Blob, 'id' | 'incarnation'>): boolean {
    return this.#find(blob) >= 0
  }

  /** The row of a known copy; -1: it is not known. */
  rowOf(copy: Pick<Blob, 'id' | 'incarnation'>): number {
    return this.#find(copy)
  }

  /**
   * Names of blobs in use, id and incarnation together, from a row on. A row keeps its place while
   * the table exists.
   * @returns the row to continue from; undefined: there are no more.
   */
  usedFrom(row: number, { max }: { max: number }): { names: Buffer[]; next: number | undefined } {
    const { keys, uses, end } = this.columns
    const names: Buffer[] = []
    let at = row
    for (; at < end && names.length < max; at++)
      if ((uses[at] as number) > 0) names.push(Buffer.from(Buffer.from(keys.buffer, at * keyBytes, keyBytes)))
    return { names, next: at < end ? at : undefined }
  }

  /** The blob's row, counting one use more. */
  use(blob: Blob): number {
    let row = this.#find(blob)
    if (row < 0) row = this.add(blob)
    this.useRow(row)
    return row
  }

  useRow(row: number): void {
    const { uses, release } = this.columns
    uses[row] = (uses[row] as number) + 1
    if (release[row] === 0) return
    this.#releases.delete(release[row] as number)
    release[row] = 0
    this.columns.marks.touch(row)
  }

  /** Without any use yet. */
  add(blob: Blob): number {
    this.#setKey(blob)
    const { columns } = this
    const row = columns.take()
    columns.keys.set(this.#key, row * 16)
    columns.size[row] = blob.size
    columns.crc32[row] = blob.crc32
    columns.placementGroup[row] = blob.placementGroup
    this.#index.add(row)
    return row
  }

  /** One use less; true when it was the last: the caller owes a release. */
  unuse(row: number): boolean {
    const { uses } = this.columns
    if (uses[row] === 0) throw new Error(`blob row ${row} has no uses left`)
    uses[row] = (uses[row] as number) - 1
    return uses[row] === 0
  }

  owe(row: number, effectNumber: number): void {
    this.columns.release[row] = effectNumber
    this.#releases.set(effectNumber, row)
    this.columns.marks.touch(row)
  }

  /** The release is done; unknown numbers (withdrawn meanwhile) are ignored. */
  released(effectNumber: number): void {
    const row = this.#releases.get(effectNumber)
    if (row === undefined) return
    this.#releases.delete(effectNumber)
    this.#index.remove(row)
    this.columns.give(row)
  }

  get releaseCount(): number {
    return this.#releases.size
  }

  rowOfRelease(effectNumber: number): number | undefined {
    return this.#releases.get(effectNumber)
  }

  releases(): Iterable<[number: number, row: number]> {
    return this.#releases
  }

  size(row: number): number {
    return this.columns.size[row] as number
  }

  blob(row: number): Blob {
    const { keys, size, crc32, placementGroup } = this.columns
    const bytes = Buffer.from(Buffer.from(keys.buffer, row * keyBytes, keyBytes))
    return {
      id: bytes.subarray(0, 48),
      incarnation: bytes.subarray(48),
      size: size[row] as number,
      crc32: crc32[row] as number,
      placementGroup: placementGroup[row] as number,
    }
  }

  reserve(rows: number): void {
    this.columns.reserve(rows)
    this.#index.reserve(rows)
  }

  /**
   * Rows of a checkpoint, the columns' from `place` on; uses are counted as the contents come, and
   * `restored` comes behind the last rows.
   */
  load(saved: SavedBlobs, { row: first, count }: RowRun, place: number): void {
    const { columns } = this
    assertRows(saved.releases.length / 8, [
      [saved.ids, 48],
      [saved.incarnations, 16],
      [saved.sizes, 8],
      [saved.crc32s, 4],
      [saved.placementGroups, 4],
    ])
    columns.restore({ row: first, count })
    const end = place + count
    const ids = wordsOf(saved.ids.subarray(place * 48, end * 48))
    const incarnations = wordsOf(saved.incarnations.subarray(place * 16, end * 16))
    setColumn(columns.size, first, saved.sizes.subarray(place * 8, end * 8))
    setColumn(columns.crc32, first, saved.crc32s.subarray(place * 4, end * 4))
    setColumn(columns.placementGroup, first, saved.placementGroups.subarray(place * 4, end * 4))
    setColumn(columns.release, first, saved.releases.subarray(place * 8, end * 8))
    // Plain loops over words: when most accounts are loaded, this code is not compiled yet, and a
    // call costs more than the work in it.
    const { keys } = columns
    for (let from = 0, at = first * 16; from < count; from++, at += 16) {
      for (let word = 0; word < 12; word++) keys[at + word] = ids[from * 12 + word] as number
      for (let word = 0; word < 4; word++) keys[at + 12 + word] = incarnations[from * 4 + word] as number
    }
    this.#index.addRun(first, count)
  }

  /** After the last rows of a checkpoint: the pending releases, in the order of numbers. */
  restored(): void {
    const { columns } = this
    columns.restored()
    const owed: [number: number, row: number][] = []
    for (const { row, count } of columns.runs())
      for (let at = row; at < row + count; at++)
        if (columns.release[at] !== 0) owed.push([columns.release[at] as number, at])
    for (const [number, row] of owed.sort(([one], [other]) => one - other)) this.#releases.set(number, row)
  }

  #find(blob: Pick<Blob, 'id' | 'incarnation'>): number {
    this.#setKey(blob)
    return this.#index.find(this.#key)
  }

  #setKey(blob: Pick<Blob, 'id' | 'incarnation'>): void {
    if (blob.id.length !== 48 || blob.incarnation.length !== 16)
      throw new RangeError(
        `a blob's id has ${blob.id.length} bytes, its incarnation ${blob.incarnation.length}`,
      )
    const bytes = new Uint8Array(this.#key.buffer)
    bytes.set(blob.id)
    bytes.set(blob.incarnation, 48)
  }
}
