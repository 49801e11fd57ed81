/**
 * Accounts are made without a token. A guest's id is new. With an address the lookups decide which
 * account it belongs to, first come first served, before the account is made. A crash between the
 * two leaves a claim for an account that does not exist yet: the next attempt makes the account
 * under the claimed id.
 */
import { createHmac, randomBytes } from 'node:crypto'
import { asSystem, emailKey, viewOf } from '@holdfast/accounts'
import {
  clientAddress,
  idempotencyKeyOf,
  mailboxOf,
  networkOf,
  ok,
  parseEmail,
  RefusalError,
  withParser,
} from '@holdfast/http-kit'
import type { AccountId } from '@holdfast/kernel'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { maySignUp } from '../accounts/sign-up.ts'
import type { Call } from '../calls/call.ts'
import type { ApiContext } from '../calls/context.ts'
import { serve } from '../calls/operation.ts'
import { white } from '../documents/schemas.ts'

/**
 * A key of this length cannot collide with another client's by chance; shorter ones are valid
 * within one network only.
 */
const unguessableKeyLength = 16

/** What `parseEmail` accepts: plain addresses, no route to a guest. */
export const emailDocument = {
  pattern: `^${white}*(?!\\.)(?!.*\\.\\.)(?!.*\\.@)(?!.*@[Gg][Uu][Ee][Ss][Tt]\\.[Ii][Nn][Vv][Aa][Ll][Ii][Dd]${white}*$)[A-Za-z0-9.!#$%&'*+/=?^_\`{|}~-]{1,64}@([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\\.){1,8}[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?${white}*$`,
  minLength: 5,
  maxLength: 254,
}

export function createAccount(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    name: 'createAccount',
    method: 'POST',
    path: '/accounts',
    summary: 'Create an account: a guest, or with an address a standard account whose sign-in link is mailed',
    group: 'Accounts',
    token: 'none',
    body: Type.Object({
      email: Type.Optional(withParser(Type.String({ maxLength: 320 }), parseEmail, emailDocument)),
      invitation: Type.Optional(
        Type.String({ maxLength: 64, description: 'Of this address, where accounts are by invitation' }),
      ),
    }),
    answer: Type.Object({
      id: Type.String({ format: 'uuid' }),
      rootFolder: Type.String({ format: 'uuid' }),
      tier: Type.String({ enum: ['guest', 'standard'] }),
      token: Type.String(),
    }),
    refusals: ['error-forbidden'],
    async handle(call, { email, invitation }) {
      if (email !== undefined) await drawOnMails(call, email)
      if (!maySignUp(context, { email, invitation })) {
        if (email !== undefined) await mailKnown(call, email)
        throw new RefusalError('error-forbidden')
      }
      const proposed = proposedId(call)
      const accountId = email === undefined ? proposed : await claim(context, email, proposed)
      const view = await create(call, { accountId, email, isNewId: accountId === proposed })
      const token = context.keyring.tokens.token(accountId, {
        keyId: view.tokenKeyId,
        counter: view.tokenCounter,
      })
      return ok({ id: view.id, rootFolder: view.rootFolder, tier: view.tier, token })
    },
  })
}

/**
 * An account of this region. With an Idempotency-Key a retry finds the same account, also through
 * another region's host.
 */
function proposedId({ context, request }: Call): AccountId {
  const { region, founders } = context.settings
  const key = idempotencyKeyOf(request)
  if (key === undefined) return context.ids.account(region, randomBytes(8))
  const network = key.length < unguessableKeyLength ? networkOf(clientAddress(request)) : ''
  const digest = createHmac('sha256', context.idempotencySecret).update(`${network}\n${key}`).digest()
  return context.ids.account(founders[digest.readUInt32BE(28) % founders.length] ?? region, digest)
}

/** The account this address belongs to from now on. */
async function claim(context: ApiContext, email: string, proposed: AccountId): Promise<AccountId> {
  const row = await context.lookups.claim(emailKey(email), Buffer.from(proposed))
  const accountId = context.ids.parseAccount(Buffer.from(row).toString())
  if (accountId === undefined) throw new Error('the row of an e-mail address names no account')
  return accountId
}

/**
 * @throws RefusalError error-email when the address already has an account; that account is mailed
 *   its sign-in link
 */
async function create(
  call: Call,
  { accountId, email, isNewId }: { accountId: AccountId; email: string | undefined; isNewId: boolean },
) {
  try {
    const result = await call.askAccount(accountId, asSystem, {
      $case: 'createAccount',
      value: { email, tokenKeyId: call.context.settings.tokenKeyId, isNewId },
    })
    return viewOf(result, 'account')
  } catch (error) {
    if (!(error instanceof RefusalError) || email === undefined || !(await exists(call, accountId)))
      throw error
    await call.askAccount(accountId, asSystem, { $case: 'sendSignIn', value: {} })
    throw new RefusalError('error-email')
  }
}

/** Where sign-up is closed, people who have an account still sign in. */
async function mailKnown(call: Call, email: string): Promise<void> {
  const { context } = call
  const row = await context.lookups.get(emailKey(email))
  const accountId = row && context.ids.parseAccount(Buffer.from(row).toString())
  if (accountId === undefined || !(await exists(call, accountId))) return
  await call.askAccount(accountId, asSystem, { $case: 'sendSignIn', value: {} })
}

async function exists(call: Call, accountId: AccountId): Promise<boolean> {
  try {
    await call.askAccount(accountId, asSystem, { $case: 'getAccount', value: {} })
    return true
  } catch (error) {
    if (error instanceof RefusalError && error.status === 'error-notFound') return false
    throw error
  }
}

/**
 * Every address in a request is mailed, known or not, so both answer alike when a budget is spent.
 * Drawn before any other request, so that concurrent requests cannot all pass.
 *
 * @throws RefusalError error-rateLimit
 */
async function drawOnMails(call: Call, email: string): Promise<void> {
  await call.context.rateLimits.takeAddress(call.request, 'sendSignIn')
  await call.context.rateLimits.takeAccount(call.request, 'sendSignIn', mailboxOf(email))
}
