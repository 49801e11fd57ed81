/** How long the work of each network took in the last second or two, ms. */
import type { Clock } from '@holdfast/kernel'

/** Use is forgotten after one to two of these. */
const windowMs = 1_000

export class RecentUse {
  readonly #clock: Pick<Clock, 'monotonic'>
  /** Of this window and of the one before. */
  #now = new Map<string, number>()
  #before = new Map<string, number>()
  #endsMs = Number.NEGATIVE_INFINITY

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock
  }

  add(network: string, ms: number): void {
    this.forget()
    this.#now.set(network, (this.#now.get(network) ?? 0) + ms)
  }

  /** As of the last `add` or `forget`. */
  of(network: string): number {
    return (this.#now.get(network) ?? 0) + (this.#before.get(network) ?? 0)
  }

  /** Drops what is too old. */
  forget(): void {
    const nowMs = this.#clock.monotonic()
    if (nowMs < this.#endsMs) return
    this.#before = nowMs < this.#endsMs + windowMs ? this.#now : new Map()
    this.#now = new Map()
    this.#endsMs = nowMs + windowMs
  }
}
