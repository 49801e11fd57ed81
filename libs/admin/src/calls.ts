/**
 * The operator's requests to an account: one call as the operator, with its refusals as refusals of
 * the contract.
 */
import type { AccountClient } from '@holdfast/actor-runtime'
import { Refusal } from '@holdfast/http-kit'
import type { LookupStore } from '@holdfast/journal'
import { type AccountId, type IdCodec, mintRequestId } from '@holdfast/kernel'
import type { AccountReply, AccountRequest } from '@holdfast/wire'

export interface OperatorDeps {
  accounts: AccountClient
  lookups: LookupStore
  ids: IdCodec
  now: () => number
  /** Makes a damaged account readable again. @throws what prevents it. */
  repair: (question: { account: AccountId; dryRun: boolean }) => Promise<object>
}

type Result = Exclude<NonNullable<AccountReply['result']>, { $case: 'refusal' }>

/**
 * @throws Refusal with the account's own status; what the client of accounts throws when the
 *   account is unavailable.
 */
export async function askAsOperator(
  parts: OperatorDeps,
  accountId: AccountId,
  operation: NonNullable<AccountRequest['operation']>,
): Promise<Result> {
  const reply = await parts.accounts.call(
    {
      accountId,
      requestId: mintRequestId(parts.now()),
      caller: { who: { $case: 'operator', value: {} } },
      clientNetwork: undefined,
      tierNeeded: '',
      operation,
    },
    {},
  )
  const result = reply.result
  if (result === undefined) throw new Error(`account ${accountId} gave an empty reply to ${operation.$case}`)
  if (result.$case === 'refusal') throw new Refusal(result.value.status)
  return result
}

/**
 * The account that an operator names by id or e-mail address.
 * @throws Refusal error-notFound for an unknown address, or an id that was not made with this key.
 */
export async function accountNamed(parts: OperatorDeps, name: string): Promise<AccountId> {
  const id = name.includes('@') ? await idOfEmail(parts, name) : parts.ids.parseAccount(name)
  if (id === undefined) throw new Refusal('error-notFound')
  return id
}

async function idOfEmail(parts: OperatorDeps, email: string): Promise<AccountId | undefined> {
  const guest = /^(.*)@guest\.invalid$/i.exec(email)?.[1]
  if (guest !== undefined) return parts.ids.parseAccount(guest)
  const row = await parts.lookups.get(`email/${email.trim().toLowerCase()}`)
  return row === undefined ? undefined : parts.ids.parseAccount(Buffer.from(row).toString())
}
