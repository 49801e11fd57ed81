/**
 * Bodies that come in very many small pieces are read one at a time, and together take a quarter of
 * the loop's time at most.
 *
 * Node parses a read of up to 64 KiB in one go. With pieces of one byte these are 11,000 calls,
 * which take 10 to 25 ms and cost the sender nothing. A hundred such connections, each read once a
 * turn of the loop, would make a turn last a second.
 *
 * Whether pieces are small is seen after a read. So four kinds of reads begin here one by one:
 *
 * - the parsing of a connection's first read, when it has very many lines,
 * - the first read of a connection whose network sent small pieces lately,
 * - the body of a request of unknown length,
 * - what follows after a read that held many small pieces.
 *
 * While there are no small pieces, none of them waits longer than a few milliseconds.
 */
import { type Clock, RoundRobin, systemClock } from '@holdfast/kernel'
import { Refusal, unavailableRetrySeconds } from './refusals.ts'

/** After a read the lane rests: this many times as long as the read took. */
const restFactor = 3
/** However long the clock says that a read took. */
const restMsMax = 250
/** Until the first read of what begins is behind it. */
const beginMs = 2
/**
 * A wait that takes longer is refused: nothing is read of what waits, so its client may be gone.
 */
const waitMsMax = 2_000
/** What waits may hold two reads of its socket, 128 KiB: 64 MiB in all. */
const waitingMax = 512
/** A network that sent small pieces is known for this long. */
const knownMs = 10_000
const knownMax = 4_096

/** What waits for its turn. Exactly one of both is called, once. */
export interface Turn {
  /** It may be read on. */
  readOn: () => void
  /** It waited too long, or too many wait. */
  refuse: (refusal: Refusal) => void
}

interface Waiting extends Turn {
  /** It is refused after this moment. Infinity: it holds nothing and waits. */
  latestMs: number
}

/** What hosts ask of it. */
export type PiecesLane = Pick<SmallPiecesLane, 'isKnown' | 'enter' | 'begin' | 'took' | 'wait'>

export class SmallPiecesLane {
  readonly #clock: Pick<Clock, 'monotonic'>
  /** By network. */
  readonly #waiting = new RoundRobin<string, Waiting>()
  /** Of those that wait: how many may hold bytes. */
  #holding = 0
  /** Until when networks are known, the soonest first. */
  readonly #known = new Map<string, number>()
  #restingUntilMs = 0
  #timer: NodeJS.Timeout | undefined

  constructor(clock: Pick<Clock, 'monotonic'> = systemClock) {
    this.#clock = clock
  }

  /**
   * What may be small pieces begins.
   * @returns whether it may be read now: then `turn` is not called
   */
  begin(network: string, turn: Turn): boolean {
    const nowMs = this.#clock.monotonic()
    const isFree = this.#waiting.size === 0 && nowMs >= this.#restingUntilMs
    if (isFree) this.#restingUntilMs = nowMs + beginMs
    else this.wait(network, turn)
    return isFree
  }

  /** Has this network sent small pieces lately? */
  isKnown(network: string): boolean {
    return (this.#known.get(network) ?? Number.NEGATIVE_INFINITY) >= this.#clock.monotonic()
  }

  /** A read of small pieces took this long. */
  took(network: string, ms: number): void {
    const nowMs = this.#clock.monotonic()
    this.#restingUntilMs = Math.max(this.#restingUntilMs, nowMs) + Math.min(restMsMax, restFactor * ms)
    this.#known.delete(network)
    this.#known.set(network, nowMs + knownMs)
    const [oldest] = this.#known.keys()
    if (this.#known.size > knownMax && oldest !== undefined) this.#known.delete(oldest)
  }

  /** A connection of which nothing was read: the number of connections bounds how many wait. */
  enter(network: string, readOn: () => void): void {
    this.#push(network, { readOn, refuse: () => {}, latestMs: Number.POSITIVE_INFINITY })
  }

  wait(network: string, turn: Turn): void {
    if (this.#holding >= waitingMax) {
      turn.refuse(refusal())
      return
    }
    this.#holding++
    this.#push(network, { ...turn, latestMs: this.#clock.monotonic() + waitMsMax })
  }

  #push(network: string, waiting: Waiting): void {
    this.#waiting.push(network, waiting)
    this.#serveSoon()
  }

  #serveSoon(): void {
    const ms = Math.max(0, this.#restingUntilMs - this.#clock.monotonic())
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.#serve()
    }, ms)
  }

  #serve(): void {
    const nowMs = this.#clock.monotonic()
    while (nowMs >= this.#restingUntilMs) {
      const next = this.#waiting.shift()
      if (next === undefined) return
      if (next.latestMs !== Number.POSITIVE_INFINITY) this.#holding--
      if (nowMs > next.latestMs) next.refuse(refusal())
      else {
        this.#restingUntilMs = nowMs + beginMs
        next.readOn()
      }
    }
    if (this.#waiting.size > 0) this.#serveSoon()
  }
}

function refusal(): Refusal {
  return new Refusal('error-rateLimit', { retryAfter: unavailableRetrySeconds })
}
