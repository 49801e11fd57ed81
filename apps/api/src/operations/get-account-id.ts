import { viewOf } from '@holdfast/accounts'
import { ok } from '@holdfast/http-kit'
import { tiers } from '@holdfast/kernel'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import type { ApiContext } from '../calls/context.ts'
import { serve } from '../calls/operation.ts'

export function getAccountId(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    name: 'getAccountId',
    method: 'GET',
    path: '/accounts/getid',
    summary: 'The account behind the token',
    group: 'Accounts',
    token: 'needed',
    answer: Type.Object({
      id: Type.String({ format: 'uuid' }),
      email: Type.String(),
      tier: Type.String({ enum: [...tiers] }),
    }),
    refusals: [],
    async handle(call) {
      const { id, email, tier } = viewOf(await call.askOwn({ $case: 'getAccount', value: {} }), 'account')
      return ok({ id, email, tier })
    },
  })
}
