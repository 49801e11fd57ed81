/**
 * Downloads of accounts whose home is unavailable, answered from the journal as it arrived here:
 * the same rules decide about access, on a state that may be old. It changes nothing, answers
 * nothing else, and promises nothing about the newest change: the caller knows that the home is
 * unavailable.
 */

import { AccountsUnavailable } from '@holdfast/accounts'
import {
  firstChain,
  type JournalOwnership,
  type JournalReplica,
  type JournalStore,
  unwrittenOwnership,
} from '@holdfast/journal'
import { AccountRequest } from '@holdfast/wire'
import { encodeReply } from '../account/requests/pending-request.ts'
import { recover } from '../account/rows/recovery.ts'
import type { Services } from '../services.ts'
import { type ReadOnlyState, ReadOnlyStates } from './read-only-states.ts'

/** The answered operations; all of them lead to bytes. */
export const replicaOperations: ReadonlySet<string> = new Set(['openFile', 'openDirectLink', 'openArchive'])

/** How long a state is kept: as long as a visitor's answer may be cached. */
const keptMs = 3_000

export class AccountReplicas {
  readonly #services: Services
  readonly #replicaOf: (account: string) => Promise<JournalReplica | undefined>
  readonly #states: ReadOnlyStates

  constructor(services: Services, replicaOf: (account: string) => Promise<JournalReplica | undefined>) {
    this.#services = services
    this.#replicaOf = replicaOf
    const read = (account: string) => this.#read(account)
    this.#states = new ReadOnlyStates(services, { read, operations: replicaOperations, keptMs })
  }

  /**
   * @param message an encoded request. Resolves with the encoded reply: `unavailable` for
   *   everything that cannot be answered here.
   */
  async ask(message: Uint8Array): Promise<Uint8Array> {
    const request = AccountRequest.decode(message)
    let overloaded = false
    try {
      const reply = await this.#states.answer(request)
      if (reply !== undefined) return encodeReply(reply)
    } catch (error) {
      const { accountId: account, clientRequest: requestId } = request
      overloaded = error instanceof AccountsUnavailable && error.overloaded
      this.#services.log.warn({ requestId, account, err: error }, 'a copy of an account could not be read')
    }
    return encodeReply({ result: { $case: 'unavailable', value: { overloaded, damaged: false } } })
  }

  async #read(account: string): Promise<ReadOnlyState | undefined> {
    const replica = await this.#replicaOf(account)
    if (replica === undefined) return undefined
    const { root, through, rows, page } = replica
    const head = rows.at(-1)?.seq ?? through
    const ownership: JournalOwnership = { ...unwrittenOwnership(account, ''), head, root }
    const journal: Pick<JournalStore, 'rows' | 'page' | 'head'> = {
      async *rows() {
        yield* rows
      },
      page: (_, name) => page(name),
      head: async () => ({ epoch: 0, head, chain: firstChain }),
    }
    // Reading needs no more of a journal than that.
    const { state } = await recover({ ...this.#services, journal: journal as JournalStore }, ownership)
    return { state, isWhole: false }
  }
}
