/** The waits of an account: time, and its turn of the loop. Tests control both. */
import { type Clock, systemTimers, type Timers } from '@holdfast/kernel'

export interface LoopTimers extends Timers {
  /** Lets the loop turn once, so that sockets and other accounts get their turn. */
  turn(): Promise<void>
}

export const systemLoop: LoopTimers = {
  ...systemTimers,
  turn: () => new Promise((resolve) => setImmediate(resolve)),
}

/** Runs slices to their end; the loop turns whenever they took `turnMs`. */
export async function inTurns<Result>(
  steps: Generator<void, Result>,
  { timers, clock, turnMs }: { timers: LoopTimers; clock: Pick<Clock, 'monotonic'>; turnMs: number },
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
