import type { FastifyInstance } from 'fastify'
import type { ApiContext } from '../../calls/context.ts'
import { serve } from '../../calls/operation.ts'
import { pageAnswer } from '../../documents/schemas.ts'
import { answerSearch, searchAnswer, searchQuery } from '../search-contents.ts'

/** For owners of every tier, in their own folders. */
export function webSearch(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    name: 'webSearch',
    method: 'GET',
    path: '/web/contents/search',
    summary: 'Search an own folder and all below it, with an account of any tier',
    group: 'Extensions',
    token: 'needed',
    query: searchQuery,
    answer: searchAnswer,
    metadata: pageAnswer,
    refusals: ['error-notFound', 'error-notOwner'],
    async handle(call, input) {
      const contentId = await call.contentNamed(input.contentId)
      await call.refuseForeign([contentId], 'error-notOwner')
      return await answerSearch(call, { ...input, contentId })
    },
  })
}
