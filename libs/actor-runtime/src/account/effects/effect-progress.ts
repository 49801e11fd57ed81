/**
 * The progress of an account's effects: in the state, durable, taken over, done, and journaled as
 * done. Effects are taken over in the order of their numbers, a few at a time. Their ends are
 * journaled with the next row, or in a row of their own if none comes.
 */
import type { AccountState } from '@holdfast/content-tree'
import type { Change, Effect } from '@holdfast/wire'
import type { Services } from '../../services.ts'

/** Finished effects in one change. */
const finishedPerChangeMax = 4096
/** Effects handed over at once: a few milliseconds. */
const effectsPerSlice = 1024

export class EffectProgress {
  readonly #services: Services
  readonly #onDue: () => void
  /** Effects up to `#durable` are durable, and effects up to `#taken` are taken over. */
  #durable = 0
  #taken = 0
  /** Taken over and not done. */
  #owed = 0
  #finished: number[] = []
  #cancelTimer: (() => void) | undefined
  #timersEnded = false
  /** Ends of effects have waited long enough for a row. */
  isDue = false

  /** @param onDue called when ends of effects need a row of their own. */
  constructor(services: Services, onDue: () => void) {
    this.#services = services
    this.#onDue = onDue
  }

  /** A row is durable whose changes have effects up to this number. */
  durableTo(lastEffect: number): void {
    this.#durable = lastEffect
  }

  /** Some of the durable ones are not taken over. */
  get left(): boolean {
    return this.#taken < this.#durable
  }

  /** Some ends are in no row. */
  get hasFinished(): boolean {
    return this.#finished.length > 0
  }

  /** A further activation would have something to do. */
  get pending(): boolean {
    return this.#owed > 0 || this.hasFinished || this.left
  }

  /**
   * Takes over some effects of durable changes. Effects that younger changes, durable or not, have
   * withdrawn since are not in the state any more. A younger change that is partly in the state
   * does not matter: its own effects have greater numbers.
   */
  take(state: AccountState): Effect[] {
    const through = this.#durable
    const effects = Iterator.from(state.effects(this.#taken, through)).take(effectsPerSlice).toArray()
    this.#taken = effects.length < effectsPerSlice ? through : (effects.at(-1) as Effect).number
    this.#owe(effects.length)
    return effects
  }

  /** Effects are done. */
  finish(numbers: readonly number[]): void {
    if (numbers.length === 0) return
    this.#owe(-numbers.length)
    for (const number of numbers) this.#finished.push(number)
    if (this.#timersEnded || this.#cancelTimer !== undefined) return
    this.#cancelTimer = this.#services.timers.after(this.#services.bounds.effectsIdleMs, () => {
      this.#cancelTimer = undefined
      this.isDue = true
      this.#onDue()
    })
  }

  /** The change that records ends of effects. */
  changeOfFinished(): Change {
    const numbers = this.#finished.splice(0, finishedPerChangeMax)
    this.isDue &&= this.hasFinished
    return {
      requestId: Buffer.alloc(0),
      timeMs: this.#services.clock.now(),
      events: [{ event: { $case: 'effectsDone', value: { numbers } } }],
      outcome: Buffer.alloc(0),
      seed: Buffer.alloc(0),
      codeStart: 0,
      operation: 0,
      codesUsed: undefined,
    }
  }

  endTimers(): void {
    this.#timersEnded = true
    this.#cancelTimer?.()
  }

  /** The activation ends: the next one carries out the pending effects. */
  end(): void {
    this.endTimers()
    this.#owe(-this.#owed)
  }

  #owe(change: number): void {
    this.#owed += change
    this.#services.metrics.effectsPending(change)
  }
}
