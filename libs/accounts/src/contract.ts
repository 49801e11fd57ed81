/**
 * The accounts as frontends see them: one call that finds the owner, retries where permitted, and
 * has one deadline.
 */
import type { AccountReply, AccountRequest } from '@holdfast/wire'

export interface AccountClient {
  /**
   * Sends a request to the account's actor. `moved` and missing responders are retried with the
   * same request id until the deadline; the reply is never `moved`.
   *
   * A host in this process gets the request itself: it must not change any more.
   *
   * @throws AccountsUnavailable (`ACCOUNTS_UNAVAILABLE`, → 503) when no answer came in time: the
   *   outcome is unknown, a repeat with the same request id has one effect.
   * @throws AccountsUnavailable with `overloaded` (→ 429) when the account's mailbox is full.
   */
  call(
    request: Omit<AccountRequest, 'deadlineMs'>,
    options: { timeoutMs?: number; signal?: AbortSignal },
  ): Promise<AccountReply>
}

/**
 * For a process with the only host of all accounts: whether an account's answer would still be the
 * same.
 */
export interface AccountVersions {
  /**
   * An object that stays the same while the account is unchanged; undefined when that is not known
   * here. If it is the same before a question and later, the answer is still valid, as far as it
   * does not depend on the clock.
   */
  versionOf(accountId: string): object | undefined
}
