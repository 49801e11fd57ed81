import { viewOf } from '@holdfast/accounts'
import { ok } from '@holdfast/http-kit'
import type { FastifyInstance } from 'fastify'
import type { ApiContext } from '../context.ts'
import { refusePastExpiry } from '../direct-link-expiry.ts'
import { directLinkBody, directLinkOf } from '../direct-link-fields.ts'
import { serve } from '../operation.ts'
import { presentDirectLink } from '../presenting.ts'
import { contentIdPath, directLinkAnswer } from '../schemas.ts'

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
