import { ok } from '@holdfast/http-kit'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import type { ApiContext } from '../calls/context.ts'
import { serve } from '../calls/operation.ts'

export function getStatus(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    name: 'getStatus',
    method: 'GET',
    path: '/status',
    summary: 'Whether this host answers',
    group: 'Extensions',
    token: 'none',
    answer: Type.Object({ region: Type.String(), time: Type.Integer({ description: 'Unix seconds' }) }),
    refusals: [],
    async handle(call) {
      return ok({ region: context.settings.region, time: call.nowSeconds })
    },
  })
}
