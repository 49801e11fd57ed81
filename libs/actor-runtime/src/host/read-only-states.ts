/**
 * States of accounts that may not be changed here, read from what is stored and kept for a moment:
 * the same rules decide what is answered. Nothing is written, and nothing but queries is answered.
 */
import { AccountsUnavailable } from '@holdfast/accounts'
import type { AccountState, Outcome } from '@holdfast/content-tree'
import { type AccountReply, type AccountRequest, operations } from '@holdfast/wire'
import { LRUCache } from 'lru-cache'
import { clientNetworkOf } from '../account/requests/mailbox.ts'
import { passwordCheckKey } from '../queues/password-checks.ts'
import { Semaphore } from '../queues/semaphore.ts'
import type { ReadingServices } from '../services.ts'
import { inTurns } from '../timers.ts'

export interface ReadOnlyState {
  state: AccountState
  /** It is the newest state, so its refusals may be answered. */
  isWhole: boolean
}

export interface ReadOnlyStatesOptions {
  /** Undefined: there is nothing to answer from. */
  read: (account: string) => Promise<ReadOnlyState | undefined>
  /** Answered operations. */
  operations: ReadonlySet<string>
  /** How long a state is used, ms. */
  keptMs: number
}

/** The state of an account that cannot be changed now. */
export const readOnlyOperations: ReadonlySet<string> = new Set(
  Object.entries(operations).flatMap(([name, { isStored }]) => (isStored ? [name] : [])),
)

const keptMax = 16
const readsAtOnceMax = 4
/** Accounts that wait to be read, a second or two at a time. More are refused as overloaded. */
const readsWaitingMax = 64

export class ReadOnlyStates {
  readonly #services: ReadingServices
  readonly #options: ReadOnlyStatesOptions
  readonly #semaphore = new Semaphore(readsAtOnceMax)
  readonly #states: LRUCache<string, Promise<ReadOnlyState | undefined>>

  constructor(services: ReadingServices, options: ReadOnlyStatesOptions) {
    this.#services = services
    this.#options = options
    this.#states = new LRUCache({
      max: keptMax,
      ttl: options.keptMs,
      ttlResolution: 0,
      perf: { now: () => services.clock.monotonic() + 1 },
    })
  }

  /**
   * @returns undefined for everything that cannot be answered here.
   * @throws AccountsUnavailable overloaded when too many wait; what reading throws.
   */
  async answer(request: AccountRequest): Promise<AccountReply | undefined> {
    if (!this.#options.operations.has(request.operation?.$case ?? '')) return undefined
    const read = await this.#read(request.accountId)
    if (read?.state.exists !== true) return undefined
    const outcome = await this.#decide(read.state, request)
    if (outcome.kind !== 'reply') return undefined
    // The state may lack the content that was asked for, so a refusal proves nothing.
    return read.isWhole || outcome.reply.result?.$case !== 'refusal' ? outcome.reply : undefined
  }

  /** Read again when it is asked next. */
  forget(account: string): void {
    this.#states.delete(account)
  }

  async #decide(state: AccountState, request: AccountRequest): Promise<Outcome> {
    const { clock, randomness, timers, bounds, passwords } = this.#services
    const none = { next: 0, end: 0 }
    const verdicts = new Map<string, boolean>()
    for (;;) {
      const decided = state.decide(request, {
        nowMs: clock.now(),
        seed: randomness.bytes(16),
        newId: noNewId,
        codes: none,
        legacyCodes: none,
        verdict: (verifier, password) => verdicts.get(passwordCheckKey(verifier, password)),
      })
      const outcome =
        decided.kind === 'slices'
          ? await inTurns(decided.steps, { clock, timers, turnMs: bounds.turnMs })
          : decided
      const asked = outcome.kind === 'needs' ? (outcome.verdicts ?? []) : []
      if (asked.length === 0 || verdicts.size >= bounds.passwordChecksPerRequestMax) return outcome
      for (const { verifier, password } of asked) {
        const verdict = await passwords.verdict(verifier, password, clientNetworkOf(request))
        if (verdict === undefined)
          throw new AccountsUnavailable('too many passwords wait to be checked', { overloaded: true })
        verdicts.set(passwordCheckKey(verifier, password), verdict)
      }
    }
  }

  async #read(account: string): Promise<ReadOnlyState | undefined> {
    const known = this.#states.get(account)
    if (known !== undefined) return known
    if (this.#semaphore.waiting >= readsWaitingMax)
      throw new AccountsUnavailable(`${readsWaitingMax} accounts wait to be read`, { overloaded: true })
    const reading = this.#semaphore.run(() => this.#options.read(account))
    this.#states.set(account, reading)
    reading.catch(() => this.#states.delete(account))
    return reading
  }
}

function noNewId(): never {
  throw new Error('a read makes no content')
}
