import { ok } from '@holdfast/http-kit'
import type { FastifyInstance } from 'fastify'
import { serve } from '../operation.ts'
import type { ApiParts } from '../parts.ts'
import { emptyAnswer } from '../schemas.ts'

export function emptyBin(app: FastifyInstance, parts: ApiParts) {
  serve(app, parts, {
    name: 'emptyBin',
    method: 'DELETE',
    path: '/recyclebin',
    summary: 'Delete for good what is in the recycle bin',
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
