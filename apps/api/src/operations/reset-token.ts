import { ok } from '@holdfast/http-kit'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { serve } from '../operation.ts'
import { accountPath, refuseOtherAccount } from '../own-account.ts'
import type { ApiParts } from '../parts.ts'
import { emptyAnswer } from '../schemas.ts'

export function resetToken(app: FastifyInstance, parts: ApiParts) {
  serve(app, parts, {
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
      await call.askOwn({ $case: 'resetToken', value: { tokenKeyId: parts.settings.tokenKeyId } })
      parts.tokens.forget(call.caller.token)
      return ok({})
    },
  })
}
