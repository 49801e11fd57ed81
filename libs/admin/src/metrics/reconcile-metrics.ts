import type { Clock } from '@holdfast/kernel'
import { Gauge, type Registry } from 'prom-client'

const figures = [
  'accounts',
  'used',
  'references',
  'missing',
  'routes',
  'missingRoutes',
  'orphaned',
  'mended',
  'failed',
] as const

/** The last round that compared references with accounts. Undefined: others make the rounds. */
export interface Rounds {
  last:
    | ({ beganMs: number; tiers: Record<string, number> } & Record<(typeof figures)[number], number>)
    | undefined
}

/** Read at each scrape. No figure is shown before a round has ended. */
export function reconcileMetrics(
  registry: Registry,
  { rounds, clock }: { rounds: () => Rounds; clock: Clock },
): void {
  new Gauge({
    name: 'holdfast_reconcile_last',
    help: 'What the last comparison of references and routes with accounts counted. Missing and orphaned should be 0; failed accounts delay collecting.',
    labelNames: ['figure'],
    registers: [registry],
    collect() {
      this.reset()
      const { last } = rounds()
      if (last !== undefined) for (const figure of figures) this.set({ figure }, last[figure])
    },
  })
  new Gauge({
    name: 'holdfast_accounts',
    help: 'Accounts by tier, as counted by the last comparison of references; later ones are in holdfast_accounts_made_total.',
    labelNames: ['tier'],
    registers: [registry],
    collect() {
      this.reset()
      for (const [tier, count] of Object.entries(rounds().last?.tiers ?? {})) this.set({ tier }, count)
    },
  })
  new Gauge({
    name: 'holdfast_reconcile_age_seconds',
    help: 'Time since the start of the last completed comparison of references. In a cluster only of the process that makes them, as the other figures of comparisons.',
    registers: [registry],
    collect() {
      this.reset()
      const { last } = rounds()
      if (last !== undefined) this.set(Math.max(0, clock.now() - last.beganMs) / 1000)
    },
  })
}
