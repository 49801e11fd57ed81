import type { FastifyInstance } from 'fastify'
import type { ApiContext } from '../../calls/context.ts'
import { serve } from '../../calls/operation.ts'
import { representationAnswer } from '../../documents/schemas.ts'
import { copyBody, copyInto } from '../copy-contents.ts'

/** For owners of every tier, who copy within their own account. */
export function webCopy(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    name: 'webCopy',
    method: 'POST',
    path: '/web/contents/copy',
    summary: 'Copy own files and folders, with an account of any tier',
    group: 'Extensions',
    token: 'needed',
    body: copyBody,
    answer: representationAnswer,
    refusals: [
      'error-notFound',
      'error-notOwner',
      'error-limits',
      'error-rootFolder',
      'error-protectedFolder',
    ],
    async handle(call, input) {
      await call.refuseForeign([...input.contentsId, input.folderId], 'error-notOwner')
      return await copyInto(call, input)
    },
  })
}
