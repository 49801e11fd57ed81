/**
 * Counters of one window length, bounded in memory under any flood of keys.
 *
 * Windows are aligned to the clock, so that a whole window is dropped at once: no timers, no sweeping. While a table is full,
 * newcomers share the counter of a larger network, with a larger quota; those already counted keep their own. So a flood of
 * addresses neither grows memory nor makes anybody's counter be forgotten.
 */
export interface Counted {
  count: number
  /** The quota of the counter that was used, which may be the shared one. */
  quota: number
  /** Milliseconds to the end of the window. */
  resetMs: number
}

/** How much larger the budget is that the newcomers of one outer network share while a table is full. */
const outerFactor = 16

export class CounterTable {
  readonly #windowMs: number
  readonly #keysMax: number
  #window = -1
  #counts = new Map<string, number>()
  #outerCounts = new Map<string, number>()

  constructor(options: { windowMs: number; keysMax: number }) {
    this.#windowMs = options.windowMs
    this.#keysMax = options.keysMax
  }

  /** Adds `points` (0: only looks). */
  add(key: string, options: { outerKey: string; quota: number; points: number; nowMs: number }): Counted {
    const { outerKey, quota, points, nowMs } = options
    this.#turn(nowMs)
    const resetMs = this.#windowMs - (nowMs % this.#windowMs)
    const known = this.#counts.get(key)
    if (known !== undefined || this.#counts.size < this.#keysMax) {
      const count = (known ?? 0) + points
      if (points > 0) this.#counts.set(key, count)
      return { count, quota, resetMs }
    }
    // The outer networks are fewer, but an attacker may have many of them as well: past the bound all share one counter.
    const outer = this.#outerCounts.has(outerKey) || this.#outerCounts.size < this.#keysMax ? outerKey : '*'
    const count = (this.#outerCounts.get(outer) ?? 0) + points
    if (points > 0) this.#outerCounts.set(outer, count)
    return { count, quota: quota * outerFactor, resetMs }
  }

  /** Keys held, for metrics and tests. */
  get size(): number {
    return this.#counts.size + this.#outerCounts.size
  }

  #turn(nowMs: number) {
    const window = Math.floor(nowMs / this.#windowMs)
    if (window === this.#window) return
    this.#window = window
    this.#counts = new Map()
    this.#outerCounts = new Map()
  }
}
