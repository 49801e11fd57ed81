/**
 * Ends a process of which a part works again only after a restart: a supervisor (systemd with
 * `Restart=on-failure`, a container's restart policy) then starts it. None of them asks `/livez` in
 * our units, and a process that runs and serves nothing would stay.
 */
import { exitCodes } from './start-fault.ts'

export interface EndsItself {
  /** Why only a restart helps; undefined while it is not so. */
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
