import { type RefusalError, unavailableRetrySeconds } from '@holdfast/http-kit'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Registry } from 'prom-client'
import type { Readiness } from './readiness.ts'

export interface HealthDeps {
  readiness: Readiness
  metrics: Registry
  /** The answer for a client that may not see figures; undefined: it may. */
  refusalFor: (request: FastifyRequest) => Promise<RefusalError | undefined>
  /** The same of `/metrics`. */
  scrapeRefusalFor: (request: FastifyRequest) => Promise<RefusalError | undefined>
}

/**
 * `/livez` answers 200 while the loop turns and every failed part can still recover; after 503 a
 * supervisor should restart the process. `/readyz` answers 200 when requests should come here, and
 * 503 while starting, draining, or when a check fails. Both are for orchestrators anywhere;
 * `?verbose` and `/metrics` are for the operator.
 */
export function healthRoutes(
  host: FastifyInstance,
  { readiness, metrics, refusalFor, scrapeRefusalFor }: HealthDeps,
): void {
  host.get('/livez', async (request, answer) => {
    const { hopeless } = readiness
    if (hopeless === undefined) return { status: 'ok', data: {} }
    const verbose =
      Object.hasOwn(request.query as object, 'verbose') && (await refusalFor(request)) === undefined
    return answer.code(503).send({ status: 'error-unavailable', ...(verbose && { data: { hopeless } }) })
  })

  host.get<{ Querystring: Record<string, unknown> }>('/readyz', async (request, answer) => {
    const { ready, checks } = await readiness.report()
    const verbose = Object.hasOwn(request.query, 'verbose') && (await refusalFor(request)) === undefined
    if (ready) return { status: 'ok', data: verbose ? { checks } : {} }
    // Not thrown: probes are frequent, and none of them is a fault to log.
    return answer
      .code(503)
      .header('retry-after', String(unavailableRetrySeconds))
      .send({ status: 'error-unavailable', ...(verbose && { data: { checks } }) })
  })

  host.get('/metrics', async (request, answer) => {
    const refusal = await scrapeRefusalFor(request)
    if (refusal !== undefined) throw refusal
    return answer.type(metrics.contentType).send(await metrics.metrics())
  })
}
