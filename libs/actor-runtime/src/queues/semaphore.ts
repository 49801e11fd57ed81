/**
 * A bounded number of concurrent jobs; the rest waits in order. Callers check `waiting` first where
 * nothing else bounds the queue.
 */
export class Semaphore {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(count: number) {
    this.#free = count
  }

  /** Number of waiting jobs. */
  get waiting(): number {
    return this.#waiting.length
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#free++
      else next()
    }
  }
}

/**
 * Runs `work` over the items, at most `atOnce` at one time. The first fault ends it, once running
 * work has ended.
 */
export async function forEachAtMost<T>(
  atOnce: number,
  items: Iterable<T> | AsyncIterable<T>,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const running = new Set<Promise<void>>()
  const faults: unknown[] = []
  for await (const item of items) {
    const one = work(item)
      .catch((error: unknown) => void faults.push(error))
      .finally(() => running.delete(one))
    running.add(one)
    if (running.size >= atOnce) await Promise.race(running)
    if (faults.length > 0) break
  }
  await Promise.all(running)
  if (faults.length > 0) throw faults[0]
}
