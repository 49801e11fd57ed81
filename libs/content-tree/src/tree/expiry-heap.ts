/**
 * When folders expire: a heap of (time, row). Changes only add entries; an entry is valid while the
 * folder still has that time, and invalid ones are dropped at the top, or all at once when they
 * outnumber the rest.
 */

export class ExpiryHeap {
  #times: number[] = []
  #rows: number[] = []
  readonly #counts: (row: number, time: number) => boolean

  /** @param counts whether this folder still waits for this time. */
  constructor(counts: (row: number, time: number) => boolean) {
    this.#counts = counts
  }

  get bytes(): number {
    return this.#times.length * 16
  }

  add(row: number, time: number): void {
    this.#times.push(time)
    this.#rows.push(row)
    this.#up(this.#times.length - 1)
  }

  /** The earliest time, Unix seconds. */
  next(): number | undefined {
    while (this.#times.length > 0 && !this.#counts(this.#rows[0] as number, this.#times[0] as number))
      this.#pop()
    return this.#times[0]
  }

  /** Rows that are due, each once, in no particular order, at most `max`. Changes nothing. */
  due(now: number, max: number): number[] {
    const rows = new Set<number>()
    const open = [0]
    for (let at = open.pop(); at !== undefined && rows.size < max; at = open.pop()) {
      const time = this.#times[at]
      if (time === undefined || time > now) continue
      if (this.#counts(this.#rows[at] as number, time)) rows.add(this.#rows[at] as number)
      open.push(2 * at + 1, 2 * at + 2)
    }
    return [...rows]
  }

  /** @param waiting how many folders wait in all. */
  tidy(waiting: number): void {
    if (this.#times.length <= 2 * waiting + 64) return
    const entries = new Map<number, number>()
    for (const [at, row] of this.#rows.entries())
      if (this.#counts(row, this.#times[at] as number)) entries.set(row, this.#times[at] as number)
    this.#times = []
    this.#rows = []
    for (const [row, time] of entries) this.add(row, time)
  }

  #pop(): void {
    const time = this.#times.pop() as number
    const row = this.#rows.pop() as number
    if (this.#times.length === 0) return
    this.#times[0] = time
    this.#rows[0] = row
    this.#down(0)
  }

  #up(from: number): void {
    let at = from
    while (at > 0) {
      const parent = (at - 1) >> 1
      if ((this.#times[parent] as number) <= (this.#times[at] as number)) return
      this.#swap(at, parent)
      at = parent
    }
  }

  #down(from: number): void {
    let at = from
    for (;;) {
      const left = 2 * at + 1
      const right = left + 1
      let least = at
      if (left < this.#times.length && (this.#times[left] as number) < (this.#times[least] as number))
        least = left
      if (right < this.#times.length && (this.#times[right] as number) < (this.#times[least] as number))
        least = right
      if (least === at) return
      this.#swap(at, least)
      at = least
    }
  }

  #swap(a: number, b: number): void {
    ;[this.#times[a], this.#times[b]] = [this.#times[b] as number, this.#times[a] as number]
    ;[this.#rows[a], this.#rows[b]] = [this.#rows[b] as number, this.#rows[a] as number]
  }
}
