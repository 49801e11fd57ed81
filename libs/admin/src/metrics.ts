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
