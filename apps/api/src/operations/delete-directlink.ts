import { ok } from '@holdfast/http-kit'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import type { ApiContext } from '../calls/context.ts'
import { serve } from '../calls/operation.ts'
import { emptyAnswer, uuid } from '../documents/schemas.ts'

export function deleteDirectLink(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    name: 'deleteDirectLink',
    method: 'DELETE',
    path: '/contents/:contentId/directlinks/:directLinkId',
    summary: 'Remove a direct link for good',
    group: 'Direct links',
    token: 'needed',
    params: Type.Object({ contentId: uuid('Content'), directLinkId: uuid('Direct link') }),
    answer: emptyAnswer,
    refusals: ['error-notFound', 'error-notOwner', 'error-protectedFolder'],
    async handle(call, { contentId, directLinkId }) {
      await call.refuseForeign([contentId], 'error-notOwner')
      await call.askOwn({ $case: 'deleteDirectLink', value: { contentId, linkId: directLinkId } })
      return ok({})
    },
  })
}
