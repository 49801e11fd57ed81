/**
 * A turn of the event loop, which all long work of a process shares.
 *
 * Long work runs in pieces that wait in queues: slices of accounts, pieces of answers, connections
 * that begin, and more. If each queue had some time of a turn for itself, a turn with work of all
 * kinds would take as long as all of them together.
 */
import type { Clock } from './clock.ts'

type Monotonic = Pick<Clock, 'monotonic'>

/** What a queue may always use of a turn, ms. */
const eachMs = 1
/** While the long work of a turn is younger than this, its queues may use more, ms. */
const sharedMs = 4

/** A time that ends with the turn in which it was first asked for. */
class SinceTurn {
  #sinceMs: number | undefined

  ageMs(nowMs: number): number {
    if (this.#sinceMs === undefined) {
      this.#sinceMs = nowMs
      setImmediate(() => {
        this.#sinceMs = undefined
      })
    }
    return nowMs - this.#sinceMs
  }
}

/** Everything with the same clock shares the turn: a process, or a test with its own time. */
const turns = new WeakMap<Monotonic, SinceTurn>()

function turnOf(clock: Monotonic): SinceTurn {
  const known = turns.get(clock) ?? new SinceTurn()
  turns.set(clock, known)
  return known
}

/** A queue's part of each turn. */
export class TurnShare {
  readonly #clock: Monotonic
  readonly #turn: SinceTurn
  readonly #own = new SinceTurn()

  readonly #mostMs: number

  /** @param mostMs of a turn that has no other long work, ms */
  constructor(clock: Monotonic, mostMs: number) {
    this.#clock = clock
    this.#turn = turnOf(clock)
    this.#mostMs = mostMs
  }

  /** Whether another piece may begin in this turn. The first one of the queue may. */
  hasTime(): boolean {
    const nowMs = this.#clock.monotonic()
    const ageMs = this.#turn.ageMs(nowMs)
    const ownMs = this.#own.ageMs(nowMs)
    return ownMs < eachMs || (ownMs < this.#mostMs && ageMs < sharedMs)
  }
}
