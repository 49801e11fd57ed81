import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { listingQuery, readListing, refusalsOfReading } from '../listing.ts'
import { serve } from '../operation.ts'
import type { ApiParts } from '../parts.ts'
import { contentPath, itemAnswer, pageAnswer } from '../schemas.ts'
import { bearsWebsiteToken, websiteTokenHeaders, websiteTokenQuery } from '../website-token.ts'
import { pagesDoor } from './web-contents.ts'

export function getContents(app: FastifyInstance, parts: ApiParts) {
  serve(app, parts, {
    name: 'getContents',
    method: 'GET',
    path: '/contents/:contentId',
    summary: 'Read a folder with its children, or a file',
    group: 'Contents',
    token: 'needed',
    tier: parts.settings.openListing ? '' : 'premium',
    description:
      'With a website token every tier reads as at `/web/contents/{contentId}`, and no account token is needed.',
    otherDoor: { isAskedFor: bearsWebsiteToken, door: pagesDoor, headers: websiteTokenHeaders },
    params: contentPath,
    query: Type.Object({ ...listingQuery.properties, ...websiteTokenQuery }),
    answer: itemAnswer,
    metadata: pageAnswer,
    refusals: refusalsOfReading,
    handle: (call, input) => readListing(call, input.contentId, input),
  })
}
