/**
 * The outcomes of a host's requests. Labels are few: the route is the pattern, never the path, and
 * codes are grouped into outcomes. So a host has at most routes × outcomes series.
 * `holdfast_refusals_total` has the statuses.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Counter, type Registry } from 'prom-client'
import { CellHistogram, type HistogramCell } from './cell-histogram.ts'

/** `full`: the disk is (507); it is not a fault of the service, and has an alert of its own. */
export type RequestOutcome = 'ok' | 'refused' | 'full' | 'failed'

const buckets = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100]
const firstByteBuckets = [0.001, 0.005, 0.02, 0.05, 0.1, 0.3, 1, 3, 10]

const refusals = 'holdfast_refusals_total'

/** One set per registry, shared by the hosts of a process. */
export class RequestMetrics {
  readonly #seconds: CellHistogram
  readonly #firstByte: CellHistogram
  readonly #firstByteCell: HistogramCell
  readonly #refusals: Counter<'host' | 'status'>
  readonly #host: string
  /** By route, method and outcome. */
  readonly #cells = new Map<string | null, Map<string, Map<RequestOutcome, HistogramCell>>>()

  constructor(registry: Registry, host: string) {
    this.#host = host
    this.#seconds = CellHistogram.in(registry, {
      name: 'holdfast_http_request_seconds',
      help: 'Time from the request to the end of its answer. Outcomes: ok, refused (4xx), full (507), failed (other 5xx).',
      bounds: buckets,
      labelNames: ['host', 'method', 'route', 'outcome'],
    })
    this.#firstByte = CellHistogram.in(registry, {
      name: 'holdfast_http_first_byte_seconds',
      help: 'Time from a request to the first byte of its answer, where the answer is no refusal.',
      bounds: firstByteBuckets,
      labelNames: ['host'],
    })
    this.#firstByteCell = this.#firstByte.cell({ host })
    this.#refusals =
      (registry.getSingleMetric(refusals) as Counter<'host' | 'status'> | undefined) ??
      new Counter({
        name: refusals,
        help: 'Answers other than ok, by status. Connections that are refused before a request are in holdfast_connections_refused_total.',
        labelNames: ['host', 'status'],
        registers: [registry],
      })
  }

  watch(app: FastifyInstance): void {
    app.addHook('onResponse', (request, reply, done) => {
      done()
      const outcome = outcomeOf(reply.statusCode)
      this.#seconds.observe(this.#cellOf(request, outcome), reply.elapsedTime / 1000)
      if (outcome !== 'ok') this.refused(request.refusedAs ?? 'other')
    })
  }

  #cellOf({ method: sent, routeUrl }: FastifyRequest, outcome: RequestOutcome): HistogramCell {
    const method = methodOf(sent, routeUrl)
    const known = this.#cells.get(routeUrl)?.get(method)?.get(outcome)
    if (known !== undefined) return known
    const route = routeUrl ?? 'unknown'
    const cell = this.#seconds.cell({ host: this.#host, method, route, outcome })
    const ofRoute = this.#cells.get(routeUrl) ?? new Map<string, Map<RequestOutcome, HistogramCell>>()
    const ofMethod = ofRoute.get(method) ?? new Map<RequestOutcome, HistogramCell>()
    this.#cells.set(routeUrl, ofRoute.set(method, ofMethod.set(outcome, cell)))
    return cell
  }

  /** The head of an answer is sent. */
  began(reply: FastifyReply): void {
    if (reply.statusCode < 400) this.#firstByte.observe(this.#firstByteCell, reply.elapsedTime / 1000)
  }

  refused(status: string): void {
    this.#refusals.inc({ host: this.#host, status })
  }
}

/** Clients choose the methods of unknown paths. */
export function methodOf(sent: string, route: string | null): string {
  if (route === null) return 'any'
  return sent === 'HEAD' ? 'GET' : sent
}

function outcomeOf(code: number): RequestOutcome {
  if (code < 400) return 'ok'
  if (code < 500) return 'refused'
  return code === 507 ? 'full' : 'failed'
}
