/**
 * What requests of a host are answered with. Labels are few: the route is its pattern, never the
 * path, and codes are gathered to outcomes, so a host has at most routes × outcomes of them.
 * `holdfast_refusals_total` has the statuses.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Counter, Histogram, type Registry } from 'prom-client'

/** `full`: the disk is (507); it is not a fault of the service, and has an alert of its own. */
export type RequestOutcome = 'ok' | 'refused' | 'full' | 'failed'

const buckets = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100]
const firstByteBuckets = [0.001, 0.005, 0.02, 0.05, 0.1, 0.3, 1, 3, 10]

const seconds = 'holdfast_http_request_seconds'
const firstByte = 'holdfast_http_first_byte_seconds'
const refusals = 'holdfast_refusals_total'

/** One set per registry, shared by the hosts of a process. */
export class RequestMetrics {
  readonly #seconds: Histogram<'host' | 'method' | 'route' | 'outcome'>
  readonly #firstByte: Histogram<'host'>
  readonly #refusals: Counter<'host' | 'status'>
  readonly #host: string

  constructor(registry: Registry, host: string) {
    this.#host = host
    const registers = [registry]
    this.#seconds =
      (registry.getSingleMetric(seconds) as Histogram<'host' | 'method' | 'route' | 'outcome'> | undefined) ??
      new Histogram({
        name: seconds,
        help: 'Time from the request to the end of its answer. Outcomes: ok, refused (4xx), full (507), failed (other 5xx).',
        labelNames: ['host', 'method', 'route', 'outcome'],
        buckets,
        registers,
      })
    this.#firstByte =
      (registry.getSingleMetric(firstByte) as Histogram<'host'> | undefined) ??
      new Histogram({
        name: firstByte,
        help: 'Time from a request to the first byte of its answer, where the answer is no refusal.',
        labelNames: ['host'],
        buckets: firstByteBuckets,
        registers,
      })
    this.#refusals =
      (registry.getSingleMetric(refusals) as Counter<'host' | 'status'> | undefined) ??
      new Counter({
        name: refusals,
        help: 'Answers other than ok, by status. Connections that are refused before they ask are in holdfast_connections_refused_total.',
        labelNames: ['host', 'status'],
        registers,
      })
  }

  watch(app: FastifyInstance): void {
    app.addHook('onResponse', (request, reply, done) => {
      done()
      const host = this.#host
      const outcome = outcomeOf(reply.statusCode)
      this.#seconds.observe({ host, ...routeOf(request), outcome }, reply.elapsedTime / 1000)
      if (outcome !== 'ok') this.refused(request.refusedAs ?? 'other')
    })
  }

  /** The head of an answer is sent. */
  began(reply: FastifyReply): void {
    if (reply.statusCode < 400) this.#firstByte.observe({ host: this.#host }, reply.elapsedTime / 1000)
  }

  refused(status: string): void {
    this.#refusals.inc({ host: this.#host, status })
  }
}

/** Clients choose the methods of unknown paths. */
function routeOf({ method, routeOptions: { url } }: FastifyRequest): { method: string; route: string } {
  if (url === undefined) return { method: 'any', route: 'unknown' }
  return { method: method === 'HEAD' ? 'GET' : method, route: url }
}

function outcomeOf(code: number): RequestOutcome {
  if (code < 400) return 'ok'
  if (code < 500) return 'refused'
  return code === 507 ? 'full' : 'failed'
}
