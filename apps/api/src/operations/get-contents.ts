import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import type { ApiContext } from '../context.ts'
import { listingQuery, readListing, refusalsOfReading } from '../listing.ts'
import { serve } from '../operation.ts'
import { contentPath, itemAnswer, pageAnswer } from '../schemas.ts'
import { bearsWebsiteToken, websiteTokenHeaders, websiteTokenQuery } from '../website-token.ts'
import { pagesAccess } from './web-contents.ts'

export function getContents(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    name: 'getContents',
    method: 'GET',
    path: '/contents/:contentId',
    summary: 'Read a folder with its children, or a file',
    group: 'Contents',
    token: 'needed',
    tier: context.settings.openListing ? '' : 'premium',
    description:
      'With a website token every tier reads as at `/web/contents/{contentId}`, and no account token is needed.',
    otherAccess: { isAskedFor: bearsWebsiteToken, access: pagesAccess, headers: websiteTokenHeaders },
    params: contentPath,
    query: Type.Object({ ...listingQuery.properties, ...websiteTokenQuery }),
    answer: itemAnswer,
    metadata: pageAnswer,
    refusals: refusalsOfReading,
    handle: (call, input) => readListing(call, input.contentId, input),
  })
}
