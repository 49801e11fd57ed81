/**
 * Accounts that the operator suspended: only the operator and the service itself reach them. Every
 * frontend sends its requests through this, so nothing of them is shown, changed or sent.
 */
import type { AccountReply, AccountRequest } from '@holdfast/wire'
import type { AccountClient } from './contract.ts'

export class BlockedAccounts implements AccountClient {
  readonly #accounts: AccountClient
  readonly #isBlocked: (account: string) => boolean

  constructor(accounts: AccountClient, isBlocked: (account: string) => boolean) {
    this.#accounts = accounts
    this.#isBlocked = isBlocked
  }

  call(
    request: Omit<AccountRequest, 'deadlineMs'>,
    options: { timeoutMs?: number; signal?: AbortSignal },
  ): Promise<AccountReply> {
    const who = request.caller?.who?.$case
    if (who !== 'operator' && who !== 'system' && this.#isBlocked(request.accountId))
      return Promise.resolve({ result: { $case: 'refusal', value: { status: 'error-blocked' } } })
    return this.#accounts.call(request, options)
  }
}
