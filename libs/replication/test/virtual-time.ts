import type { Clock, Timers } from '@holdfast/kernel'

/** Time that moves only when the test says so. */
export class VirtualTime implements Clock, Timers {
  #nowMs = 1_700_000_000_000
  #due: { atMs: number; run: () => void }[] = []

  now(): number {
    return this.#nowMs
  }

  monotonic(): number {
    return this.#nowMs
  }

  after(ms: number, run: () => void): () => void {
    const due = { atMs: this.#nowMs + ms, run }
    this.#due.push(due)
    return () => {
      this.#due = this.#due.filter((other) => other !== due)
    }
  }

  /** Runs everything that is due, in order, including what it triggers. */
  async pass(ms: number): Promise<void> {
    const endMs = this.#nowMs + ms
    for (;;) {
      await settle()
      const next = this.#due
        .filter(({ atMs }) => atMs <= endMs)
        .reduce<{ atMs: number; run: () => void } | undefined>(
          (first, due) => (first === undefined || due.atMs < first.atMs ? due : first),
          undefined,
        )
      if (next === undefined) break
      this.#due = this.#due.filter((due) => due !== next)
      this.#nowMs = Math.max(this.#nowMs, next.atMs)
      next.run()
    }
    this.#nowMs = endMs
    await settle()
  }
}

/** Lets promises that wait only for each other settle. */
async function settle(): Promise<void> {
  for (let n = 0; n < 8; n++) await new Promise((resolve) => setImmediate(resolve))
}
