/**
 * The website token, which current clients send with every listing. Each client uses its own salt,
 * so any value counts. It is not access control: a listing with it is answered like the pages' own
 * path, which is open to anyone.
 */
import { Type } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'

const header = 'x-website-token'

export function bearsWebsiteToken(request: FastifyRequest): boolean {
  if (request.headers[header]) return true
  const { wt } = request.query as Record<string, unknown>
  return wt !== undefined && wt !== ''
}

const description =
  'Website token: with any value the call is answered as `/web/contents/{contentId}` is, for every tier and without an account token. It protects nothing.'

/** For the OpenAPI document. */
export const websiteTokenQuery = { wt: Type.Optional(Type.String({ description })) }
export const websiteTokenHeaders = Type.Object({
  'X-Website-Token': Type.Optional(Type.String({ description })),
})
