import { ok } from '@holdfast/http-kit'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { presentItems } from '../answers/presenting.ts'
import type { ApiContext } from '../calls/context.ts'
import { serve } from '../calls/operation.ts'
import { contentsId, representationAnswer } from '../documents/schemas.ts'

export function deleteContents(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    name: 'deleteContents',
    method: 'DELETE',
    path: '/contents',
    summary: 'Delete files and folders with all that is in them',
    group: 'Contents',
    token: 'needed',
    body: Type.Object({ contentsId }),
    answer: representationAnswer,
    refusals: ['error-notFound', 'error-owner', 'error-protectedFolder'],
    async handle(call, { contentsId }) {
      await call.refuseForeign(contentsId, 'error-owner')
      const { wantsRepresentation: representation } = call
      const result = await call.askOwn({
        $case: 'deleteContents',
        value: { contentIds: contentsId, representation, heldSeconds: undefined },
      })
      return result.$case === 'items' ? presentItems(call, contentsId, result.value) : ok({})
    },
  })
}
