/** Waiting as a parameter, beside `Clock`: tests and the simulation decide when it ends. */
export interface Timers {
  /** Runs once after the delay. @returns cancels it. */
  after(ms: number, run: () => void): () => void
}

/** Real timers. They keep a process alive: the caller cancels one that is no longer needed. */
export const systemTimers: Timers = {
  after(ms, run) {
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  },
}

/** Real timers for work that no process stays alive for. */
export const backgroundTimers: Timers = {
  after(ms, run) {
    const timer = setTimeout(run, ms)
    timer.unref()
    return () => clearTimeout(timer)
  },
}

/** Resolves after the delay, or at once when the signal aborts. */
export function pause(timers: Timers, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve()
    const end = () => {
      signal?.removeEventListener('abort', end)
      cancel()
      resolve()
    }
    const cancel = timers.after(ms, end)
    signal?.addEventListener('abort', end, { once: true })
  })
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
