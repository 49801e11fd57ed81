import { ok } from '@holdfast/http-kit'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import type { ApiContext } from '../calls/context.ts'
import { serve } from '../calls/operation.ts'

/** Upload hosts in the form that older clients expect: `<name>.<domain>`, by zone. */
export function getServers(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    name: 'getServers',
    method: 'GET',
    path: '/servers',
    summary: 'Regional upload hosts by name and zone',
    group: 'Extensions',
    token: 'none',
    query: Type.Object({
      zone: Type.Optional(Type.String({ maxLength: 16, description: 'Only these, if any' })),
    }),
    answer: Type.Object({
      servers: Type.Array(Type.Object({ name: Type.String(), zone: Type.String() })),
    }),
    refusals: [],
    async handle(_call, { zone }) {
      const servers = context.settings.regions.map((code) => ({
        name: `upload-${code}`,
        zone: code.slice(0, code.indexOf('-')),
      }))
      const wanted = servers.filter((server) => server.zone === zone)
      return ok({ servers: wanted.length > 0 ? wanted : servers })
    },
  })
}
