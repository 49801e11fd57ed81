import { Gauge, type Registry } from 'prom-client'
import type { Ban } from './bans.ts'

/** Bans in force here, read at each scrape. */
export function banMetrics(registry: Registry, bans: () => readonly Ban[]): void {
  new Gauge({
    name: 'holdfast_bans',
    help: 'Networks that are banned for a while because they exceeded limits repeatedly.',
    registers: [registry],
    collect() {
      this.set(bans().length)
    },
  })
}
