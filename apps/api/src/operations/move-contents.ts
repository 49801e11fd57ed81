import { viewOf } from '@holdfast/accounts'
import { ok } from '@holdfast/http-kit'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { presentItems } from '../answers/presenting.ts'
import type { ApiContext } from '../calls/context.ts'
import { serve } from '../calls/operation.ts'
import { contentsId, representationAnswer, uuid } from '../documents/schemas.ts'

export function moveContents(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    name: 'moveContents',
    method: 'PUT',
    path: '/contents/move',
    summary: 'Move files and folders',
    group: 'Contents',
    token: 'needed',
    tier: 'premium',
    body: Type.Object({ contentsId, folderId: uuid('Destination folder of the caller') }),
    answer: representationAnswer,
    refusals: [
      'error-notFound',
      'error-notOwner',
      'error-limits',
      'error-rootFolder',
      'error-protectedFolder',
    ],
    async handle(call, { contentsId, folderId }) {
      await call.refuseForeign([...contentsId, folderId], 'error-notOwner')
      const result = await call.askOwn({ $case: 'moveContents', value: { contentIds: contentsId, folderId } })
      return call.wantsRepresentation ? presentItems(call, contentsId, viewOf(result, 'items')) : ok({})
    },
  })
}
