import { viewOf } from '@holdfast/accounts'
import { ok } from '@holdfast/http-kit'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { presentContent } from '../answers/presenting.ts'
import type { ApiContext } from '../calls/context.ts'
import { serve } from '../calls/operation.ts'
import { contentName, itemAnswer, modTime, uuid } from '../documents/schemas.ts'

export function createFolder(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    name: 'createFolder',
    method: 'POST',
    path: '/contents/createFolder',
    summary: 'Create a folder',
    group: 'Contents',
    token: 'needed',
    body: Type.Object({
      parentFolderId: uuid('Folder of the caller; the root folder for a top-level folder'),
      folderName: Type.Optional(contentName('1–255 characters; omitted: the share code')),
      public: Type.Optional(Type.Boolean({ description: 'Omitted: as the parent' })),
      modTime: Type.Optional(modTime),
    }),
    answer: itemAnswer,
    refusals: ['error-notFound', 'error-notOwner', 'error-limits', 'error-protectedFolder'],
    async handle(call, input) {
      await call.refuseForeign([input.parentFolderId], 'error-notOwner')
      const result = await call.askOwn({
        $case: 'createFolder',
        value: {
          parentFolderId: input.parentFolderId,
          name: input.folderName,
          isPublic: input.public,
          modTime: input.modTime,
        },
      })
      return ok(presentContent(call, viewOf(result, 'content')))
    },
  })
}
