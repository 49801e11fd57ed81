/** Whether this process should get requests: after its start, before its drain, and while what it stands on works. */

export type Phase = 'starting' | 'ready' | 'draining'

/** Resolves when all is well; rejects with the reason. */
export type Check = (signal: AbortSignal) => Promise<void>

/** A check that takes longer has failed: a probe gives up after a few seconds itself. */
const checkTimeoutMs = 2000

export class Readiness {
  readonly #checks: ReadonlyMap<string, Check>
  phase: Phase = 'starting'

  constructor(checks: Record<string, Check>) {
    this.#checks = new Map(Object.entries(checks))
  }

  async report(): Promise<{ ready: boolean; checks: Record<string, string> }> {
    const checks: Record<string, string> = { phase: this.phase }
    await Promise.all(
      [...this.#checks].map(async ([name, check]) => {
        checks[name] = await outcomeOf(check)
      }),
    )
    const { phase, ...others } = checks
    return { ready: phase === 'ready' && Object.values(others).every((text) => text === 'ok'), checks }
  }
}

async function outcomeOf(check: Check): Promise<string> {
  const signal = AbortSignal.timeout(checkTimeoutMs)
  const late = new Promise<string>((resolve) => {
    signal.addEventListener('abort', () => resolve(`no answer within ${checkTimeoutMs} ms`))
  })
  const outcome = check(signal).then(
    () => 'ok',
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  )
  return Promise.race([outcome, late])
}
