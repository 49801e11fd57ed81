import { viewOf } from '@holdfast/accounts'
import { ok } from '@holdfast/http-kit'
import type { FastifyInstance } from 'fastify'
import { presentDirectLink } from '../answers/presenting.ts'
import type { ApiContext } from '../calls/context.ts'
import { serve } from '../calls/operation.ts'
import { refusePastExpiry } from '../direct-links/direct-link-expiry.ts'
import { directLinkBody, directLinkOf } from '../direct-links/direct-link-fields.ts'
import { contentIdPath, directLinkAnswer } from '../documents/schemas.ts'

export function createDirectLink(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    name: 'createDirectLink',
    method: 'POST',
    path: '/contents/:contentId/directlinks',
    summary: 'Create a direct link to a file, or to a ZIP archive of a folder',
    group: 'Direct links',
    token: 'needed',
    tier: context.settings.directLinksPremium ? 'premium' : '',
    params: contentIdPath,
    body: directLinkBody,
    answer: directLinkAnswer,
    refusals: ['error-notFound', 'error-notOwner', 'error-limits', 'error-protectedFolder'],
    async handle(call, input) {
      await refusePastExpiry(call, input.expireTime)
      await call.refuseForeign([input.contentId], 'error-notOwner')
      const result = await call.askOwn({
        $case: 'putDirectLink',
        value: { contentId: input.contentId, linkId: undefined, link: directLinkOf(input) },
      })
      return ok(presentDirectLink(call, viewOf(result, 'directLink')))
    },
  })
}
