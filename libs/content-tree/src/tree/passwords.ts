/**
 * The passwords of folders. An inherited one is shared; it is dropped when no folder has it any
 * more.
 */
import { hex } from '@holdfast/kernel'
import type { PasswordVerifier } from '@holdfast/wire'
import { rowsPerPart } from '../bounds.ts'
import { type CutClock, RowMarks } from './row-marks.ts'

export class PasswordTable {
  #rows: ({ verifier: PasswordVerifier; key: string; uses: number } | undefined)[] = []
  #free: number[] = []
  readonly #byKey = new Map<string, number>()
  /** What of it a checkpoint has to write. */
  readonly marks: RowMarks

  constructor(cuts: CutClock) {
    this.marks = new RowMarks(cuts, rowsPerPart)
  }

  get bytes(): number {
    return this.#rows.length * 300
  }

  get count(): number {
    return this.#byKey.size
  }

  /** One behind the last row that was ever used. */
  get end(): number {
    return this.#rows.length
  }

  /** The row of this password, counting one use more. */
  use(verifier: PasswordVerifier): number {
    const key = verifierKey(verifier)
    let row = this.#byKey.get(key)
    if (row === undefined) {
      row = this.#free.pop() ?? this.#rows.length
      this.#rows[row] = { verifier, key, uses: 0 }
      this.#byKey.set(key, row)
      this.marks.touch(row)
    }
    this.useRow(row)
    return row
  }

  useRow(row: number): void {
    this.#at(row).uses++
  }

  unuse(row: number): void {
    const entry = this.#at(row)
    if (--entry.uses > 0) return
    this.#byKey.delete(entry.key)
    this.#rows[row] = undefined
    this.#free.push(row)
    this.marks.touch(row)
  }

  /** As a checkpoint has it; uses are counted as the folders come. */
  restore(row: number, verifier: PasswordVerifier): void {
    const key = verifierKey(verifier)
    this.#rows[row] = { verifier, key, uses: 0 }
    this.#byKey.set(key, row)
  }

  /** Rows that no checkpoint had may be used. */
  restored(): void {
    for (let row = this.#rows.length - 1; row >= 0; row--)
      if (this.#rows[row] === undefined) this.#free.push(row)
  }

  /** Rows in use from `first` on, before `end`. */
  *saved(first = 0, end = this.#rows.length): Generator<{ row: number; verifier: PasswordVerifier }> {
    for (let row = first; row < Math.min(end, this.#rows.length); row++) {
      const entry = this.#rows[row]
      if (entry !== undefined) yield { row, verifier: entry.verifier }
    }
  }

  verifier(row: number): PasswordVerifier {
    return this.#at(row).verifier
  }

  #at(row: number): { verifier: PasswordVerifier; key: string; uses: number } {
    const entry = this.#rows[row]
    if (entry === undefined) throw new Error(`no password in row ${row}`)
    return entry
  }
}

function verifierKey({ salt, hash, cost }: PasswordVerifier): string {
  return `${hex(salt)}:${hex(hash)}:${cost}`
}
