import type { FastifyInstance } from 'fastify'
import { listingQuery, readListing } from '../listing.ts'
import { serve } from '../operation.ts'
import type { ApiParts } from '../parts.ts'
import { contentPath, itemAnswer, pageAnswer } from '../schemas.ts'

export function getContents(app: FastifyInstance, parts: ApiParts) {
  serve(app, parts, {
    name: 'getContents',
    method: 'GET',
    path: '/contents/:contentId',
    summary: 'Read a folder with its children, or a file',
    group: 'Contents',
    token: 'needed',
    tier: parts.settings.openListing ? '' : 'premium',
    params: contentPath,
    query: listingQuery,
    answer: itemAnswer,
    metadata: pageAnswer,
    handle: (call, input) => readListing(call, input.contentId, input),
  })
}
