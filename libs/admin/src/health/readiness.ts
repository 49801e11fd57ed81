/**
 * Whether this process should get requests: after its start, before its drain, and while the deps
 * it depends on work; and whether it is alive at all.
 */
import { type Clock, type PartFailure, systemClock } from '@holdfast/kernel'

export type Phase = 'starting' | 'ready' | 'draining'

/** Resolves when all is well; rejects with the reason. */
export type Check = (signal: AbortSignal) => Promise<void>

/** A slower check has failed: a probe gives up after a few seconds itself. */
const checkTimeoutMs = 2000

/** Within this time strangers' questions share one report: a check asks Cassandra, or the disk. */
const sharedMs = 1000

/**
 * A part that fails for this long does not recover without a restart: most causes last seconds, and
 * a restart takes some, too.
 */
const hopelessMs = 60_000

/** A part without which the process is useless, and how it fails now. */
export type VitalPart = () => PartFailure | undefined

export class Readiness {
  readonly #checks: ReadonlyMap<string, Check>
  readonly #vital: Map<string, VitalPart>
  readonly #clock: Clock
  #shared: { sinceMs: number; ready: Promise<boolean> } | undefined
  phase: Phase = 'starting'

  /**
   * @param options.vital deps that recover by themselves; one that does not within 60 s makes the
   *   process count as dead
   */
  constructor(
    checks: Record<string, Check>,
    { vital = {}, clock = systemClock }: { vital?: Record<string, VitalPart>; clock?: Clock } = {},
  ) {
    this.#checks = new Map(Object.entries(checks))
    this.#vital = new Map(Object.entries(vital))
    this.#clock = clock
  }

  /** Adds a vital part that is opened later, such as the store of a cluster's node. */
  addVital(name: string, part: VitalPart): void {
    this.#vital.set(name, part)
  }

  /** Why only a restart can help; undefined while the process is alive. */
  get hopeless(): string | undefined {
    return this.#hopeless(() => true)
  }

  /**
   * The same, of parts that do not even try to recover: the process ends itself, so that its
   * supervisor starts it again. The others keep trying, and serve what still works.
   */
  get endReason(): string | undefined {
    return this.#hopeless(({ needsRestart }) => needsRestart)
  }

  #hopeless(counts: (failure: PartFailure) => boolean): string | undefined {
    for (const [name, failing] of this.#vital) {
      const failure = failing()
      if (failure === undefined || !counts(failure)) continue
      if (this.#clock.monotonic() - failure.sinceMs >= hopelessMs)
        return `${name} fails since ${hopelessMs / 1000} s or more: ${failure.reason}`
    }
    return undefined
  }

  /** The result of `report`, at most a second old, for anybody. The phase is the current one. */
  async isReady(): Promise<boolean> {
    if (this.phase !== 'ready') return false
    const nowMs = this.#clock.monotonic()
    if (this.#shared === undefined || nowMs - this.#shared.sinceMs >= sharedMs)
      this.#shared = { sinceMs: nowMs, ready: this.#checksAreOk() }
    return (await this.#shared.ready) && this.phase === 'ready'
  }

  async #checksAreOk(): Promise<boolean> {
    const { phase: _, ...checks } = (await this.report()).checks
    return Object.values(checks).every((text) => text === 'ok')
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
