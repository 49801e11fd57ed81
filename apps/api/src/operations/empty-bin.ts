import { ok } from '@holdfast/http-kit'
import type { FastifyInstance } from 'fastify'
import type { ApiContext } from '../calls/context.ts'
import { serve } from '../calls/operation.ts'
import { emptyAnswer } from '../documents/schemas.ts'

export function emptyBin(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    name: 'emptyBin',
    method: 'DELETE',
    path: '/recyclebin',
    summary: 'Permanently delete everything in the recycle bin',
    group: 'Extensions',
    token: 'needed',
    answer: emptyAnswer,
    refusals: [],
    async handle(call) {
      await call.askOwn({ $case: 'emptyBin', value: {} })
      return ok({})
    },
  })
}
