/**
 * Guesses at tokens, codes and passwords: each is drawn from its network's budget before it is
 * checked, and returned unless it was wrong.
 *
 * Whether a guess is wrong is known late, after a slow check or an account's turn. A budget that is
 * checked before and drawn on after would accept every guess of a burst. Here running guesses count
 * as well: wrong and running ones together never exceed the budget. When only running guesses are
 * in the way, the next one waits for one of them to end, so that many right guesses at one time
 * (the readers of one office) are only delayed.
 *
 * A request may hold a guess of one kind while it waits for one of another, so two requests can
 * wait for each other. Therefore every wait has a limit.
 */
import type { FastifyRequest } from 'fastify'
import type { Guess, GuessKind, RateLimits } from '../contract.ts'

/** Waiting guesses of one network: as many as the largest request budget of an endpoint admits. */
const waitingPerCounterMax = 1_000
/** Maximum waiting guesses of all networks. Each holds a closure and a request. */
const waitingMax = 16_384
/** A running guess ends with its request, which takes a second or two on a busy system. */
const waitMsDefault = 10_000

interface Gate {
  underWay: number
  /** In order of arrival. */
  readonly waiting: Set<(admitted: boolean) => void>
}

/** The running guesses of each counter. A counter without any takes no memory. */
export class GuessGates {
  readonly #gates = new Map<string, Gate>()
  readonly #waitMs: number
  #waiting = 0

  constructor({ waitMs = waitMsDefault }: { waitMs?: number } = {}) {
    this.#waitMs = waitMs
  }

  /**
   * @param room wrong guesses that the counter still accepts.
   * @returns false: there is no room, too many wait, or it waited too long. True: `end` must be
   *   called once.
   */
  async begin(counter: string, room: () => number): Promise<boolean> {
    const gate = this.#gates.get(counter) ?? { underWay: 0, waiting: new Set() }
    const left = room()
    if (gate.waiting.size === 0 && left > gate.underWay) {
      gate.underWay++
      this.#gates.set(counter, gate)
      return true
    }
    if (left <= 0 || gate.waiting.size >= waitingPerCounterMax || this.#waiting >= waitingMax) return false
    return await this.#wait(gate)
  }

  /** Call it when the counter has recorded the wrong guess, or the guess is known to be right. */
  end(counter: string, room: () => number): void {
    const gate = this.#gates.get(counter)
    if (gate === undefined) return
    gate.underWay--
    const left = room()
    for (const admit of gate.waiting) {
      if (left > 0 && left <= gate.underWay) break
      if (left > 0) gate.underWay++
      admit(left > 0)
    }
    if (gate.underWay === 0) this.#gates.delete(counter)
  }

  async #wait({ waiting }: Gate): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>()
    const admit = (isAdmitted: boolean) => {
      clearTimeout(patience)
      waiting.delete(admit)
      this.#waiting--
      resolve(isAdmitted)
    }
    const patience = setTimeout(admit, this.#waitMs, false)
    waiting.add(admit)
    this.#waiting++
    return await promise
  }

  /** Counters with running guesses. */
  get size(): number {
    return this.#gates.size
  }
}

/** The guesses of one request: at most one of a kind. */
export class RequestGuesses {
  readonly #rateLimits: RateLimits
  readonly #request: FastifyRequest
  #underWay: Map<GuessKind, Guess> | undefined
  #wrong: Set<GuessKind> | undefined

  constructor(rateLimits: RateLimits, request: FastifyRequest) {
    this.#rateLimits = rateLimits
    this.#request = request
  }

  /**
   * Call it before the check. Another check of the same kind is the same guess.
   * @throws RefusalError error-rateLimit
   */
  async begin(kind: GuessKind): Promise<void> {
    if (this.#underWay?.has(kind) || this.#wrong?.has(kind)) return
    const guess = await this.#rateLimits.beginGuess(this.#request, kind)
    this.#underWay ??= new Map()
    this.#underWay.set(kind, guess)
  }

  /**
   * It was wrong, and counts, even if no `begin` announced it.
   * @throws RefusalError error-rateLimit
   */
  async wrong(kind: GuessKind): Promise<void> {
    await this.begin(kind)
    this.#underWay?.get(kind)?.end({ wrong: true })
    this.#underWay?.delete(kind)
    this.#wrong ??= new Set()
    this.#wrong.add(kind)
  }

  /** It is known not to be wrong before the request has ended. */
  right(kind: GuessKind): void {
    this.#underWay?.get(kind)?.end({ wrong: false })
    this.#underWay?.delete(kind)
  }

  /** Call it once the request has its answer, or has failed. */
  end(): void {
    for (const guess of this.#underWay?.values() ?? []) guess.end({ wrong: false })
    this.#underWay = undefined
  }
}

/** Runs a request's work with its guesses, and ends them. */
export async function guessing<T>(
  rateLimits: RateLimits,
  request: FastifyRequest,
  work: (guesses: RequestGuesses) => Promise<T>,
): Promise<T> {
  const guesses = new RequestGuesses(rateLimits, request)
  try {
    return await work(guesses)
  } finally {
    guesses.end()
  }
}

/** For hosts without budgets. */
export const freeGuess: Guess = { end() {} }
