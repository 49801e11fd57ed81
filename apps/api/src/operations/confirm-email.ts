import { viewOf } from '@holdfast/accounts'
import { ok, RefusalError } from '@holdfast/http-kit'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { accountPath, refuseOtherAccount } from '../accounts/own-account.ts'
import type { ApiContext } from '../calls/context.ts'
import { serve } from '../calls/operation.ts'

/**
 * The first sign-in by a mailed link. The creator of the account knows its token but may not own
 * the address. So the token alone confirms nothing, and it is replaced unless the owner says that a
 * program continues to use it.
 */
export function confirmEmail(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    name: 'confirmEmail',
    method: 'POST',
    path: '/accounts/:accountId/confirm',
    summary:
      'Confirm the address by the proof in its sign-in link; replaces the token unless it is to be kept',
    group: 'Extensions',
    description:
      'The page behind the link `/profile#token=<token>&mailed=<proof>` sends this. A new token is in the answer and is mailed, too. A confirmed address stays as it is, with its token.',
    token: 'needed',
    params: Type.Object(accountPath),
    body: Type.Object({
      mailed: Type.String({ pattern: '^[A-Za-z0-9_-]{22}$', description: 'The proof of the link' }),
      keepToken: Type.Optional(
        Type.Boolean({ description: 'A program of the owner made the account and continues with its token' }),
      ),
    }),
    answer: Type.Object({
      emailConfirmed: Type.Boolean(),
      token: Type.String({ description: 'The token from now on' }),
    }),
    refusals: [],
    // A guest has no address.
    innerNames: ['email'],
    async handle(call, { accountId, mailed, keepToken = false }) {
      await refuseOtherAccount(call, accountId)
      const { caller } = call
      if (!context.mailProofs.holds(caller.bytes, mailed)) {
        await call.authenticate()
        throw new RefusalError('error-mailed')
      }
      const { tokenKeyId } = context.settings
      const result = await call.askOwn({ $case: 'confirmEmail', value: { tokenKeyId, keepToken } })
      const view = viewOf(result, 'account')
      const token = context.keyring.tokens.token(caller.accountId, {
        keyId: view.tokenKeyId,
        counter: view.tokenCounter,
      })
      if (token !== caller.token) context.tokens.forget(caller.token)
      return ok({ emailConfirmed: view.emailConfirmed, token })
    },
  })
}
