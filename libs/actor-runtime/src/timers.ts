/** The waits of an account: time, and its turn of the loop. Tests control both. */
import { type Clock, systemClock, systemTimers, type Timers, TurnShare } from '@holdfast/kernel'

export interface LoopTimers extends Timers {
  /** Lets the loop turn once, so that sockets and other accounts get their turn. */
  turn(): Promise<void>
}

/** Milliseconds of one turn of the loop for all accounts that wait for one. */
const sharedMs = 2

/**
 * The turns of the loop, shared by all accounts of a process: in each turn as many continue as it
 * has time for (`TurnShare`), at least one, in order of arrival. If all did, a hundred accounts
 * that are each read in slices would run a hundred slices in each turn.
 */
export class SharedLoop {
  readonly #share: TurnShare
  readonly #waiting: (() => void)[] = []
  #isTurning = false

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#share = new TurnShare(clock, sharedMs)
  }

  turn(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve)
      this.#turnSoon()
    })
  }

  #turnSoon(): void {
    if (this.#isTurning) return
    this.#isTurning = true
    // Those that come during the turn wait for the next.
    setImmediate(() => {
      this.#share.hasTime() // its time counts from here; the first always continues
      this.#goOn(this.#waiting.length)
    })
  }

  #goOn(left: number): void {
    this.#waiting.shift()?.()
    if (left > 1) {
      // The continuation runs in microtasks, which end before the next tick.
      queueMicrotask(() =>
        process.nextTick(() => {
          if (this.#share.hasTime()) this.#goOn(left - 1)
          else this.#endTurn()
        }),
      )
    } else this.#endTurn()
  }

  #endTurn(): void {
    this.#isTurning = false
    if (this.#waiting.length > 0) this.#turnSoon()
  }
}

const shared = new SharedLoop(systemClock)

export const systemLoop: LoopTimers = { ...systemTimers, turn: () => shared.turn() }

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
