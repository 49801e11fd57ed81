/**
 * The operator's requests to an account: one call as the operator, with its refusals as refusals of
 * the contract.
 */

import { type AccountResult, type AskDeps, ask, asOperator, emailKey } from '@holdfast/accounts'
import { RefusalError } from '@holdfast/http-kit'
import type { LookupStore } from '@holdfast/journal'
import type { AccountId, Clock, IdCodec } from '@holdfast/kernel'
import type { AccountOperation } from '@holdfast/wire'

export interface OperatorDeps extends AskDeps {
  clock: Clock
  lookups: LookupStore
  ids: IdCodec
  /** Makes a damaged account readable again. @throws what prevents it. */
  repair: (question: { account: AccountId; dryRun: boolean }) => Promise<object>
  /**
   * Lists all accounts in the order of their places.
   * @param after the place after which it begins. An account may come twice.
   */
  listAccounts: (after: string | undefined) => AsyncIterable<{ account: string; place: string }>
  /** Lists the keys of all references in the order of their places, like `listAccounts`. */
  listReferences: (after: string | undefined) => AsyncIterable<{ key: string; place: string }>
  /** How many accounts a search in all accounts asks each second. */
  questionsPerSecond: number
}

/**
 * @throws RefusalError with the account's own status; what the client of accounts throws when the
 *   account is unavailable.
 */
export function askAsOperator(
  deps: OperatorDeps,
  accountId: AccountId,
  operation: AccountOperation,
  timeoutMs?: number,
): Promise<AccountResult> {
  const within = timeoutMs === undefined ? {} : { timeoutMs }
  return ask(deps, { accountId, who: asOperator, operation, ...within })
}

/**
 * The account that an operator names by id or e-mail address.
 * @throws RefusalError error-notFound for an unknown address, or an id that was not made with this
 *   key.
 */
export async function accountNamed(deps: OperatorDeps, name: string): Promise<AccountId> {
  const id = name.includes('@') ? await idOfEmail(deps, name) : deps.ids.parseAccount(name)
  if (id === undefined) throw new RefusalError('error-notFound')
  return id
}

async function idOfEmail(deps: OperatorDeps, email: string): Promise<AccountId | undefined> {
  const guest = /^(.*)@guest\.invalid$/i.exec(email)?.[1]
  if (guest !== undefined) return deps.ids.parseAccount(guest)
  const row = await deps.lookups.get(emailKey(email.trim()))
  return row === undefined ? undefined : deps.ids.parseAccount(Buffer.from(row).toString())
}
