import { ok } from '@holdfast/http-kit'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import type { ApiContext } from '../calls/context.ts'
import { serve } from '../calls/operation.ts'
import { regionalUploadUrl, regionNames } from '../region-hosts.ts'

export function getRegions(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    name: 'getRegions',
    method: 'GET',
    path: '/regions',
    summary: 'Regions and their upload hosts',
    group: 'Extensions',
    token: 'none',
    answer: Type.Object({
      regions: Type.Array(
        Type.Object({ code: Type.String(), name: Type.String(), uploadUrl: Type.String({ format: 'uri' }) }),
      ),
    }),
    refusals: [],
    async handle() {
      const regions = context.settings.regions.map((code) => ({
        code,
        name: regionNames[code],
        uploadUrl: regionalUploadUrl(context.settings.urls.upload, code, context.uploadUrlOf),
      }))
      return ok({ regions })
    },
  })
}
