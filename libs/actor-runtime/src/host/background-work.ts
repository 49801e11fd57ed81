/** What a host does by itself: at intervals, and until it succeeds. */
import type { Services } from '../services.ts'
import { Pauses } from '../timers.ts'

export class BackgroundWork {
  readonly #services: Pick<Services, 'timers' | 'log' | 'bounds'>
  readonly #cancelTimers = new Map<string, () => void>()
  readonly #pauses: Pauses
  #ended = false

  constructor(services: Pick<Services, 'timers' | 'log' | 'bounds'>) {
    this.#services = services
    this.#pauses = new Pauses(services.timers)
  }

  every(name: string, ms: number, run: () => void): void {
    const { timers } = this.#services
    const again = () => {
      this.#cancelTimers.set(
        name,
        timers.after(ms, () => {
          if (this.#ended) return
          again()
          run()
        }),
      )
    }
    if (!this.#ended) again()
  }

  /**
   * Background work: its faults are logged and, for the work of a start, retried until it is done.
   */
  async run(what: string, work: () => Promise<void>): Promise<void> {
    const { log, bounds } = this.#services
    while (!this.#ended) {
      try {
        return await work()
      } catch (error) {
        log.warn({ what, err: error }, 'background work failed and is retried')
        await this.#pauses.pause(bounds.retryMaxMs)
      }
    }
  }

  /** Nothing is begun or retried any more. */
  end(): void {
    this.#ended = true
    for (const cancel of this.#cancelTimers.values()) cancel()
    this.#pauses.endAll()
  }
}
