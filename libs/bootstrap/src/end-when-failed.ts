/**
 * Ends a process when one of its parts needs a restart to work again. A supervisor (systemd with
 * `Restart=on-failure`, a container's restart policy) then starts the process again. The
 * supervisors do not ask `/livez` in our units. Without this, a process that runs and serves
 * nothing would continue to run.
 */
import { exitCodes } from './start-fault.ts'

export interface EndsItself {
  /** Why a restart is needed; undefined: none is needed. */
  readonly endReason: string | undefined
  close(): Promise<void>
}

const lookEveryMs = 5_000
/** As long as a stop by a signal takes at most; a failed part may hang while it is closed. */
const closeWithinMs = 30_000

/** @param options for tests, which do not end with the process. */
export function endWhenFailed(
  running: EndsItself,
  {
    exit = (code) => process.exit(code),
    everyMs = lookEveryMs,
    withinMs = closeWithinMs,
  }: { exit?: (code: number) => void; everyMs?: number; withinMs?: number } = {},
): void {
  const looking = setInterval(() => {
    const reason = running.endReason
    if (reason === undefined) return
    clearInterval(looking)
    console.error(`Holdfast ends, so that it is started again: ${reason}`)
    const late = new Promise((resolve) => setTimeout(resolve, withinMs))
    const closed = running.close().catch((error: unknown) => console.error(error))
    void Promise.race([closed, late]).then(() => exit(exitCodes.PART_FAILED))
  }, everyMs)
  looking.unref()
}
