import { ok } from '@holdfast/http-kit'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { serve } from '../operation.ts'
import type { ApiParts } from '../parts.ts'

export function getStatus(app: FastifyInstance, parts: ApiParts) {
  serve(app, parts, {
    name: 'getStatus',
    method: 'GET',
    path: '/status',
    summary: 'Whether this host answers',
    group: 'Extensions',
    token: 'none',
    answer: Type.Object({ region: Type.String(), time: Type.Integer({ description: 'Unix seconds' }) }),
    refusals: [],
    async handle(call) {
      return ok({ region: parts.settings.region, time: call.nowSeconds })
    },
  })
}
