/**
 * Changes that are applied and answered, and are journaled with the next row of their account:
 * counts of downloads. When no row comes in time, or when there are too many, a row is written for
 * them.
 *
 * Waiting changes are lost with the activation, without an error.
 */
import type { Services } from '../../services.ts'
import { bytesOfEntry, type FlushEntry } from './flush-row.ts'

export class WaitingChanges {
  readonly #services: Services
  readonly #onDue: () => void
  #entries: FlushEntry[] = []
  #bytes = 0
  #cancelTimer: (() => void) | undefined
  /** They have waited long enough for a row. */
  isDue = false

  /** @param onDue called when the waiting changes need a row of their own. */
  constructor(services: Services, onDue: () => void) {
    this.#services = services
    this.#onDue = onDue
  }

  get isEmpty(): boolean {
    return this.#entries.length === 0
  }

  get bytes(): number {
    return this.#bytes
  }

  add(entry: FlushEntry): void {
    const { bounds, timers } = this.#services
    this.#entries.push(entry)
    this.#bytes += bytesOfEntry(entry)
    if (this.#bytes >= bounds.waitingBytesMax) this.isDue = true
    else this.#cancelTimer ??= timers.after(bounds.waitingMs, () => this.#expire())
  }

  /** In their order, for the open batch. */
  take(): FlushEntry[] {
    const entries = this.#entries
    this.#entries = []
    this.#bytes = 0
    this.isDue = false
    this.end()
    return entries
  }

  /** No timer is left. */
  end(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
  }

  #expire(): void {
    this.#cancelTimer = undefined
    this.isDue = true
    this.#onDue()
  }
}
