import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { presentCopies } from '../answers/presenting.ts'
import type { ApiContext } from '../calls/context.ts'
import { copy } from '../calls/copying.ts'
import { serve } from '../calls/operation.ts'
import { contentsId, mapAnswer, readerPassword } from '../documents/schemas.ts'

export function importContents(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    name: 'importContents',
    method: 'POST',
    path: '/contents/import',
    summary: 'Copy shared content into the root folder',
    group: 'Contents',
    token: 'needed',
    tier: 'premium',
    body: Type.Object({ contentsId, password: readerPassword }),
    answer: mapAnswer('{<source id>: {status, data: {id: <new id>}}}'),
    refusals: [
      'error-notFound',
      'error-notOwner',
      'error-passwordRequired',
      'error-passwordWrong',
      'error-limits',
      'error-rootFolder',
      'error-protectedFolder',
    ],
    async handle(call, { contentsId, password }) {
      const view = await copy(call, {
        contentIds: contentsId,
        folderId: undefined,
        password: password || undefined,
        skipUnreadable: true,
      })
      return presentCopies(call, view, (item) => (call.wantsRepresentation ? item : { id: item.id }))
    },
  })
}
