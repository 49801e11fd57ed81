/**
 * SIGTERM and SIGINT stop the process: the first drains and exits 0, one more exits at once.
 *
 * Ctrl-C in a terminal reaches npm and this process, and npm passes its own on: two signals of one
 * key press. A signal shortly after the first therefore does not count as the second.
 */
import { systemClock } from '@holdfast/kernel'

const oneGestureMs = 500

export function stopAtSignals(close: () => Promise<void>): void {
  let firstMs: number | undefined
  const stop = (signal: NodeJS.Signals) => {
    const nowMs = systemClock.monotonic()
    if (firstMs !== undefined) {
      if (nowMs - firstMs > oneGestureMs) process.exit(signal === 'SIGINT' ? 130 : 143)
      return
    }
    firstMs = nowMs
    console.error('Holdfast is stopping: requests under way may end. Once more to exit at once.')
    close().then(
      () => process.exit(0),
      (error: unknown) => {
        console.error(error)
        process.exit(1)
      },
    )
  }
  process.on('SIGTERM', stop)
  process.on('SIGINT', stop)
}
