/** Warnings that would come with every request for a while, such as that of a full disk. */
import type { Clock } from '@holdfast/kernel'

const everyMs = 10_000

export class RareWarnings {
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #given = new Map<string, { atMs: number; suppressed: number }>()

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock
  }

  /**
   * Counts a warning of this kind.
   * @returns how many were suppressed since the last one; undefined: suppress this one too.
   */
  due(kind: string): number | undefined {
    const nowMs = this.#clock.monotonic()
    const last = this.#given.get(kind)
    if (last !== undefined && nowMs - last.atMs < everyMs) {
      last.suppressed++
      return undefined
    }
    this.#given.set(kind, { atMs: nowMs, suppressed: 0 })
    return last?.suppressed ?? 0
  }
}
