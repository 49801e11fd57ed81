/**
 * Accounts of a store that no host serves, such as a backup. Questions are answered from its rows,
 * for damaged accounts too, without a repair. Nothing is written.
 */
import { type AccountClient, AccountsUnavailable } from '@holdfast/accounts'
import type { AccountStates } from '@holdfast/content-tree'
import type { JournalRepair } from '@holdfast/journal'
import { systemClock, systemRandomness } from '@holdfast/kernel'
import type { AccountReply, AccountRequest } from '@holdfast/wire'
import { defaultRuntimeBounds } from '../bounds.ts'
import { noMetrics } from '../observer.ts'
import { PasswordChecks } from '../queues/password-checks.ts'
import { readableState } from '../repair/repair.ts'
import type { ReadingServices } from '../services.ts'
import { systemLoop } from '../timers.ts'
import { ReadOnlyStates, readOnlyOperations } from './read-only-states.ts'

/** The accounts do not change, so a state is kept until its memory is needed. */
const keptMs = 60_000

export class StoredAccounts implements AccountClient {
  readonly #states: ReadOnlyStates

  constructor({ journal, states }: { journal: JournalRepair; states: AccountStates }) {
    const clock = systemClock
    const services: ReadingServices = {
      states,
      clock,
      timers: systemLoop,
      randomness: systemRandomness(),
      bounds: defaultRuntimeBounds,
      passwords: new PasswordChecks({ clock, bounds: defaultRuntimeBounds, metrics: noMetrics }),
    }
    this.#states = new ReadOnlyStates(services, {
      read: (account) => readableState(services, journal, account),
      operations: readOnlyOperations,
      keptMs,
    })
  }

  /** @throws AccountsUnavailable for commands, and where nothing can be read. */
  async call(request: Omit<AccountRequest, 'deadlineMs'>): Promise<AccountReply> {
    const reply = await this.#states.answer({ ...request, deadlineMs: Number.POSITIVE_INFINITY })
    if (reply === undefined) throw new AccountsUnavailable(`nothing can be read of ${request.accountId}`)
    return reply
  }
}
