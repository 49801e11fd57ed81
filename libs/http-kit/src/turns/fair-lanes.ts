/**
 * Waiting work of networks. The next is of the network that used the least time lately, times the
 * number of its items that wait. A network that asks rarely, or for one thing after the other, goes
 * before all that ask for several things without a break, however many those are. A network waits
 * for others no longer than until its own use is forgotten.
 *
 * Among equals the next is the one that was served longest ago. Networks with little use may count
 * as equals: otherwise a crowd of a thousand new networks goes before a client that asks twenty
 * times a second.
 */
import type { RecentUse } from './recent-use.ts'

interface NetworkLane<V> {
  network: string
  waiting: V[]
}

export class FairLanes<V> {
  readonly #use: RecentUse
  readonly #littleMs: number
  /** The one that was served longest ago is first. */
  readonly #lanes = new Map<string, NetworkLane<V>>()
  #size = 0

  /**
   * @param littleMs networks that used less, times their waiting items, are equals, ms of the last
   *   half second
   */
  constructor(use: RecentUse, littleMs = 0) {
    this.#use = use
    this.#littleMs = littleMs
  }

  /** Number of waiting items, of all networks. */
  get size(): number {
    return this.#size
  }

  /** @param isNext before the others of its network */
  push(network: string, item: V, isNext = false): void {
    const lane = this.#lanes.get(network)
    if (lane === undefined) this.#lanes.set(network, { network, waiting: [item] })
    else if (isNext) lane.waiting.unshift(item)
    else lane.waiting.push(item)
    this.#size++
  }

  /** Removes and returns the next one. */
  shift(): { network: string; item: V } | undefined {
    const lane = this.#next()
    if (lane === undefined) return undefined
    const { network, waiting } = lane
    const item = waiting.shift() as V
    this.#lanes.delete(network)
    if (waiting.length > 0) this.#lanes.set(network, lane)
    this.#size--
    return { network, item }
  }

  #next(): NetworkLane<V> | undefined {
    let next: NetworkLane<V> | undefined
    let least = Number.POSITIVE_INFINITY
    if (this.#lanes.size > 1) this.#use.forget()
    for (const lane of this.#lanes.values()) {
      if (this.#lanes.size === 1) return lane
      const used = Math.max(this.#littleMs, this.#use.of(lane.network) * lane.waiting.length)
      if (used >= least) continue
      next = lane
      least = used
    }
    return next
  }
}
