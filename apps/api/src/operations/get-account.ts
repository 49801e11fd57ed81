import { viewOf } from '@holdfast/accounts'
import { ok } from '@holdfast/http-kit'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import type { ApiContext } from '../context.ts'
import { serve } from '../operation.ts'
import { accountPath, refuseOtherAccount } from '../own-account.ts'
import { presentAccount } from '../presenting.ts'
import { accountAnswer } from '../schemas.ts'

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
