/**
 * Long work in pieces: each turn of the loop spends a few milliseconds on it (`TurnShare`), and
 * everything else gets the rest.
 *
 * It is not enough that each piece of an answer waits for the next turn of the loop: the pieces of
 * a hundred answers would still run in sequence in every turn. So they queue here, and the network
 * that used the least time lately is next.
 */
import { type Clock, systemClock, TurnShare } from '@holdfast/kernel'
import { FairLanes } from './fair-lanes.ts'
import { RecentUse } from './recent-use.ts'

/**
 * Milliseconds of one turn of the loop. A short request that needs ten turns is answered after 40
 * ms at most.
 */
const turnMs = 2

type Piece = () => void

export class Turns {
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #use: RecentUse
  readonly #waiting: FairLanes<Piece>
  readonly #share: TurnShare
  #turning = false

  constructor(clock: Pick<Clock, 'monotonic'> = systemClock, use = new RecentUse(clock)) {
    this.#clock = clock
    this.#use = use
    this.#waiting = new FairLanes(use)
    this.#share = new TurnShare(clock, turnMs)
  }

  /**
   * Runs the piece when it is the network's turn: at once when this turn of the loop has time.
   * @param isNext before those that wait in its network
   */
  take<T>(network: string, piece: () => T, isNext = false): Promise<T> {
    return new Promise((resolve, reject) => {
      const run = () => {
        try {
          resolve(piece())
        } catch (error) {
          reject(error)
        }
      }
      this.#waiting.push(network, run, isNext)
      this.#run()
    })
  }

  #run(): void {
    while (this.#waiting.size > 0 && this.#share.hasTime()) {
      const next = this.#waiting.shift()
      if (next === undefined) break
      const startedMs = this.#clock.monotonic()
      next.item()
      this.#use.add(next.network, this.#clock.monotonic() - startedMs)
    }
    if (this.#turning || this.#waiting.size === 0) return
    this.#turning = true
    setImmediate(() => {
      this.#turning = false
      this.#run()
    })
  }
}
