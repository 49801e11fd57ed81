/**
 * Counters of one window length, bounded in memory under any flood of keys.
 *
 * Windows are aligned to the clock, so that a whole window is dropped at once: no timers, no
 * sweeping. While a table is full, new keys share the counter of a larger network, with a larger
 * quota; known keys keep their own. So a flood of addresses neither grows memory nor evicts another
 * client's counter.
 *
 * Frontends exchange their counts (`take`, `news`): a remote count is added while the window lasts.
 * Only counters near their quota are sent; for the others it makes no difference yet.
 */
export interface CountResult {
  /** The key of the counter that was used. */
  counter: string
  count: number
  /** The quota of the counter that was used, which may be the shared one. */
  quota: number
  /** Milliseconds to the end of the window. */
  resetMs: number
}

/** Counts of one frontend in one window, as sent to others. */
export interface ReportedCounts {
  windowMs: number
  /** Number of the window since 1970. */
  window: number
  counts: (readonly [key: string, count: number])[]
}

/**
 * A counter is sent once it has reached this share of its quota: below it even eight frontends
 * together do not reach the quota.
 */
const nearShare = 1 / 8

/** How much larger the budget is that new keys of one outer network share while a table is full. */
const outerFactor = 16

export class CounterTable {
  readonly #windowMs: number
  readonly #keysMax: number
  #window = -1
  #counts = new Map<string, number>()
  #outerCounts = new Map<string, number>()
  #news = new Map<string, number>()
  /** By key, then by frontend. */
  #elsewhere = new Map<string, Map<string, number>>()

  constructor(options: { windowMs: number; keysMax: number }) {
    this.#windowMs = options.windowMs
    this.#keysMax = options.keysMax
  }

  /**
   * Adds `points` (0: only reads).
   * @param options.shared whether it is sent to other frontends; default false.
   */
  add(
    key: string,
    options: { outerKey: string; quota: number; points: number; nowMs: number; shared?: boolean },
  ): CountResult {
    const { outerKey, quota, points, nowMs, shared = false } = options
    this.#turn(nowMs)
    const resetMs = this.#windowMs - (nowMs % this.#windowMs)
    const known = this.#counts.get(key)
    if (known !== undefined || this.#counts.size < this.#keysMax) {
      const count = (known ?? 0) + points
      if (points > 0) {
        this.#counts.set(key, count)
        if (shared && count >= quota * nearShare) this.#news.set(key, count)
      }
      return { counter: key, count: count + this.#countElsewhere(key), quota, resetMs }
    }
    // There are fewer outer networks, but an attacker may have many of them as well: past the bound
    // all share one counter.
    const outer = this.#outerCounts.has(outerKey) || this.#outerCounts.size < this.#keysMax ? outerKey : '*'
    const count = (this.#outerCounts.get(outer) ?? 0) + points
    if (points > 0) this.#outerCounts.set(outer, count)
    return { counter: outer, count, quota: quota * outerFactor, resetMs }
  }

  /**
   * Removes one point that was added at `drawnMs`, unless its window is over. It is not sent to
   * other frontends.
   */
  refund(key: string, options: { outerKey: string; drawnMs: number; nowMs: number }): void {
    this.#turn(options.nowMs)
    if (Math.floor(options.drawnMs / this.#windowMs) !== this.#window) return
    const counts = this.#counts.has(key) ? this.#counts : this.#outerCounts
    const counter = this.#counts.has(key)
      ? key
      : this.#outerCounts.has(options.outerKey)
        ? options.outerKey
        : '*'
    const count = counts.get(counter)
    if (count !== undefined && count > 0) counts.set(counter, count - 1)
  }

  /** Counts since the last call. */
  news(nowMs: number): ReportedCounts {
    this.#turn(nowMs)
    const counts = [...this.#news]
    this.#news.clear()
    return { windowMs: this.#windowMs, window: this.#window, counts }
  }

  /**
   * Adds what another frontend has counted. Counts of another window, and keys past the bound, are
   * dropped.
   */
  take(from: string, { window, counts }: ReportedCounts, nowMs: number): void {
    this.#turn(nowMs)
    if (window !== this.#window) return
    for (const [key, count] of counts) {
      let known = this.#elsewhere.get(key)
      if (known === undefined) {
        if (this.#elsewhere.size >= this.#keysMax) return
        known = new Map()
        this.#elsewhere.set(key, known)
      }
      known.set(from, Math.max(count, known.get(from) ?? 0))
    }
  }

  #countElsewhere(key: string): number {
    let sum = 0
    for (const count of this.#elsewhere.get(key)?.values() ?? []) sum += count
    return sum
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
    this.#news = new Map()
    this.#elsewhere = new Map()
  }
}
