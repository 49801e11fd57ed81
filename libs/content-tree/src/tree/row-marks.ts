/**
 * What changed since when, by ranges of rows: a checkpoint writes the ranges that changed since the
 * one before it.
 *
 * Time is counted in cuts: all that changes between two cuts has the same mark. A checkpoint that
 * could not be written does no harm: the next one asks for all changes since the current one.
 */

/** The clock of an account's marks. */
export class CutClock {
  /** The mark of what changes now; 0 is what was loaded. */
  now = 1
}

export class RowMarks {
  readonly rowsPerRange: number
  readonly #cuts: CutClock
  /** Range → mark of its last change; absent: not since it was loaded. */
  readonly #marks = new Map<number, number>()

  constructor(cuts: CutClock, rowsPerRange: number) {
    this.#cuts = cuts
    this.rowsPerRange = rowsPerRange
  }

  /** A row is to be saved in another way than before. */
  touch(row: number): void {
    this.#marks.set(Math.floor(row / this.rowsPerRange), this.#cuts.now)
  }

  changed(range: number, since: number): boolean {
    return (this.#marks.get(range) ?? 0) > since
  }

  /** Rows of the ranges that changed, at most. */
  rowsChanged(since: number): number {
    let ranges = 0
    for (const mark of this.#marks.values()) if (mark > since) ranges++
    return ranges * this.rowsPerRange
  }

  touchAll(end: number): void {
    for (let row = 0; row < end; row += this.rowsPerRange) this.touch(row)
  }

  /** Everything is as it was loaded. */
  clear(): void {
    this.#marks.clear()
  }

  /** Rows before this one are gone for good. */
  dropBefore(row: number): void {
    const first = Math.floor(row / this.rowsPerRange)
    for (const range of this.#marks.keys()) {
      if (range >= first) return
      this.#marks.delete(range)
    }
  }
}
