/**
 * Rows as they will be when everything queued is written.
 *
 * A check ("is this still the newest epoch?") and the write that relies on it must see one value,
 * although the write becomes durable much later. So the decision uses a row in memory, which
 * changes in the same step in which the write is queued. A row with queued writes is never dropped;
 * one without any equals its stored row and may be. After a failed write the rows in memory are
 * ahead of the stored ones; the store then decides nothing until they are dropped.
 */
export class UncommittedRows<T> {
  readonly #load: (key: string) => Promise<T>
  readonly #max: number
  readonly #cells = new Map<string, Cell<T>>()
  /**
   * By key: the last decision that waits. It waits until its row is read, and until the decisions
   * before it were made.
   */
  readonly #waiting = new Map<string, Promise<void>>()

  /** @param options.max rows kept beyond those with queued writes. */
  constructor(load: (key: string) => Promise<T>, options: { max: number }) {
    this.#load = load
    this.#max = options.max
  }

  /**
   * Runs the decision on the row in one step: at once when it is in memory. Decisions on one key
   * run in the order of their calls. A decision that throws changes nothing.
   */
  async decide<R>(key: string, decision: (cell: Cell<T>) => R): Promise<R> {
    const cell = this.#cells.get(key)
    if (cell === undefined || this.#waiting.has(key)) return this.#decideLater(key, decision)
    this.#cells.delete(key)
    this.#cells.set(key, cell)
    return decision(cell)
  }

  /** The value in memory, if it is there. */
  known(key: string): T | undefined {
    return this.#cells.get(key)?.value
  }

  /**
   * Like `decide`, but the row is not read from the disk: if it is not in memory, it has this
   * value.
   */
  decideFrom<R>(key: string, value: T, decision: (cell: Cell<T>) => R): R {
    return decision(this.#cells.get(key) ?? this.#keep(key, value))
  }

  /** Drops all rows, so that they are read again. Call it when no write is queued or running. */
  forget(): void {
    this.#cells.clear()
  }

  #decideLater<R>(key: string, decision: (cell: Cell<T>) => R): Promise<R> {
    const earlier = this.#waiting.get(key) ?? Promise.resolve()
    const decided = earlier.then(async () =>
      decision(this.#cells.get(key) ?? this.#keep(key, await this.#load(key))),
    )
    const over = () => {
      if (this.#waiting.get(key) === turn) this.#waiting.delete(key)
    }
    const turn = decided.then(over, over)
    this.#waiting.set(key, turn)
    return decided
  }

  #keep(key: string, value: T): Cell<T> {
    const kept = new Cell(value)
    this.#cells.set(key, kept)
    for (const [oldest, cell] of this.#cells) {
      if (this.#cells.size <= this.#max) break
      if (!cell.isQueued && cell !== kept) this.#cells.delete(oldest)
    }
    return kept
  }
}

export class Cell<T> {
  #value: T
  #queued = 0

  constructor(value: T) {
    this.#value = value
  }

  get value(): T {
    return this.#value
  }

  get isQueued(): boolean {
    return this.#queued > 0
  }

  /** The new value, whose write was queued in this very step. */
  change<R>(value: T, written: Promise<R>): Promise<R> {
    this.#value = value
    this.#queued++
    return written.finally(() => this.#queued--)
  }
}
