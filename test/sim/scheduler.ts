/**
 * Virtual time: a heap of events, run one after the other, each with everything that follows from
 * it without time passing. Nothing in a run waits for a socket, a thread or a real timer. So a turn
 * of the loop between two events lets all promises settle, and the order of everything is a
 * function of the seed.
 */
import { createHash } from 'node:crypto'

interface Entry {
  atMs: number
  order: number
  run: (() => void) | undefined
}

/** Virtual Unix time at which runs begin: a Tuesday noon. */
export const startMs = Date.UTC(2030, 0, 1, 12)

export class Scheduler {
  /** Since the start. */
  #nowMs = 0
  #order = 0
  readonly #heap: Entry[] = []
  readonly #digest = createHash('sha256')
  readonly #printLine: ((line: string) => void) | undefined
  events = 0
  /** Counts noted lines: a total order over everything observable. */
  step = 0

  /** @param printLine receives every noted line; for `--seed`. */
  constructor(printLine?: (line: string) => void) {
    this.#printLine = printLine
  }

  /** Unix milliseconds. */
  get nowMs(): number {
    return startMs + this.#nowMs
  }

  /** Since the start. */
  get elapsedMs(): number {
    return this.#nowMs
  }

  /** Notes an event, for the digest and the trace. @returns its place in the order of all notes. */
  note(line: string): number {
    const text = `${this.#nowMs.toFixed(3)} ${line}\n`
    this.#digest.update(text)
    this.#printLine?.(text)
    return ++this.step
  }

  /** @returns cancels it. */
  after(ms: number, run: () => void): () => void {
    const entry: Entry = { atMs: this.#nowMs + Math.max(0, ms), order: this.#order++, run }
    this.#push(entry)
    return () => {
      entry.run = undefined
    }
  }

  wait(ms: number): Promise<void> {
    return new Promise((resolve) => void this.after(ms, resolve))
  }

  /**
   * Runs until the promise settles. @throws what it rejects with, or when no event is left before
   * it does.
   */
  async until<T>(goal: Promise<T>): Promise<T> {
    let over = false
    const ended = () => {
      over = true
    }
    goal.then(ended, ended)
    await turn()
    while (!over) {
      const entry = this.#pop()
      if (entry === undefined) throw new Error('no event is left, and a caller waits')
      if (entry.run === undefined) continue
      this.#nowMs = Math.max(this.#nowMs, entry.atMs)
      this.events++
      entry.run()
      await turn()
    }
    return goal
  }

  digest(): string {
    return this.#digest.copy().digest('hex').slice(0, 16)
  }

  #push(entry: Entry): void {
    const heap = this.#heap
    let at = heap.push(entry) - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!before(entry, heap[parent] as Entry)) break
      heap[at] = heap[parent] as Entry
      at = parent
    }
    heap[at] = entry
  }

  #pop(): Entry | undefined {
    const heap = this.#heap
    const first = heap[0]
    const last = heap.pop()
    if (last === undefined || heap.length === 0) return first
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && before(heap[child + 1] as Entry, heap[child] as Entry)) child++
      if (!before(heap[child] as Entry, last)) break
      heap[at] = heap[child] as Entry
      at = child
    }
    heap[at] = last
    return first
  }
}

function before(one: Entry, other: Entry): boolean {
  return one.atMs < other.atMs || (one.atMs === other.atMs && one.order < other.order)
}

/** All promises that can settle have settled. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
