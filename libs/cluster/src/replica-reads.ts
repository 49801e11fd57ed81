/**
 * Downloads go on while the home of an account is out of reach: they are answered from a copy of its journal, which may be old. Everything else
 * waits for the home.
 */
import {
  type AccountClient,
  AccountsUnavailable,
  replicaOperations,
  replicaSubjectOf,
} from '@holdfast/actor-runtime'
import type { Bus } from '@holdfast/bus'
import type { Clock } from '@holdfast/kernel'
import { AccountReply, AccountRequest } from '@holdfast/wire'

export interface ReplicaReadsOptions {
  accounts: AccountClient
  bus: Bus
  /** A host with a copy, when the home is out of reach; undefined while it is not. */
  replicaHostOf: (account: string) => string | undefined
  clock: Clock
}

const timeoutMsDefault = 15_000

export class ReplicaReads implements AccountClient {
  readonly #options: ReplicaReadsOptions

  constructor(options: ReplicaReadsOptions) {
    this.#options = options
  }

  call(
    request: Omit<AccountRequest, 'deadlineMs'>,
    options: { timeoutMs?: number; signal?: AbortSignal } = {},
  ): Promise<AccountReply> {
    const { accounts, replicaHostOf } = this.#options
    const host = replicaOperations.has(request.operation?.$case ?? '') && replicaHostOf(request.accountId)
    return host ? this.#ask(host, request, options) : accounts.call(request, options)
  }

  async #ask(
    host: string,
    request: Omit<AccountRequest, 'deadlineMs'>,
    { timeoutMs = timeoutMsDefault, signal }: { timeoutMs?: number; signal?: AbortSignal },
  ): Promise<AccountReply> {
    const { bus, clock } = this.#options
    const message = AccountRequest.encode({
      ...request,
      deadlineMs: Math.ceil(clock.now() + timeoutMs),
    }).finish()
    try {
      const bytes = await bus.request(replicaSubjectOf(host), message, {
        timeoutMs,
        ...(signal === undefined ? {} : { signal }),
      })
      const reply = AccountReply.decode(bytes)
      if (reply.result?.$case !== 'unavailable') return reply
    } catch (error) {
      if (signal?.aborted) throw error
      throw new AccountsUnavailable(`neither the home of ${request.accountId} nor ${host} answers`, {
        cause: error,
      })
    }
    throw new AccountsUnavailable(`the home of ${request.accountId} is out of reach`)
  }
}
