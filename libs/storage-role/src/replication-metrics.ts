import type { Replicator, SourceLag } from '@holdfast/replication'
import { Gauge, type Registry } from 'prom-client'

const shown: readonly [name: string, help: string, figure: (lag: SourceLag) => number][] = [
  [
    'holdfast_replication_lag_seconds',
    'How old what is missing from a source may be; +Inf before it was followed once.',
    ({ ms }) => ms / 1000,
  ],
  [
    'holdfast_replication_entries_behind',
    "Entries of a source's log that were not looked at yet.",
    ({ entries }) => entries,
  ],
  ['holdfast_replication_owed', 'Copies that a source has and no node could give whole.', ({ owed }) => owed],
]

/** How far this node is behind each node that it follows, read at each scrape. */
export function replicationMetrics(registry: Registry, replicator: Replicator): void {
  for (const [name, help, figure] of shown)
    new Gauge({
      name,
      help,
      labelNames: ['source'],
      registers: [registry],
      async collect() {
        // A source that is no longer followed has no lag.
        this.reset()
        for (const lag of await replicator.lag()) this.set({ source: lag.source }, figure(lag))
      },
    })
}
