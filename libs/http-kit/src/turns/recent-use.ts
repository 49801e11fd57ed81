/** How long the work of each network took in the last half second, ms. */
import type { Clock } from '@holdfast/kernel'

/** Use is forgotten after one to two of these: no network waits longer for others. */
const windowMs = 250
/**
 * Maximum of one piece of work, ms. A pause of the garbage collector or of the machine falls on the
 * network that is at work, which would come last until the pause is forgotten.
 */
const countedMax = 4

export class RecentUse {
  readonly #clock: Pick<Clock, 'monotonic'>
  /** The use in this window and in the one before. */
  #now = new Map<string, number>()
  #before = new Map<string, number>()
  #endsMs = Number.NEGATIVE_INFINITY

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock
  }

  add(network: string, ms: number): void {
    this.forget()
    this.#now.set(network, (this.#now.get(network) ?? 0) + Math.min(ms, countedMax))
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
