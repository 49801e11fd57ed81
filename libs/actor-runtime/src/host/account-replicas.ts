/**
 * Downloads of accounts whose home is unavailable, answered from the journal as it arrived here:
 * the same rules decide about access, on a state that may be old. It changes nothing, answers
 * nothing else, and promises nothing about the newest change: the caller knows that the home is
 * unavailable.
 */

import { AccountsUnavailable } from '@holdfast/accounts'
import type { AccountState } from '@holdfast/content-tree'
import {
  firstChain,
  type JournalHold,
  type JournalReplica,
  type JournalStore,
  unwrittenHold,
} from '@holdfast/journal'
import { type AccountReply, AccountRequest } from '@holdfast/wire'
import { LRUCache } from 'lru-cache'
import { encodeReply } from '../account/pending-request.ts'
import { recover } from '../account/recovery.ts'
import { Semaphore } from '../queues/semaphore.ts'
import type { Services } from '../services.ts'

/** The answered operations; all of them lead to bytes. */
export const replicaOperations: ReadonlySet<string> = new Set(['openFile', 'openDirectLink'])

/** How long a state is kept: as long as a visitor's answer may be cached. */
const keptMs = 3_000
const keptMax = 16
const readsAtOnceMax = 4
/** Accounts that wait to be read, a second or two at a time. More are refused as overloaded. */
const readsWaitingMax = 64

export class AccountReplicas {
  readonly #services: Services
  readonly #replicaOf: (account: string) => Promise<JournalReplica | undefined>
  readonly #semaphore = new Semaphore(readsAtOnceMax)
  readonly #states: LRUCache<string, Promise<AccountState | undefined>>

  constructor(services: Services, replicaOf: (account: string) => Promise<JournalReplica | undefined>) {
    this.#services = services
    this.#replicaOf = replicaOf
    this.#states = new LRUCache({
      max: keptMax,
      ttl: keptMs,
      ttlResolution: 0,
      perf: { now: () => services.clock.monotonic() + 1 },
    })
  }

  /**
   * @param message an encoded request. Resolves with the encoded reply: `unavailable` for
   *   everything that cannot be answered here.
   */
  async ask(message: Uint8Array): Promise<Uint8Array> {
    const request = AccountRequest.decode(message)
    let overloaded = false
    try {
      const reply = await this.#decide(request)
      if (reply !== undefined) return encodeReply(reply)
    } catch (error) {
      const { accountId: account } = request
      overloaded = error instanceof AccountsUnavailable && error.overloaded
      this.#services.log.warn({ account, err: error }, 'a copy of an account could not be read')
    }
    return encodeReply({ result: { $case: 'unavailable', value: { overloaded } } })
  }

  async #decide(request: AccountRequest): Promise<AccountReply | undefined> {
    if (!replicaOperations.has(request.operation?.$case ?? '')) return undefined
    const state = await this.#stateOf(request.accountId)
    if (state?.exists !== true) return undefined
    const none = { next: 0, end: 0 }
    const outcome = state.decide(request, {
      nowMs: this.#services.clock.now(),
      seed: this.#services.randomness.bytes(16),
      codes: none,
      legacyCodes: none,
      verdict: () => undefined,
    })
    // A refused content may simply not have arrived.
    const answered = outcome.kind === 'reply' && outcome.reply.result?.$case !== 'refusal'
    return answered ? outcome.reply : undefined
  }

  /** @throws AccountsUnavailable overloaded when too many wait */
  async #stateOf(account: string): Promise<AccountState | undefined> {
    const known = this.#states.get(account)
    if (known !== undefined) return known
    if (this.#semaphore.waiting >= readsWaitingMax)
      throw new AccountsUnavailable(`${readsWaitingMax} accounts wait to be read`, { overloaded: true })
    const reading = this.#semaphore.run(() => this.#read(account))
    this.#states.set(account, reading)
    reading.catch(() => this.#states.delete(account))
    return reading
  }

  async #read(account: string): Promise<AccountState | undefined> {
    const replica = await this.#replicaOf(account)
    if (replica === undefined) return undefined
    const { root, through, rows, page } = replica
    const head = rows.at(-1)?.seq ?? through
    const hold: JournalHold = { ...unwrittenHold(account, ''), head, root }
    const journal: Pick<JournalStore, 'rows' | 'page' | 'head'> = {
      async *rows() {
        yield* rows
      },
      page: (_, name) => page(name),
      head: async () => ({ epoch: 0, head, chain: firstChain }),
    }
    // Reading needs no more of a journal than that.
    return (await recover({ ...this.#services, journal: journal as JournalStore }, hold)).state
  }
}
