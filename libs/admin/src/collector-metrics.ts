import type { Collector } from '@holdfast/blob-store'
import type { Clock } from '@holdfast/kernel'
import { Gauge, type Registry } from 'prom-client'

/** For how long nothing could be freed, read at each scrape. */
export function collectorMetrics(
  registry: Registry,
  { collector, clock }: { collector: Pick<Collector, 'standstill'>; clock: Clock },
): void {
  new Gauge({
    name: 'holdfast_collect_standstill_seconds',
    help: 'Since when no pass over unreferenced bytes has completed; 0 when the last one did. Status says why.',
    registers: [registry],
    collect() {
      const { standstill } = collector
      this.set(standstill === undefined ? 0 : Math.max(0, clock.now() - standstill.sinceMs) / 1000)
    },
  })
}
