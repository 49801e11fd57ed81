/**
 * First requests of connections: a turn of the loop begins what it can in a few milliseconds, and
 * networks take turns. The rest waits for the next turn.
 *
 * A crowd that was accepted together is also read together. Were all its requests begun in one turn
 * of the loop, that turn would last a millisecond for each of them, and nobody would be accepted or
 * answered meanwhile.
 */
import { type Clock, RoundRobin } from '@holdfast/kernel'

/** Milliseconds of one turn, from the first that begins in it. */
const turnMs = 4

export class NewcomerTurns {
  readonly #clock: Pick<Clock, 'monotonic'>
  /** By network. */
  readonly #waiting = new RoundRobin<string, () => void>()
  /** When the first one of this turn began. */
  #sinceMs: number | undefined
  #isServing = false

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock
  }

  /** Begins it at once where nothing waits and this turn has time. */
  take(network: string, begin: () => void): void {
    this.#waiting.push(network, begin)
    if (!this.#isServing) this.#serve()
  }

  #serve(): void {
    const nowMs = this.#clock.monotonic()
    if (this.#sinceMs === undefined) {
      this.#sinceMs = nowMs
      setImmediate(() => {
        this.#sinceMs = undefined
        if (this.#waiting.size > 0 && !this.#isServing) this.#serve()
      })
    }
    if (nowMs - this.#sinceMs >= turnMs) return
    this.#isServing = true
    this.#waiting.shift()?.()
    // After what it has begun: a resumed socket is read in the next tick.
    queueMicrotask(() =>
      process.nextTick(() => {
        this.#isServing = false
        if (this.#waiting.size > 0) this.#serve()
      }),
    )
  }
}
