import { setTimeout as delay } from 'node:timers/promises'

/** The condition must hold after this time on a busy machine; a test file has 600 s. */
const withinMs = 150_000
const longestPauseMs = 100

/**
 * Resolves when the condition holds. An error counts as not yet.
 *
 * @returns how long that took, ms.
 * @throws Error with the source of the condition when it does not hold in time.
 */
export async function until(condition: () => boolean | Promise<boolean>): Promise<number> {
  const startedMs = performance.now()
  let cause: unknown
  for (let pauseMs = 1; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
    try {
      if (await condition()) return Math.round(performance.now() - startedMs)
    } catch (error) {
      cause = error
    }
    if (performance.now() - startedMs > withinMs)
      throw new Error(`not within ${withinMs} ms: ${condition}`, { cause })
    await delay(pauseMs)
  }
}
