import { ok } from '@holdfast/http-kit'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { serve } from '../operation.ts'
import type { ApiParts } from '../parts.ts'
import { regionalUploadUrl, regionNames } from '../region-hosts.ts'

export function getRegions(app: FastifyInstance, parts: ApiParts) {
  serve(app, parts, {
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
      const regions = parts.settings.regions.map((code) => ({
        code,
        name: regionNames[code],
        uploadUrl: regionalUploadUrl(parts.settings.urls.upload, code, parts.uploadUrlOf),
      }))
      return ok({ regions })
    },
  })
}
