/**
 * `GET /health` of the public hosts: whether a proxy, a balancer or DNS should send requests to
 * this process. It names no cause: anybody may ask.
 */
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { unavailableRetrySeconds } from './answers/refusals.ts'
import { responsesOf } from './answers/responses.ts'
import type { TellsReadiness } from './contract.ts'
import { ok } from './host.ts'

/** Alerts leave it out: its answers are none of users' requests. */
export const healthPath = '/health'

const schema = {
  operationId: 'getHealth',
  summary: 'Whether this host takes requests',
  tags: ['Extensions'],
  response: responsesOf({
    method: 'GET',
    tier: undefined,
    hasPathParameters: false,
    readsToken: false,
    readsKey: false,
    success: Type.Object({ status: Type.Literal('ok'), data: Type.Object({}) }),
    parameters: [],
    refusals: ['error-unavailable'],
  }),
}

export function healthRoute(app: FastifyInstance, readiness: TellsReadiness): void {
  app.get(healthPath, { config: { endpoint: 'getHealth' }, schema }, async (request, reply) => {
    if (await readiness.isReady()) return ok({})
    // Not thrown: probes are frequent, and none of them is a fault to log.
    request.refusedAs = 'error-unavailable'
    return reply
      .code(503)
      .header('retry-after', String(unavailableRetrySeconds))
      .send({ status: 'error-unavailable' })
  })
}
