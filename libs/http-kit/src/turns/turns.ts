/**
 * Long work in pieces: each turn of the loop spends a few milliseconds on it, and everything else
 * gets the rest.
 *
 * It is not enough that each piece of an answer waits for the next turn of the loop: the pieces of
 * a hundred answers would still run in sequence in every turn. So they queue here, and networks
 * take turns.
 */
import { type Clock, RoundRobin, systemClock } from '@holdfast/kernel'

/**
 * Milliseconds of one turn of the loop. A short request that needs ten turns is answered after 40
 * ms at most.
 */
const turnMs = 2

type Piece = () => void

export class Turns {
  readonly #clock: Pick<Clock, 'monotonic'>
  /** By network. */
  readonly #waiting = new RoundRobin<string, Piece>()
  #spentMs = 0
  #turning = false

  constructor(clock: Pick<Clock, 'monotonic'> = systemClock) {
    this.#clock = clock
  }

  /**
   * Runs the piece when it is the network's turn: at once when nothing has used this turn's time.
   */
  take<T>(network: string, piece: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      const run = () => {
        try {
          resolve(piece())
        } catch (error) {
          reject(error)
        }
      }
      this.#waiting.push(network, run)
      this.#run()
    })
  }

  #run(): void {
    while (this.#spentMs < turnMs) {
      const piece = this.#waiting.shift()
      if (piece === undefined) break
      const startedMs = this.#clock.monotonic()
      piece()
      this.#spentMs += this.#clock.monotonic() - startedMs
    }
    if (this.#turning) return
    this.#turning = true
    setImmediate(() => {
      this.#turning = false
      this.#spentMs = 0
      if (this.#waiting.size > 0) this.#run()
    })
  }
}
