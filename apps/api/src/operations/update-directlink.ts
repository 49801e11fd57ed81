import { viewOf } from '@holdfast/accounts'
import { ok } from '@holdfast/http-kit'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { presentDirectLink } from '../answers/presenting.ts'
import type { ApiContext } from '../calls/context.ts'
import { serve } from '../calls/operation.ts'
import { refusePastExpiry } from '../direct-links/direct-link-expiry.ts'
import { directLinkBody, directLinkOf } from '../direct-links/direct-link-fields.ts'
import { directLinkAnswer, uuid } from '../documents/schemas.ts'

export function updateDirectLink(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    name: 'updateDirectLink',
    method: 'PUT',
    path: '/contents/:contentId/directlinks/:directLinkId',
    summary: 'Replace the restrictions of a direct link: what is omitted is lifted',
    group: 'Direct links',
    token: 'needed',
    tier: context.settings.directLinksPremium ? 'premium' : '',
    params: Type.Object({ contentId: uuid('Content'), directLinkId: uuid('Direct link') }),
    body: directLinkBody,
    answer: directLinkAnswer,
    refusals: ['error-notFound', 'error-notOwner', 'error-limits', 'error-protectedFolder'],
    async handle(call, input) {
      await refusePastExpiry(call, input.expireTime)
      await call.refuseForeign([input.contentId], 'error-notOwner')
      const result = await call.askOwn({
        $case: 'putDirectLink',
        value: { contentId: input.contentId, linkId: input.directLinkId, link: directLinkOf(input) },
      })
      return ok(presentDirectLink(call, viewOf(result, 'directLink')))
    },
  })
}
