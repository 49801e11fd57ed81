/** Warnings that would come with every request for a while, such as that of a full disk. */
import type { Clock } from '@holdfast/kernel'

const everyMs = 10_000

export class RareWarnings {
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #given = new Map<string, { atMs: number; untold: number }>()

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock
  }

  /**
   * Counts one of its kind.
   * @returns how many were not told since the last one that was; undefined: nor is this one.
   */
  due(kind: string): number | undefined {
    const nowMs = this.#clock.monotonic()
    const last = this.#given.get(kind)
    if (last !== undefined && nowMs - last.atMs < everyMs) {
      last.untold++
      return undefined
    }
    this.#given.set(kind, { atMs: nowMs, untold: 0 })
    return last?.untold ?? 0
  }
}
