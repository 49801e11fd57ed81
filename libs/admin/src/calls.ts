/**
 * The operator's requests to an account: one call as the operator, with its refusals as refusals of
 * the contract.
 */
import { type AccountOperation, type AccountResult, type AskDeps, ask, asOperator } from '@holdfast/accounts'
import { RefusalError } from '@holdfast/http-kit'
import type { LookupStore } from '@holdfast/journal'
import type { AccountId, IdCodec } from '@holdfast/kernel'

export interface OperatorDeps extends AskDeps {
  lookups: LookupStore
  ids: IdCodec
  /** Makes a damaged account readable again. @throws what prevents it. */
  repair: (question: { account: AccountId; dryRun: boolean }) => Promise<object>
}

/**
 * @throws RefusalError with the account's own status; what the client of accounts throws when the
 *   account is unavailable.
 */
export function askAsOperator(
  deps: OperatorDeps,
  accountId: AccountId,
  operation: AccountOperation,
): Promise<AccountResult> {
  return ask(deps, { accountId, who: asOperator, operation })
}

/**
 * The account that an operator names by id or e-mail address.
 * @throws RefusalError error-notFound for an unknown address, or an id that was not made with this
 *   key.
 */
export async function accountNamed(parts: OperatorDeps, name: string): Promise<AccountId> {
  const id = name.includes('@') ? await idOfEmail(parts, name) : parts.ids.parseAccount(name)
  if (id === undefined) throw new RefusalError('error-notFound')
  return id
}

async function idOfEmail(parts: OperatorDeps, email: string): Promise<AccountId | undefined> {
  const guest = /^(.*)@guest\.invalid$/i.exec(email)?.[1]
  if (guest !== undefined) return parts.ids.parseAccount(guest)
  const row = await parts.lookups.get(`email/${email.trim().toLowerCase()}`)
  return row === undefined ? undefined : parts.ids.parseAccount(Buffer.from(row).toString())
}
