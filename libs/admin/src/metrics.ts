import { collectDefaultMetrics, Gauge, Registry } from 'prom-client'

/** A registry of one process (never the global one): Node's own figures and who we are. */
export function processMetrics(facts: { version: string; role: string; region: string }): Registry {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  new Gauge({
    name: 'holdfast_build_info',
    help: 'Constant 1, labelled with what runs here.',
    labelNames: ['version', 'role', 'region'],
    registers: [registry],
  }).set(facts, 1)
  return registry
}

/** Of a process in a cluster. */
export function clockMetric(registry: Registry, { offsetMs }: { offsetMs: () => number }): void {
  new Gauge({
    name: 'holdfast_clock_offset_seconds',
    help: 'How far the wall clock is ahead of the median of all members; more than 2 s either way: no expiry fires here.',
    registers: [registry],
    collect() {
      this.set(offsetMs() / 1000)
    },
  })
}
