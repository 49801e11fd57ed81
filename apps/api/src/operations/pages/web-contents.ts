import type { FastifyInstance } from 'fastify'
import { listingQuery, readListing, refusalsOfReading } from '../../answers/listing.ts'
import type { ApiContext } from '../../calls/context.ts'
import { serve } from '../../calls/operation.ts'
import { contentPath, itemAnswer, pageAnswer } from '../../documents/schemas.ts'

/** Visitors, and owners of every tier. */
export const pagesAccess = { name: 'webContents', token: 'optional' } as const

/**
 * The read operation of the pages, for visitors and owners of every tier. The answer is that of
 * `GET /contents/{contentId}`.
 */
export function webContents(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    ...pagesAccess,
    method: 'GET',
    path: '/web/contents/:contentId',
    summary: 'Read a folder or a file as the pages do, with or without a token',
    group: 'Extensions',
    params: contentPath,
    query: listingQuery,
    answer: itemAnswer,
    metadata: pageAnswer,
    refusals: refusalsOfReading,
    handle: (call, input) => readListing(call, input.contentId, input),
  })
}
