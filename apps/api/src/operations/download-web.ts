import { Refusal } from '@holdfast/http-kit'
import { isShareCode, isUuid } from '@holdfast/kernel'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Call, lookAt, viewOf } from '../call.ts'
import type { ApiParts } from '../parts.ts'

/** Download links of older pages: to the page of the content. A name behind the id is only for people. */
export function downloadWeb(app: FastifyInstance, parts: ApiParts) {
  for (const url of ['/download/web/:id', '/download/web/:id/:name']) {
    app.get(
      url,
      { config: { endpoint: 'downloadWeb' }, schema: { hide: true } as object },
      (request, reply) =>
        pageOf(parts, request).then((page) => reply.redirect(`${parts.settings.urls.web}/d/${page}`, 302)),
    )
  }
}

/** The share code when a visitor may see it, else the id: the page says the rest. */
async function pageOf(parts: ApiParts, request: FastifyRequest): Promise<string> {
  const { id } = request.params as { id: string }
  if (isShareCode(id)) return id
  if (!isUuid(id)) throw new Refusal('error-notFound')
  const call = new Call({ parts, request, tier: '', signedIn: undefined, keyRequestId: undefined })
  try {
    const result = await call.askOf(id, { $case: 'readContent', value: lookAt(id) })
    return viewOf(result, 'content').item?.code ?? id
  } catch (error) {
    if (error instanceof Refusal && error.status !== 'error-notFound') return id
    throw error
  }
}
