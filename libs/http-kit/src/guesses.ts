/**
 * Guesses at tokens, codes and passwords: each is drawn from its network's budget before it is
 * tried, and given back unless it was wrong.
 *
 * Whether a guess is wrong shows late, after a slow check or an account's turn. A budget that is
 * only looked at before and drawn on after lets through every guess of a burst. Here those under
 * way count as well: wrong ones and those under way together never exceed the budget. When only
 * guesses under way stand in the way, the next one waits for one of them to end, so that many right
 * ones at one time (the readers of one office) are late at most.
 *
 * A request may hold a guess of one kind while it waits for one of another, so two requests can
 * wait for each other. Therefore no wait is without an end.
 */
import type { FastifyRequest } from 'fastify'
import type { Guess, GuessKind, RateLimits } from './contract.ts'

/**
 * Guesses of one network that wait: as many as the largest budget of requests of an endpoint lets
 * come.
 */
const waitingPerCounterMax = 1_000
/** Of all networks, each a closure and a request held. */
const waitingMax = 16_384
/** A guess under way ends with its request, which takes a second or two on a busy system. */
const waitMsDefault = 10_000

interface Gate {
  underWay: number
  /** In the order in which they came. */
  readonly waiting: Set<(admitted: boolean) => void>
}

/**
 * Which guesses are under way, by the counter that they draw on. Counters without any take no
 * memory.
 */
export class GuessGates {
  readonly #gates = new Map<string, Gate>()
  readonly #waitMs: number
  #waiting = 0

  constructor({ waitMs = waitMsDefault }: { waitMs?: number } = {}) {
    this.#waitMs = waitMs
  }

  /**
   * @param room wrong guesses that the counter still takes.
   * @returns false: there is none, too many wait, or it waited too long. True: `end` must be called
   * once.
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

  /** To be called when the counter has the wrong guess, or the right one is known. */
  end(counter: string, room: () => number): void {
    const gate = this.#gates.get(counter)
    if (gate === undefined) return
    gate.underWay--
    const left = room()
    for (const told of gate.waiting) {
      if (left > 0 && left <= gate.underWay) break
      if (left > 0) gate.underWay++
      told(left > 0)
    }
    if (gate.underWay === 0) this.#gates.delete(counter)
  }

  async #wait({ waiting }: Gate): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>()
    const told = (admitted: boolean) => {
      clearTimeout(patience)
      waiting.delete(told)
      this.#waiting--
      resolve(admitted)
    }
    const patience = setTimeout(told, this.#waitMs, false)
    waiting.add(told)
    this.#waiting++
    return await promise
  }

  /** Counters with guesses under way. */
  get size(): number {
    return this.#gates.size
  }
}

/** The guesses of one request: at most one of a kind. */
export class RequestGuesses {
  readonly #limits: RateLimits
  readonly #request: FastifyRequest
  #underWay: Map<GuessKind, Guess> | undefined
  #wrong: Set<GuessKind> | undefined

  constructor(limits: RateLimits, request: FastifyRequest) {
    this.#limits = limits
    this.#request = request
  }

  /**
   * Before it is tried. Another try of the same kind is the same guess.
   * @throws Refusal error-rateLimit
   */
  async begin(kind: GuessKind): Promise<void> {
    if (this.#underWay?.has(kind) || this.#wrong?.has(kind)) return
    const guess = await this.#limits.beginGuess(this.#request, kind)
    this.#underWay ??= new Map()
    this.#underWay.set(kind, guess)
  }

  /**
   * It was wrong, and counts; also one that nothing had made look like a guess.
   * @throws Refusal error-rateLimit
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

  /** To be called once the request has its answer, or none. */
  end(): void {
    for (const guess of this.#underWay?.values() ?? []) guess.end({ wrong: false })
    this.#underWay = undefined
  }
}

/** Runs a request's work with its guesses, and ends them. */
export async function guessing<T>(
  limits: RateLimits,
  request: FastifyRequest,
  work: (guesses: RequestGuesses) => Promise<T>,
): Promise<T> {
  const guesses = new RequestGuesses(limits, request)
  try {
    return await work(guesses)
  } finally {
    guesses.end()
  }
}

/** Where nothing is counted. */
export const freeGuess: Guess = { end() {} }
