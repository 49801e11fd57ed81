/**
 * Starts work that continues in microtasks. A turn of the loop starts as much as has time in it
 * (`TurnShare`); the rest waits for the next turn. The network that used the least time lately is
 * next.
 *
 * First requests of connections: a crowd that was accepted together is also read together. If all
 * its requests began in one turn of the loop, that turn would take a millisecond for each of them,
 * and no other client would be accepted or answered during that time.
 *
 * Pieces of bodies whose bytes are in memory: a hundred archives would each send a MiB in each turn
 * of the loop.
 */
import { type Clock, TurnShare } from '@holdfast/kernel'
import { FairLanes } from './fair-lanes.ts'
import { RecentUse } from './recent-use.ts'

const settled = Promise.resolve()
/** Milliseconds of one turn, from the first that begins in it. */
const turnMs = 4

export class LoopTurns {
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #use: RecentUse
  readonly #waiting: FairLanes<() => void>
  readonly #share: TurnShare
  #isTurning = false
  /** The network whose item runs, and since when; undefined: none does. */
  #serving: string | undefined
  #startedMs = 0

  /** @param littleMs as `FairLanes` takes it */
  constructor(clock: Pick<Clock, 'monotonic'>, use = new RecentUse(clock), littleMs = 0) {
    this.#clock = clock
    this.#use = use
    this.#waiting = new FairLanes(use, littleMs)
    this.#share = new TurnShare(clock, turnMs)
  }

  /** Begins it at once where nothing waits and this turn has time. */
  take(network: string, begin: () => void): void {
    if (this.#serving === undefined && this.#waiting.size === 0 && this.#hasTime())
      this.#begin(network, begin)
    else {
      this.#waiting.push(network, begin)
      if (this.#serving === undefined) this.#serve()
    }
  }

  /** Resolves when the next piece may be made; undefined: it may be made at once. */
  next(network: string): Promise<void> | undefined {
    if (this.#serving === undefined && this.#waiting.size === 0 && this.#hasTime()) return undefined
    return new Promise((resolve) => this.take(network, resolve))
  }

  #hasTime(): boolean {
    const hasTime = this.#share.hasTime()
    if (!this.#isTurning) {
      this.#isTurning = true
      setImmediate(this.#turned)
    }
    return hasTime
  }

  readonly #turned = (): void => {
    this.#isTurning = false
    if (this.#waiting.size > 0 && this.#serving === undefined) this.#serve()
  }

  #serve(): void {
    if (!this.#hasTime()) return
    const next = this.#waiting.shift()
    if (next !== undefined) this.#begin(next.network, next.item)
  }

  #begin(network: string, item: () => void): void {
    this.#startedMs = this.#clock.monotonic()
    this.#serving = network
    item()
    // Not `queueMicrotask`: it makes an object and a closure for each request.
    void settled.then(this.#pausing)
  }

  /** Microtasks of the item run before the next tick, in which a resumed socket is read. */
  readonly #pausing = (): void => process.nextTick(this.#ended)

  readonly #ended = (): void => {
    const network = this.#serving as string
    this.#serving = undefined
    this.#use.add(network, this.#clock.monotonic() - this.#startedMs)
    if (this.#waiting.size > 0) this.#serve()
  }
}
