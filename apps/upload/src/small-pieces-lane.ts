/**
 * Bodies that come in very many small pieces are read one at a time, and together take a quarter of
 * the loop's time at most: a read of 64 KiB holds 11,000 pieces of one byte, which take 10 ms and
 * more, and costs its sender nothing.
 *
 * Whether pieces are small is seen after the first read. So bodies of unknown length begin here one
 * by one, too, which none of them notices while there are no such pieces. The first read of a
 * connection comes before all that, so networks that sent small pieces lately have their new
 * connections read here as well.
 */
import { type Arrivals, type ReadNewcomer, Refusal, unavailableRetrySeconds } from '@holdfast/http-kit'
import { type Clock, RoundRobin } from '@holdfast/kernel'
import type { Lane } from './request-bytes.ts'

/** After a read the lane rests: this many times as long as the read took. */
const restFactor = 3
/** However long the clock says that a read took. */
const restMsMax = 250
/** Until the first read of a body that begins is behind it. */
const beginMs = 2
/**
 * A wait that takes longer is refused: nothing is read of a body that waits, so nobody sees that
 * its client is gone.
 */
const waitMsMax = 2_000
/** A network that sent small pieces is known for so long. */
const knownMs = 10_000
const knownMax = 4_096

interface Waiting {
  /** It is refused after this moment. */
  latestMs: number
  /** @returns false when there is nothing to read any more */
  readOn: () => boolean
  refuse: (refusal: Refusal) => void
}

export interface SmallPiecesLaneParts {
  clock: Pick<Clock, 'monotonic'>
  /** Reads the newcomers of all other networks. */
  arrivals: Pick<Arrivals, 'enter'>
}

export class SmallPiecesLane {
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #arrivals: Pick<Arrivals, 'enter'>
  /** By network. */
  readonly #waiting = new RoundRobin<string, Waiting>()
  /** Until when networks are known, the soonest first. */
  readonly #known = new Map<string, number>()
  #restingUntilMs = 0
  #timer: NodeJS.Timeout | undefined

  constructor({ clock, arrivals }: SmallPiecesLaneParts) {
    this.#clock = clock
    this.#arrivals = arrivals
  }

  /** A new connection: `read` is called when it is its turn. */
  enter(network: string, read: ReadNewcomer): void {
    const wait = () =>
      this.#push(network, { latestMs: Number.POSITIVE_INFINITY, readOn: read, refuse: () => {} })
    const waitIfKnown = () => {
      const isKnown = this.#isKnown(network)
      if (isKnown) wait()
      return isKnown
    }
    // Those that came together with the first of a network wait elsewhere when it becomes known.
    if (!waitIfKnown()) this.#arrivals.enter(network, () => !waitIfKnown() && read())
  }

  #isKnown(network: string): boolean {
    return (this.#known.get(network) ?? Number.NEGATIVE_INFINITY) >= this.#clock.monotonic()
  }

  of(network: string): Lane {
    return {
      begin: (readOn, refuse) => this.#begin(network, readOn, refuse),
      took: (ms) => this.#took(network, ms),
      wait: (readOn, refuse) => this.#wait(network, readOn, refuse),
    }
  }

  #begin(network: string, readOn: () => void, refuse: (refusal: Refusal) => void): boolean {
    const nowMs = this.#clock.monotonic()
    const isFree = this.#waiting.size === 0 && nowMs >= this.#restingUntilMs
    if (isFree) this.#restingUntilMs = nowMs + beginMs
    else this.#wait(network, readOn, refuse)
    return isFree
  }

  #took(network: string, ms: number): void {
    const nowMs = this.#clock.monotonic()
    this.#restingUntilMs = Math.max(this.#restingUntilMs, nowMs) + Math.min(restMsMax, restFactor * ms)
    this.#known.delete(network)
    this.#known.set(network, nowMs + knownMs)
    const [oldest] = this.#known.keys()
    if (this.#known.size > knownMax && oldest !== undefined) this.#known.delete(oldest)
  }

  #wait(network: string, readOn: () => void, refuse: (refusal: Refusal) => void): void {
    const latestMs = this.#clock.monotonic() + waitMsMax
    const readOnAlways = () => {
      readOn()
      return true
    }
    this.#push(network, { latestMs, readOn: readOnAlways, refuse })
  }

  #push(network: string, one: Waiting): void {
    this.#waiting.push(network, one)
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
      if (nowMs > next.latestMs)
        next.refuse(new Refusal('error-rateLimit', { retryAfter: unavailableRetrySeconds }))
      else if (next.readOn()) this.#restingUntilMs = Math.max(this.#restingUntilMs, nowMs + beginMs)
    }
    if (this.#waiting.size > 0) this.#serveSoon()
  }
}
