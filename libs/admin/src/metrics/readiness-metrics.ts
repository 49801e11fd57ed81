import { Gauge, type Registry } from 'prom-client'
import type { Readiness } from '../health/readiness.ts'

/** What `/readyz` says, by check, read at each scrape. */
export function readinessMetrics(registry: Registry, readiness: Readiness): void {
  new Gauge({
    name: 'holdfast_ready',
    help: '1 when the check passes; `phase` when the process is neither starting nor draining. Send requests to the process while all are 1.',
    labelNames: ['check'],
    registers: [registry],
    async collect() {
      const { checks } = await readiness.report()
      const { phase, ...others } = checks
      this.set({ check: 'phase' }, phase === 'ready' ? 1 : 0)
      for (const [check, text] of Object.entries(others)) this.set({ check }, text === 'ok' ? 1 : 0)
    },
  })
}
