/**
 * `/openapi.json`, made from the operations' own schemas, and `/docs`, a page of it without scripts
 * or external resources.
 */
import swagger from '@fastify/swagger'
import { version } from '@holdfast/bootstrap'
import type { FastifyInstance } from 'fastify'
import type { ApiSettings } from '../calls/deps.ts'
import { documentationPage } from './documentation-page.ts'
import { uploadPaths } from './upload-document.ts'

export function documentation(app: FastifyInstance, settings: ApiSettings) {
  app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Holdfast',
        version,
        description:
          'Stores files in folders and shares them by link. Every answer is `{"status": "ok", "data": …}` or `{"status": "error-<name>"}`; a parameter that is refused gives its name. A JSON body has at most 256 KiB.',
      },
      servers: [{ url: settings.urls.api }],
      components: {
        securitySchemes: {
          bearer: {
            type: 'http',
            scheme: 'bearer',
            description:
              'Account token; every request. Other methods than GET take it as the body field `token`, too',
          },
          queryToken: {
            type: 'apiKey',
            in: 'query',
            name: 'token',
            description: 'Account token; GET alone',
          },
        },
      },
      paths: uploadPaths(settings.urls.upload) as never,
    },
  })
  app.register(async (scope) => {
    let document: string | undefined
    let page: string | undefined
    scope.get(
      '/openapi.json',
      { config: { endpoint: 'openapi' }, schema: { hide: true } as object },
      (_, reply) => {
        document ??= JSON.stringify(documentOf(app))
        return reply.type('application/json; charset=utf-8').send(document)
      },
    )
    scope.get('/docs', { config: { endpoint: 'openapi' }, schema: { hide: true } as object }, (_, reply) => {
      page ??= documentationPage(documentOf(app))
      return reply
        .type('text/html; charset=utf-8')
        .header(
          'content-security-policy',
          "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
        )
        .send(page)
    })
  })
}

interface EndpointBody {
  requestBody?: { required?: boolean; content?: Record<string, { schema?: { required?: string[] } }> }
}

/** No body counts as an empty object, which is enough where no field is required. */
function documentOf(app: FastifyInstance): object {
  const document = app.swagger() as { paths?: Record<string, Record<string, EndpointBody>> }
  for (const methods of Object.values(document.paths ?? {}))
    for (const { requestBody } of Object.values(methods)) {
      const schema = requestBody?.content?.['application/json']?.schema
      if (requestBody && schema) requestBody.required = (schema.required?.length ?? 0) > 0
    }
  return document
}
