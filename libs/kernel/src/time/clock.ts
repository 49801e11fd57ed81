/** Time as a parameter, so that tests and the simulation control it. */
export interface Clock {
  /** Wall clock, Unix milliseconds. */
  now(): number
  /** Monotonic milliseconds, for leases and durations. */
  monotonic(): number
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
}
