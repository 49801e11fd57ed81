/**
 * Downloads continue while the home of an account is unavailable: a copy of its journal answers
 * them, which may be old. Everything else waits for the home.
 */

import { type AccountClient, AccountsUnavailable, replicaSubjectOf } from '@holdfast/accounts'
import { replicaOperations } from '@holdfast/actor-runtime'
import type { Bus } from '@holdfast/bus'
import type { Clock } from '@holdfast/kernel'
import { AccountReply, AccountRequest } from '@holdfast/wire'

export interface ReplicaReadsOptions {
  accounts: AccountClient
  bus: Bus
  /** A host with a copy, when the home is unavailable; undefined while it is available. */
  replicaHostOf: (account: string) => string | undefined
  /** Called when `replicaHostOf` may have changed. */
  onHostsChanged: (listener: () => void) => void
  clock: Clock
}

const timeoutMsDefault = 15_000

export class ReplicaReads implements AccountClient {
  readonly #options: ReplicaReadsOptions

  /** Downloads that wait for a home. */
  readonly #waiting = new Set<{ account: string; lost: AbortController }>()

  constructor(options: ReplicaReadsOptions) {
    this.#options = options
    options.onHostsChanged(() => {
      for (const { account, lost } of this.#waiting)
        if (options.replicaHostOf(account) !== undefined) lost.abort()
    })
  }

  async call(
    request: Omit<AccountRequest, 'deadlineMs'>,
    options: { timeoutMs?: number; signal?: AbortSignal } = {},
  ): Promise<AccountReply> {
    const { accounts, clock, replicaHostOf } = this.#options
    if (!replicaOperations.has(request.operation?.$case ?? '')) return accounts.call(request, options)
    const endsMs = clock.monotonic() + (options.timeoutMs ?? timeoutMsDefault)
    for (;;) {
      const timeoutMs = endsMs - clock.monotonic()
      if (timeoutMs <= 0) throw new AccountsUnavailable(`no answer for account ${request.accountId} in time`)
      const left = { ...options, timeoutMs }
      const host = replicaHostOf(request.accountId)
      if (host !== undefined) return this.#ask(host, request, left)
      // After a loss the home may be back: a link that broke for a moment.
      const reply = await this.#askHomeWhileThere(request, left)
      if (reply !== undefined) return reply
    }
  }

  /** @returns undefined when the home was lost meanwhile: it is not awaited */
  async #askHomeWhileThere(
    request: Omit<AccountRequest, 'deadlineMs'>,
    options: { timeoutMs: number; signal?: AbortSignal },
  ): Promise<AccountReply | undefined> {
    const lost = new AbortController()
    const waiting = { account: request.accountId, lost }
    const signal = options.signal === undefined ? lost.signal : AbortSignal.any([options.signal, lost.signal])
    this.#waiting.add(waiting)
    try {
      return await this.#options.accounts.call(request, { ...options, signal })
    } catch (error) {
      if (!lost.signal.aborted || options.signal?.aborted) throw error
      return undefined
    } finally {
      this.#waiting.delete(waiting)
    }
  }

  async #ask(
    host: string,
    request: Omit<AccountRequest, 'deadlineMs'>,
    { timeoutMs, signal }: { timeoutMs: number; signal?: AbortSignal },
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
