/** Log lines that others can cause in any number: one line per interval. */

/** How long events are only counted after one was logged, ms. */
const silenceMs = 10_000

export class RateLimitedLog<Entry> {
  readonly #write: (last: Entry, count: number) => void
  #timer: NodeJS.Timeout | undefined
  #last: Entry | undefined
  #count = 0

  /**
   * @param write called for the first event at once, then with the last one and the number since.
   */
  constructor(write: (last: Entry, count: number) => void) {
    this.#write = write
  }

  add(entry: Entry): void {
    this.#last = entry
    this.#count++
    if (this.#timer === undefined) this.#sum()
  }

  /** Logs what has not been logged. */
  close(): void {
    clearTimeout(this.#timer)
    this.#say()
  }

  #sum(): void {
    this.#timer = this.#say() ? setTimeout(() => this.#sum(), silenceMs).unref() : undefined
  }

  #say(): boolean {
    const count = this.#count
    this.#count = 0
    if (count > 0) this.#write(this.#last as Entry, count)
    this.#last = undefined
    return count > 0
  }
}
