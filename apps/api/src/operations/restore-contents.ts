import { viewOf } from '@holdfast/accounts'
import { ok } from '@holdfast/http-kit'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { presentItems } from '../answers/presenting.ts'
import type { ApiContext } from '../calls/context.ts'
import { serve } from '../calls/operation.ts'
import { contentsId, representationAnswer } from '../documents/schemas.ts'

export function restoreContents(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    name: 'restoreContents',
    method: 'POST',
    path: '/recyclebin/restore',
    summary: 'Put contents of the recycle bin back; to the root when their folder is gone',
    group: 'Extensions',
    token: 'needed',
    body: Type.Object({ contentsId }),
    answer: representationAnswer,
    refusals: ['error-notFound', 'error-notOwner', 'error-protectedFolder'],
    async handle(call, { contentsId }) {
      await call.refuseForeign(contentsId, 'error-notOwner')
      const result = await call.askOwn({ $case: 'restoreContents', value: { contentIds: contentsId } })
      return call.wantsRepresentation ? presentItems(call, contentsId, viewOf(result, 'items')) : ok({})
    },
  })
}
