/**
 * Who may change the state of an account now: one request at a time, and no one while a change is
 * being applied in slices, or while a checkpoint is cut.
 */
import type { Services } from '../services.ts'
import { inTurns } from '../timers.ts'

/** Why an activation ended other than by passivation. */
export type Loss = 'fenced' | 'unavailable' | 'bug'

export class AccountTurn {
  readonly #services: Services
  readonly #onFree: () => void
  #isHeld = false
  #isApplying = false
  #version = {}
  /** Why the activation is over; undefined: it is not. */
  loss: Loss | undefined

  /** @param onFree the turn was held, and is free again. */
  constructor(services: Services, onFree: () => void) {
    this.#services = services
    this.#onFree = onFree
  }

  /** Nothing is decided meanwhile. */
  get isHeld(): boolean {
    return this.#isHeld
  }

  /** A change is in the state, wholly or partly, and not in the open batch. */
  get isApplying(): boolean {
    return this.#isApplying
  }

  /** Another object after every change that begins to be applied. */
  get version(): object {
    return this.#version
  }

  /** A change is applied from here on; always call `applied`. */
  applies(): void {
    this.#version = {}
    this.#isApplying = true
  }

  applied(): void {
    this.#isApplying = false
  }

  /** Keeps the turn while `work` yields to the loop, so the state does not change in that time. */
  async hold(work: () => Promise<void>): Promise<void> {
    this.#isHeld = true
    await work()
    this.#isHeld = false
    this.#onFree()
  }

  /**
   * Applies a change at once when that is short, else in slices that keep the turn. Until the last
   * one nothing is decided, sealed or cut: no part of it is visible, and none becomes durable
   * before it.
   *
   * @returns undefined: it is applied.
   */
  run(steps: Generator<void, void>): Promise<void> | undefined {
    if (steps.next().done === true) return undefined
    const { clock, bounds, timers } = this.#services
    const endsMs = clock.monotonic() + bounds.turnMs
    while (clock.monotonic() < endsMs) if (steps.next().done === true) return undefined
    return this.hold(async () => {
      await timers.turn()
      await this.inSlices(steps)
    })
  }

  inSlices(steps: Generator<void, void>): Promise<void> {
    const { clock, timers, bounds } = this.#services
    return inTurns(steps, { clock, timers, turnMs: bounds.turnMs })
  }
}
