/**
 * What frontends see of the accounts: one call that finds the owner, retries what may be retried,
 * and shares one deadline.
 */
import type { AccountReply, AccountRequest } from '@holdfast/wire'

export interface AccountClient {
  /**
   * Asks the account's actor. `moved` and missing responders are retried with the same request id
   * until the deadline; the reply is never `moved`.
   *
   * @param options.asIs the request is what decoding would make of it, and nobody changes it any
   *   more: all fields there or undefined, texts well-formed, numbers in range. It need not be
   *   encoded then for a host in this process.
   * @throws AccountsUnavailable (`ACCOUNTS_UNAVAILABLE`, → 503) when no answer came in time: the
   *   outcome is unknown, a repeat with the same request id has one effect.
   * @throws AccountsUnavailable with `overloaded` (→ 429) when the account's mailbox is full.
   */
  call(
    request: Omit<AccountRequest, 'deadlineMs'>,
    options: { timeoutMs?: number; signal?: AbortSignal; asIs?: boolean },
  ): Promise<AccountReply>
}

/**
 * Where the only host of all accounts is in this process: tells whether an account's answer would
 * still be the same.
 */
export interface AccountMoments {
  /**
   * An object that stays the same one as long as nothing about the account was changed; undefined
   * when that is not known here. Fetched before a question and found again later, it says that the
   * answer holds still, as far as it does not depend on the clock.
   */
  momentOf(accountId: string): object | undefined
}
