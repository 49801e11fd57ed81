/**
 * Waiting as a parameter, beside kernel's `Clock`: tests and the simulation decide when it ends.
 */
import type { Clock } from '@holdfast/kernel'

export interface Timers {
  /** Runs once after the delay. @returns cancels it. */
  after(ms: number, run: () => void): () => void
  /** Lets the loop turn once, so that sockets and other accounts get their turn. */
  turn(): Promise<void>
}

/** Real timers. They keep a process alive: the caller cancels one that is no longer needed. */
export const systemTimers: Timers = {
  after(ms, run) {
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  },
  turn: () => new Promise((resolve) => setImmediate(resolve)),
}

/** Runs slices to their end; the loop turns whenever they took `turnMs`. */
export async function inTurns<Result>(
  steps: Generator<void, Result>,
  { timers, clock, turnMs }: { timers: Timers; clock: Pick<Clock, 'monotonic'>; turnMs: number },
): Promise<Result> {
  let endsMs = clock.monotonic() + turnMs
  for (;;) {
    const step = steps.next()
    if (step.done === true) return step.value
    if (clock.monotonic() < endsMs) continue
    await timers.turn()
    endsMs = clock.monotonic() + turnMs
  }
}

export function pause(timers: Timers, ms: number): Promise<void> {
  return new Promise((resolve) => {
    timers.after(ms, resolve)
  })
}

/** Pauses that all end early when they are no longer needed. */
export class Pauses {
  readonly #timers: Timers
  readonly #open = new Map<() => void, () => void>()

  constructor(timers: Timers) {
    this.#timers = timers
  }

  pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        this.#open.delete(end)
        resolve()
      }
      this.#open.set(end, this.#timers.after(ms, end))
    })
  }

  endAll(): void {
    for (const [end, cancel] of [...this.#open]) {
      cancel()
      end()
    }
  }
}

/**
 * Doubling delays between two bounds, spread by ± half, so that many waiters do not return
 * together.
 */
export function backoffMs(
  attempt: number,
  { firstMs, maxMs, fraction }: { firstMs: number; maxMs: number; fraction: number },
): number {
  return Math.min(maxMs, firstMs * 2 ** Math.min(attempt, 30)) * (0.5 + fraction)
}
