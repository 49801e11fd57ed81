import type { Clock } from '@holdfast/kernel'
import { clockToleranceMs, isClockOff } from './clocks.ts'
import type { Membership } from './membership.ts'

/** How old the comparison with other members may be. */
const lookMs = 1_000

/**
 * The wall clock. While it is off it is corrected by what the members agree on. So a host whose
 * clock is a day ahead does not drop idempotency keys early or show folders as expired, and its
 * requests get no deadline in the past. It is exact to the delay of a heartbeat.
 *
 * While half of the clocks or more are off, which are right is unknown, and nothing is corrected.
 */
export class AgreedClock implements Clock {
  readonly #clock: Clock
  readonly #membership: Pick<Membership, 'self' | 'members'>
  #aheadMs = 0
  #lookedMs = Number.NEGATIVE_INFINITY
  /**
   * The wall clock less the monotonic clock at that time. It changes only when the wall clock
   * steps.
   */
  #differenceMs = 0

  constructor(clock: Clock, membership: Pick<Membership, 'self' | 'members'>) {
    this.#clock = clock
    this.#membership = membership
  }

  now(): number {
    const wallMs = this.#clock.now()
    const monotonicMs = this.#clock.monotonic()
    const differenceMs = wallMs - monotonicMs
    const hasStepped = Math.abs(differenceMs - this.#differenceMs) > clockToleranceMs
    if (hasStepped || monotonicMs - this.#lookedMs >= lookMs) {
      this.#lookedMs = monotonicMs
      this.#differenceMs = differenceMs
      this.#aheadMs = this.#look()
    }
    return wallMs - this.#aheadMs
  }

  monotonic(): number {
    return this.#clock.monotonic()
  }

  #look(): number {
    const self = this.#membership.self()
    if (!isClockOff(self)) return 0
    const members = this.#membership.members()
    return 2 * members.filter(isClockOff).length < members.length ? Math.round(self.clockOffsetMs) : 0
  }
}
