/**
 * The common base of a memory journal and a memory lookup store: the order of their operations, and
 * the faults that a test plants. Every operation calls the medium before its effect and once more
 * before its answer, so that a test can stop it at either point, let others overtake, or drop its
 * answer.
 */
import { JournalFault, type JournalFaultCode } from './errors.ts'

export type MemoryOperation =
  | 'acquire'
  | 'rows'
  | 'append'
  | 'head'
  | 'putPage'
  | 'page'
  | 'deletePages'
  | 'pageNames'
  | 'setRoot'
  | 'trim'
  | 'release'
  | 'backUp'
  | 'lookup.write'
  | 'lookup.get'
  | 'lookup.scan'
  | 'lookup.claim'
  | 'lookup.take'

export interface PlantedFault {
  code: JournalFaultCode
  /**
   * Whether the operation has its effect before its answer is lost. A number is how many changes of
   * a `lookup.write` take effect. Default: false, nothing happened.
   */
  applied?: boolean | number
  /** How many operations it affects; default 1, Infinity until removed. */
  times?: number
  /** The account, key (of the first change) or counter it affects; default any. */
  target?: string | ((target: string) => boolean)
}

/** An operation stopped by a test. */
export interface Hold {
  /** Resolves when an operation has reached the point. */
  readonly reached: Promise<void>
  /**
   * Lets it continue; with a fault it fails there instead. Calling it before the point was reached
   * lets the operation pass unstopped.
   */
  release(fault?: JournalFaultCode): void
}

interface PlantedPlan {
  operation: MemoryOperation
  matches: (target: string) => boolean
  left: number
  fault: { code: JournalFaultCode; applied: boolean | number } | undefined
  hold:
    | { at: 'before' | 'after'; reach: () => void; released: Promise<JournalFaultCode | undefined> }
    | undefined
}

export class MemoryMedium {
  /** What the stores on it declare; `exclusive` is not verified. */
  readonly capabilities: { readonly ordered: boolean; readonly exclusive: boolean }
  readonly #plans: PlantedPlan[] = []
  /** With `ordered`: resolves when everything issued so far has had its effect. */
  #tail: Promise<unknown> = Promise.resolve()
  /**
   * With `ordered`: counts lost effects. An operation that was issued before a lost effect and runs
   * after it must have no effect.
   */
  #breaks = 0
  #operations = 0

  /**
   * @param capabilities default: exclusive and ordered, like the embedded store. Unordered stores
   *   let writes overtake each other when held.
   */
  constructor(capabilities: { ordered?: boolean; exclusive?: boolean } = {}) {
    this.capabilities = { ordered: true, exclusive: true, ...capabilities }
  }

  /** Operations so far: for tests that count round trips. */
  get operations(): number {
    return this.#operations
  }

  /** Plants a fault. @returns removes it again. */
  fail(operation: MemoryOperation, { code, applied = false, times = 1, target }: PlantedFault): () => void {
    return this.#plant({
      operation,
      matches: matcher(target),
      left: times,
      fault: { code, applied },
      hold: undefined,
    })
  }

  /**
   * Stops the next such operation: `before` its effect (default), or `after` it and before the
   * answer.
   */
  hold(
    operation: MemoryOperation,
    { at = 'before', target }: { at?: 'before' | 'after'; target?: PlantedFault['target'] } = {},
  ): Hold {
    const reached = Promise.withResolvers<void>()
    const released = Promise.withResolvers<JournalFaultCode | undefined>()
    const hold = { at, reach: reached.resolve, released: released.promise }
    this.#plant({ operation, matches: matcher(target), left: 1, fault: undefined, hold })
    return { reached: reached.promise, release: (fault) => released.resolve(fault) }
  }

  #plant(plan: PlantedPlan): () => void {
    this.#plans.push(plan)
    return () => {
      plan.left = 0
      this.#forgetSpent()
    }
  }

  /**
   * Runs one operation of a store. @param effect synchronous; `changes` bounds how much of it
   * happens.
   */
  async run<T>(
    operation: MemoryOperation,
    target: string,
    effect: (changes: number) => T,
    { writes }: { writes: boolean },
  ): Promise<T> {
    this.#operations++
    const plan = this.#strike(operation, target)
    if (!writes || !this.capabilities.ordered) return perform(operation, effect, plan)
    const breaks = this.#breaks
    const earlier = this.#tail
    const turn = Promise.withResolvers<void>()
    this.#tail = turn.promise
    await earlier
    const lost = () => this.#breaks++
    try {
      if (breaks !== this.#breaks)
        throw plantedFault('UNAVAILABLE', operation, 'a write issued before it was lost')
      return await perform(operation, effect, plan, { applied: turn.resolve, lost })
    } finally {
      turn.resolve()
    }
  }

  #strike(operation: MemoryOperation, target: string): PlantedPlan | undefined {
    const plan = this.#plans.find((one) => one.operation === operation && one.matches(target))
    if (plan === undefined) return undefined
    plan.left--
    this.#forgetSpent()
    return plan
  }

  #forgetSpent(): void {
    for (let at = this.#plans.length - 1; at >= 0; at--) {
      if ((this.#plans[at]?.left ?? 0) <= 0) this.#plans.splice(at, 1)
    }
  }
}

/** Before the effect, the effect, after it: with the plan's action at each point. */
async function perform<T>(
  operation: MemoryOperation,
  effect: (changes: number) => T,
  plan: PlantedPlan | undefined,
  { applied, lost }: { applied: () => void; lost: () => void } = { applied: () => {}, lost: () => {} },
): Promise<T> {
  await Promise.resolve()
  const stopped = await stop(plan, 'before')
  const fault = plan?.fault
  if (stopped !== undefined || (fault !== undefined && fault.applied !== true)) lost()
  if (stopped !== undefined) throw plantedFault(stopped, operation, 'stopped before its effect')
  if (fault?.applied === false) throw plantedFault(fault.code, operation, 'planted, not applied')
  const result = effect(typeof fault?.applied === 'number' ? fault.applied : Number.POSITIVE_INFINITY)
  applied()
  const unanswered = await stop(plan, 'after')
  if (unanswered !== undefined) throw plantedFault(unanswered, operation, 'stopped after its effect')
  if (fault !== undefined) throw plantedFault(fault.code, operation, 'planted, applied')
  return result
}

async function stop(
  plan: PlantedPlan | undefined,
  at: 'before' | 'after',
): Promise<JournalFaultCode | undefined> {
  if (plan?.hold?.at !== at) return undefined
  plan.hold.reach()
  return plan.hold.released
}

function matcher(target: PlantedFault['target']): (target: string) => boolean {
  if (target === undefined) return () => true
  return typeof target === 'function' ? target : (one) => one === target
}

function plantedFault(code: JournalFaultCode, operation: MemoryOperation, what: string): JournalFault {
  return new JournalFault(code, `${operation}: ${what}`)
}
