import type { AccountClient } from '@holdfast/actor-runtime'
import { type RateLimits, Refusal } from '@holdfast/http-kit'
import { type Clock, mintRequestId } from '@holdfast/kernel'
import type { AccountReply, AccountRequest, Caller } from '@holdfast/wire'
import type { FastifyRequest } from 'fastify'

type Result = NonNullable<AccountReply['result']>

/**
 * One request; the answer must have the operation's kind.
 * @throws Refusal with the account's status, and the faults of the client of accounts.
 */
export async function askAccount<Kind extends Result['$case']>(
  { accounts, clock, limits }: { accounts: AccountClient; clock: Clock; limits: RateLimits },
  question: {
    request: FastifyRequest
    accountId: string
    who: NonNullable<Caller['who']>
    operation: AccountRequest['operation']
  },
  kinds: readonly Kind[],
): Promise<Extract<Result, { $case: Kind }>> {
  const { result } = await accounts.call(
    {
      accountId: question.accountId,
      requestId: mintRequestId(clock.now()),
      caller: { who: question.who },
      tierNeeded: '',
      clientNetwork: question.who.$case === 'bearer' ? undefined : limits.networkKey(question.request),
      operation: question.operation,
    },
    {},
  )
  if (result?.$case === 'refusal') throw new Refusal(result.value.status)
  if (!kinds.some((kind) => kind === result?.$case)) {
    throw new Error(`${question.operation?.$case} was answered with ${result?.$case}`)
  }
  return result as Extract<Result, { $case: Kind }>
}
