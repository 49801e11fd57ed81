/**
 * New connections are read one at a time. Networks take turns, and together new connections take
 * half of the event loop's time at most.
 *
 * A connection costs its client nothing. Its first read takes up to 64 KiB, which Node parses in
 * one go: 25 ms where a body comes in pieces of one byte. A hundred such connections, one per turn
 * of the loop, make each turn that long, and other requests take ten turns. So after each one the
 * loop reads no new connection for as long as that one took.
 */
import { type Clock, RoundRobin, systemClock } from '@holdfast/kernel'

/** Starts to read a connection. @returns false when it is closed. */
export type ReadNewcomer = () => boolean

/** Shorter rests are added up: a timer has a resolution of a millisecond. */
const restMsMin = 2
/** Upper bound of a rest, whatever else happened in the turn. */
const restMsMax = 100

export class Arrivals {
  readonly #clock: Pick<Clock, 'monotonic'>
  /** By network. */
  readonly #waiting = new RoundRobin<string, ReadNewcomer>()
  #isBusy = false
  #owedMs = 0

  constructor(clock: Pick<Clock, 'monotonic'> = systemClock) {
    this.#clock = clock
  }

  /** Calls `read` when it is the network's turn: at once when no new connection was just read. */
  enter(network: string, read: ReadNewcomer): void {
    if (!this.#isBusy) {
      this.#read(read)
      return
    }
    this.#waiting.push(network, read)
  }

  /** @returns false when there is nothing to read */
  #read(read: ReadNewcomer): boolean {
    const startedMs = this.#clock.monotonic()
    if (!read()) return false
    this.#isBusy = true
    // The bytes are parsed between these two: the loop polls between them.
    setImmediate(() => {
      setImmediate(() => this.#rest(this.#clock.monotonic() - startedMs))
    })
    return true
  }

  #rest(tookMs: number): void {
    this.#owedMs += tookMs
    if (this.#owedMs < restMsMin) {
      this.#next()
      return
    }
    setTimeout(() => this.#next(), Math.min(restMsMax, this.#owedMs))
    this.#owedMs = 0
  }

  #next(): void {
    this.#isBusy = false
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift())
      if (this.#read(next)) return
  }
}

/** For hosts that accept bodies of any length. */
export const arrivalsOfProcess = new Arrivals()

/**
 * For all other hosts. Beside long work of the loop a rest costs new connections more than it gives
 * others: p99 beside 50 listings of a large folder was 940 ms with rests and 142 without.
 */
export const arrivalsAtOnce: Pick<Arrivals, 'enter'> = {
  enter: (_network, read) => void read(),
}
