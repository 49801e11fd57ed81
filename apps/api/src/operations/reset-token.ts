import { ok } from '@holdfast/http-kit'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { accountPath, refuseOtherAccount } from '../accounts/own-account.ts'
import type { ApiContext } from '../calls/context.ts'
import { serve } from '../calls/operation.ts'
import { emptyAnswer } from '../documents/schemas.ts'

export function resetToken(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    name: 'resetToken',
    method: 'POST',
    path: '/accounts/:accountId/resettoken',
    summary: 'Replace the token at once; the new one is mailed as a sign-in link',
    group: 'Accounts',
    token: 'needed',
    params: Type.Object(accountPath),
    answer: emptyAnswer,
    refusals: [],
    async handle(call, { accountId }) {
      await refuseOtherAccount(call, accountId)
      await call.askOwn({ $case: 'resetToken', value: { tokenKeyId: context.settings.tokenKeyId } })
      context.tokens.forget(call.caller.token)
      return ok({})
    },
  })
}
