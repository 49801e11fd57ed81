/**
 * Whether the wall clock can be right: it is compared with the newest time that this installation
 * has noted, plus what the monotonic clock says has passed since.
 *
 * A machine whose clock is a year ahead would delete everything that expires within that year. A
 * clock that was set back would have the same effect when it is corrected. So timers rest while the
 * clock is far from the noted time, until it is near again or the operator accepts it. A machine
 * that was off for longer than the bound is such a case too: nothing is lost by the wait.
 *
 * The noted time moves only while the clock is near. It is written every minute, and at the end.
 */
import type { LookupStore } from '@holdfast/journal'
import type { Clock } from '@holdfast/kernel'

const key = 'clock/newest'
const noteEveryMs = 60_000
/** More than one hour: a clock that is set to summer time by mistake is one hour off. */
const behindMaxMs = 2 * 3_600_000

export interface ClockGuardOptions {
  lookups: Pick<LookupStore, 'get' | 'write'>
  /** How far the clock may be ahead of the noted time. */
  aheadMaxMs: number
  clock: Clock
  log: { warn(fields: object, message: string): void }
}

export class ClockGuard {
  readonly #options: ClockGuardOptions
  #newest: { wallMs: number; monotonicMs: number }
  #notedAtMs = Number.NEGATIVE_INFINITY
  #noting: Promise<void> = Promise.resolve()

  private constructor(options: ClockGuardOptions, wallMs: number) {
    this.#options = options
    this.#newest = { wallMs, monotonicMs: options.clock.monotonic() }
  }

  /** Reads the noted time. A new installation takes the clock as it is. */
  static async open(options: ClockGuardOptions): Promise<ClockGuard> {
    const noted = await options.lookups.get(key)
    const guard = new ClockGuard(
      options,
      noted === undefined ? options.clock.now() : Number(Buffer.from(noted).toString()),
    )
    guard.isOff()
    return guard
  }

  /** How far the clock is ahead of where it should be, ms; behind: negative. Near: 0 or little. */
  get offsetMs(): number {
    const { clock } = this.#options
    return clock.now() - (this.#newest.wallMs + clock.monotonic() - this.#newest.monotonicMs)
  }

  /** True while timers must rest. When the clock is near the noted time, it notes the new time. */
  isOff(): boolean {
    const { aheadMaxMs } = this.#options
    const offsetMs = this.offsetMs
    if (offsetMs > aheadMaxMs || offsetMs < -behindMaxMs) return true
    this.#take()
    return false
  }

  /** The operator says that the clock is right. */
  async accept(): Promise<{ offsetSeconds: number }> {
    const offsetSeconds = Math.round(this.offsetMs / 1000)
    this.#options.log.warn({ offsetSeconds }, 'the operator accepted the wall clock')
    this.#notedAtMs = Number.NEGATIVE_INFINITY
    this.#take()
    await this.#noting
    return { offsetSeconds }
  }

  status(): { agrees: boolean; newestKnown: string; offsetSeconds: number } {
    return {
      agrees: !this.isOff(),
      newestKnown: new Date(this.#newest.wallMs).toISOString(),
      offsetSeconds: Math.round(this.offsetMs / 1000),
    }
  }

  async close(): Promise<void> {
    this.#notedAtMs = Number.NEGATIVE_INFINITY
    this.isOff()
    await this.#noting
  }

  #take(): void {
    const { clock, lookups, log } = this.#options
    this.#newest = { wallMs: clock.now(), monotonicMs: clock.monotonic() }
    if (clock.monotonic() - this.#notedAtMs < noteEveryMs) return
    this.#notedAtMs = clock.monotonic()
    const value = Buffer.from(String(this.#newest.wallMs))
    this.#noting = lookups
      .write([{ put: key, value }])
      .catch((err) => log.warn({ err }, 'the time could not be noted'))
  }
}
