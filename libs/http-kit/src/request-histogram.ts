import { Histogram, type Registry } from 'prom-client'

const name = 'holdfast_http_request_seconds'

/**
 * One histogram per registry, shared by the hosts of a process. Labels are few: the route is its
 * pattern, never the path.
 */
export function requestHistogram(registry: Registry) {
  const known = registry.getSingleMetric(name) as Histogram<'host' | 'method' | 'route' | 'code'> | undefined
  return (
    known ??
    new Histogram({
      name,
      help: 'Time from the request to the end of its answer, seconds.',
      labelNames: ['host', 'method', 'route', 'code'],
      buckets: [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100],
      registers: [registry],
    })
  )
}
