/**
 * Bodies that come in very many small pieces are read one at a time, and together take a quarter of
 * the loop's time at most: a read of 64 KiB holds 11,000 pieces of one byte, which take 10 ms, and
 * costs its sender nothing.
 *
 * Whether pieces are small is seen after the first read. So bodies of unknown length begin here one
 * by one, too, which none of them notices while there are no such pieces.
 */
import { Refusal, unavailableRetrySeconds } from '@holdfast/http-kit'
import type { Clock } from '@holdfast/kernel'
import type { Lane } from './request-bytes.ts'

/** So many times as long as the last read took, nobody's follows. */
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

interface Waiting {
  sinceMs: number
  readOn: () => void
  refuse: (refusal: Refusal) => void
}

export class SmallPiecesLane {
  readonly #clock: Pick<Clock, 'monotonic'>
  /** By network; the first one's body is next. */
  readonly #waiting = new Map<string, Waiting[]>()
  #restingUntilMs = 0
  #timer: NodeJS.Timeout | undefined

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock
  }

  of(network: string): Lane {
    return {
      begin: (readOn, refuse) => this.#begin(network, readOn, refuse),
      wait: (tookMs, readOn, refuse) => this.#wait(network, tookMs, readOn, refuse),
    }
  }

  #begin(network: string, readOn: () => void, refuse: (refusal: Refusal) => void): boolean {
    const nowMs = this.#clock.monotonic()
    const isFree = this.#waiting.size === 0 && nowMs >= this.#restingUntilMs
    if (isFree) this.#restingUntilMs = nowMs + beginMs
    else this.#wait(network, 0, readOn, refuse)
    return isFree
  }

  #wait(network: string, tookMs: number, readOn: () => void, refuse: (refusal: Refusal) => void): void {
    const nowMs = this.#clock.monotonic()
    this.#restingUntilMs = Math.max(this.#restingUntilMs, nowMs) + Math.min(restMsMax, restFactor * tookMs)
    const waiting = { sinceMs: nowMs, readOn, refuse }
    const others = this.#waiting.get(network)
    if (others === undefined) this.#waiting.set(network, [waiting])
    else others.push(waiting)
    this.#serveSoon(nowMs)
  }

  #serveSoon(nowMs: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.#serve()
    }, this.#restingUntilMs - nowMs)
  }

  #serve(): void {
    const nowMs = this.#clock.monotonic()
    while (nowMs >= this.#restingUntilMs) {
      const next = this.#shift()
      if (next === undefined) return
      if (nowMs - next.sinceMs > waitMsMax)
        next.refuse(new Refusal('error-rateLimit', { retryAfter: unavailableRetrySeconds }))
      else {
        this.#restingUntilMs = nowMs + beginMs
        next.readOn()
      }
    }
    if (this.#waiting.size > 0) this.#serveSoon(nowMs)
  }

  #shift(): Waiting | undefined {
    const [first] = this.#waiting
    if (first === undefined) return undefined
    const [network, waiting] = first
    const next = waiting.shift()
    this.#waiting.delete(network)
    if (waiting.length > 0) this.#waiting.set(network, waiting)
    return next
  }
}
