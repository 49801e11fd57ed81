/**
 * Bodies in very many small pieces are read one at a time, and together take a quarter of the
 * loop's time at most: a read of 64 KiB holds 11,000 pieces of one byte, which take 10 ms and more,
 * and costs its sender nothing.
 *
 * The first read shows whether pieces are small. So bodies of unknown length also begin here one by
 * one, which has no noticeable cost while there are no such pieces. The first read of a connection
 * comes before that, so networks that recently sent small pieces have their new connections read
 * here as well.
 */
import { type Arrivals, type ReadNewcomer, Refusal, unavailableRetrySeconds } from '@holdfast/http-kit'
import { type Clock, RoundRobin } from '@holdfast/kernel'
import type { Lane } from './request-bytes.ts'

/** After a read the lane rests: this many times as long as the read took. */
const restFactor = 3
/** Upper bound of the measured time of a read. */
const restMsMax = 250
/** Until the first read of a new body is done. */
const beginMs = 2
/** A longer wait is refused: a waiting body is not read, so a closed client goes unnoticed. */
const waitMsMax = 2_000
/** How long a network that sent small pieces is remembered. */
const knownMs = 10_000
const knownMax = 4_096

interface Waiting {
  /** It is refused after this time. */
  latestMs: number
  /** @returns false when there is nothing left to read */
  readOn: () => boolean
  refuse: (refusal: Refusal) => void
}

export interface SmallPiecesLaneParts {
  clock: Pick<Clock, 'monotonic'>
  /** Reads the new connections of all other networks. */
  arrivals: Pick<Arrivals, 'enter'>
}

export class SmallPiecesLane {
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #arrivals: Pick<Arrivals, 'enter'>
  /** By network. */
  readonly #waiting = new RoundRobin<string, Waiting>()
  /** When the memory of a network ends, the earliest first. */
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
    // Connections that came together with the first of a network wait elsewhere when the network
    // becomes known.
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
