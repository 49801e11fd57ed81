/** One request to an account. Every host, page and job asks through this. */

import type { AccountId } from '@holdfast/kernel'
import {
  type Clock,
  clientRequest,
  type IdCodec,
  mintRequestId,
  parseToken,
  RefusalError,
} from '@holdfast/kernel'
import type { AccountOperation, AccountReply, Caller } from '@holdfast/wire'
import type { AccountClient } from './contract.ts'

/** Who asks. */
export type Asker = NonNullable<Caller['who']>
/** An answer that is no refusal. */
export type AccountResult = Exclude<NonNullable<AccountReply['result']>, { $case: 'refusal' }>
export type ViewOf<Case extends AccountResult['$case']> = Extract<AccountResult, { $case: Case }>['value']

export interface AskDeps {
  accounts: AccountClient
  clock: Pick<Clock, 'now'>
}

export interface Question {
  accountId: string
  who: Asker
  operation: AccountOperation
  /** The id of a command whose client chose it. Undefined: the request gets a new id. */
  requestId?: Buffer | undefined
  /** The tier that a bearer must have: `premium`, or empty. */
  tierNeeded?: string
  /** The client's network. Requests of visitors take turns by it; for others it is left out. */
  clientNetwork?: string | undefined
  timeoutMs?: number
  signal?: AbortSignal
}

export const asOperator: Asker = { $case: 'operator', value: {} }
/** The service itself: timers, effects, reports, accounts that it makes. */
export const asSystem: Asker = { $case: 'system', value: {} }

/** With a token, which the account checks in the turn that answers. */
export function asBearer({ bytes }: { bytes: Buffer }): Asker {
  return { $case: 'bearer', value: { token: bytes } }
}

/** As a caller other than the owner. @param accountId of a visitor that is signed in. */
export function asVisitor(accountId = ''): Asker {
  return { $case: 'visitor', value: { accountId } }
}

/**
 * @throws RefusalError with the account's own status.
 * @throws AccountsUnavailable as `AccountClient.call` does.
 */
export async function ask({ accounts, clock }: AskDeps, question: Question): Promise<AccountResult> {
  const { accountId, who, operation, requestId, tierNeeded = '', timeoutMs, signal } = question
  const isFromOutside = who.$case === 'visitor' || who.$case === 'grant'
  const { result } = await accounts.call(
    {
      accountId,
      requestId: requestId ?? mintRequestId(clock.now()),
      caller: { who },
      tierNeeded,
      clientNetwork: isFromOutside ? question.clientNetwork : undefined,
      clientRequest: clientRequest(),
      // Set where it is sent, if it is traced.
      traceparent: undefined,
      operation,
    },
    { ...(timeoutMs === undefined ? {} : { timeoutMs }), ...(signal === undefined ? {} : { signal }) },
  )
  if (result === undefined) throw new Error(`account ${accountId} gave an empty reply to ${operation.$case}`)
  if (result.$case === 'refusal') throw new RefusalError(result.value.status)
  return result
}

/** The view of this kind; another kind is an internal fault. */
export function viewOf<Case extends AccountResult['$case']>(
  result: AccountResult,
  wanted: Case,
): ViewOf<Case> {
  if (result.$case !== wanted) throw new Error(`expected ${wanted}, the account answered ${result.$case}`)
  return result.value as ViewOf<Case>
}

/** The account that a token names, and what the account checks. */
export interface TokenClaim {
  accountId: AccountId
  bytes: Buffer
}

/** @returns undefined: the text is no token of this installation. */
export function claimOf(token: string | undefined, ids: IdCodec): TokenClaim | undefined {
  const parsed = parseToken(token ?? '')
  const accountId = parsed && ids.parseAccount(parsed.account)
  return parsed === undefined || accountId === undefined ? undefined : { accountId, bytes: parsed.bytes }
}
