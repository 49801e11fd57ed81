/**
 * How long alerts look and wait. A rule names seconds; tests shorten all of them together, so that
 * a real Prometheus shows within seconds what takes hours in production.
 */
export interface Times {
  /** Range of a query. */
  window: (seconds: number) => string
  /** How long an alert must hold. */
  pending: (seconds: number) => string
  /** Seconds after which a thing counts as old. */
  age: (seconds: number) => number
}

export const productionTimes: Times = { window: duration, pending: duration, age: (seconds) => seconds }

/**
 * Shortens every age by the factor `times`, and gives every window the same length.
 * @param options.pendingSecondsMax waits are shortened by the same factor, and are at most this
 *   long. With 1 s an alert also fires for a condition that ends at once, such as a single slow
 *   scrape. With a larger value a test can check that the alert does not fire then.
 */
export function shortenedTimes({
  times,
  windowSeconds,
  pendingSecondsMax = 1,
}: {
  times: number
  windowSeconds: number
  pendingSecondsMax?: number
}): Times {
  return {
    window: () => duration(windowSeconds),
    pending: (seconds) => duration(Math.max(1, Math.min(pendingSecondsMax, Math.round(seconds / times)))),
    age: (seconds) => seconds / times,
  }
}

export const minute = 60
export const hour = 60 * minute
export const day = 24 * hour

/** As Prometheus writes it: `90m` is `1h30m`, and 0 is `0s`. */
function duration(seconds: number): string {
  const parts: [unit: string, seconds: number][] = [
    ['d', day],
    ['h', hour],
    ['m', minute],
    ['s', 1],
  ]
  let text = ''
  let left = seconds
  for (const [unit, length] of parts) {
    const count = Math.floor(left / length)
    left -= count * length
    if (count > 0) text += `${count}${unit}`
  }
  return text === '' ? '0s' : text
}
