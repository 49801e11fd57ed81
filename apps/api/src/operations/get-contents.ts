import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { bearsWebsiteToken, websiteTokenHeaders, websiteTokenQuery } from '../accounts/website-token.ts'
import { listingQuery, readListing, refusalsOfReading } from '../answers/listing.ts'
import type { ApiContext } from '../calls/context.ts'
import { serve } from '../calls/operation.ts'
import { contentPath, itemAnswer, pageAnswer } from '../documents/schemas.ts'
import { pagesAccess } from './pages/web-contents.ts'

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
