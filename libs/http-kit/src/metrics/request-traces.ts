/**
 * A span for each traced request of a host, from its head to the end of its answer. A `traceparent`
 * of the client or of a proxy makes it part of their trace.
 */
import { forTrace, type Span, type Tracer, traceparentOf } from '@holdfast/kernel'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { methodOf } from './request-metrics.ts'

export function traceRequests(
  app: FastifyInstance,
  { tracer, host }: { tracer: Tracer; host: string },
): void {
  const spans = new WeakMap<FastifyRequest, Span>()
  app.addHook('onRequest', (request, _reply, done) => {
    // Paths, queries and headers have tokens and names: only the pattern of the route is noted.
    const route = request.routeOptions.url ?? 'unknown'
    const method = methodOf(request.method, request.routeOptions.url ?? null)
    const span = tracer.begin(`${method} ${route}`, {
      parent: traceparentOf(request.headers.traceparent),
      fromClient: true,
      attributes: { 'http.request.method': method, 'http.route': route, 'holdfast.http.host': host },
    })
    if (span !== undefined) spans.set(request, span)
    done()
  })
  app.addHook('preHandler', (request, _reply, done) => {
    const span = spans.get(request)
    if (span === undefined) done()
    else forTrace(span.traceparent, done)
  })
  app.addHook('onResponse', (request, reply, done) => {
    done()
    spans.get(request)?.end({
      fault: reply.statusCode < 500 ? undefined : (request.refusedAs ?? 'fault'),
      attributes: {
        'http.response.status_code': reply.statusCode,
        'holdfast.status': request.refusedAs ?? undefined,
      },
    })
  })
}
