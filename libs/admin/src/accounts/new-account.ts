/**
 * An account made by the operator: as `POST /accounts`, without its budget of requests, and without
 * a mail to a known address.
 */
import { emailKey } from '@holdfast/accounts'
import { parseEmail, RefusalError } from '@holdfast/http-kit'
import type { AccountId, Keyring, RegionCode } from '@holdfast/kernel'
import type { AccountView } from '@holdfast/wire'
import { askAsOperator, type OperatorDeps } from '../calls.ts'

export interface NewAccountDeps extends OperatorDeps {
  keyring: Keyring
  /** Where new accounts are created. */
  region: RegionCode
  /** Key from which new tokens are derived. */
  tokenKeyId: number
  /** Domains whose addresses may be invited, in lower case; none: all. */
  signUpDomains: readonly string[]
}

/**
 * A guest, or with an address a standard account, which is then mailed its sign-in link.
 * @throws RefusalError error-email for an address that is malformed or already has an account
 */
export async function makeAccount(
  deps: NewAccountDeps,
  sent: unknown,
): Promise<{ accountId: AccountId; token: string }> {
  const email = sent === undefined || sent === null ? undefined : emailOf(sent)
  const proposed = deps.ids.account(deps.region)
  const accountId = email === undefined ? proposed : await claim(deps, email, proposed)
  const { tokenKeyId: keyId, tokenCounter: counter } = await create(deps, {
    accountId,
    email,
    isNewId: accountId === proposed,
  })
  return { accountId, token: deps.keyring.tokens.token(accountId, { keyId, counter }) }
}

async function create(
  deps: NewAccountDeps,
  { accountId, email, isNewId }: { accountId: AccountId; email: string | undefined; isNewId: boolean },
): Promise<AccountView> {
  const value = { tokenKeyId: deps.tokenKeyId, email, isNewId }
  try {
    const result = await askAsOperator(deps, accountId, { $case: 'createAccount', value })
    if (result.$case !== 'account')
      throw new Error(`account ${accountId} answered ${result.$case} to createAccount`)
    return result.value
  } catch (error) {
    throw error instanceof RefusalError ? new RefusalError('error-email') : error
  }
}

/** First come, first served; a claim whose account was never made is completed. */
async function claim(deps: NewAccountDeps, email: string, proposed: AccountId): Promise<AccountId> {
  const row = await deps.lookups.claim(emailKey(email), Buffer.from(proposed))
  const accountId = deps.ids.parseAccount(Buffer.from(row).toString())
  if (accountId === undefined) throw new Error('the row of an e-mail address names no account')
  return accountId
}

/** @throws RefusalError error-email */
export function emailOf(sent: unknown): string {
  const email = typeof sent === 'string' ? parseEmail(sent) : undefined
  if (email === undefined) throw new RefusalError('error-email')
  return email
}
