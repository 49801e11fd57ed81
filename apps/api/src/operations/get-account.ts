import { viewOf } from '@holdfast/accounts'
import { ok } from '@holdfast/http-kit'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { accountPath, refuseOtherAccount } from '../accounts/own-account.ts'
import { presentAccount } from '../answers/presenting.ts'
import type { ApiContext } from '../calls/context.ts'
import { serve } from '../calls/operation.ts'
import { accountAnswer } from '../documents/schemas.ts'

export function getAccount(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    name: 'getAccount',
    method: 'GET',
    path: '/accounts/:accountId',
    summary: 'Account details',
    group: 'Accounts',
    token: 'needed',
    params: Type.Object(accountPath),
    answer: accountAnswer,
    refusals: [],
    async handle(call, { accountId }) {
      await refuseOtherAccount(call, accountId)
      const view = viewOf(await call.askOwn({ $case: 'getAccount', value: {} }), 'account')
      return ok(presentAccount(view, call.caller.token))
    },
  })
}
