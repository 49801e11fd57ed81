import { Counter, type Registry } from 'prom-client'

const name = 'holdfast_download_bytes_total'

/** One counter per registry, also when several hosts of a process share it. */
export function trafficCounter(registry: Registry): Counter<'traffic'> {
  const known = registry.getSingleMetric(name) as Counter<'traffic'> | undefined
  const help = 'Bytes of files and archives sent, by the kind of link.'
  return known ?? new Counter({ name, help, labelNames: ['traffic'], registers: [registry] })
}
