import type { Clock } from '@holdfast/kernel'
import type { Replicator, SourceLag } from '@holdfast/replication'
import { Gauge, type Registry } from 'prom-client'

export interface ReplicationMetricsDeps {
  replicator: Pick<Replicator, 'lag'>
  regionOf: (node: string) => string
  clock: Clock
}

type LagMetric = readonly [name: string, help: string, figure: (lag: SourceLag, nowMs: number) => number]

const shown: readonly LagMetric[] = [
  [
    'holdfast_replication_lag_seconds',
    'Maximum age of copies that are missing here and a source has; +Inf before it was followed once.',
    ({ ms }) => ms / 1000,
  ],
  [
    'holdfast_replication_entries_behind',
    "Entries of a source's log that were not processed yet.",
    ({ entries }) => entries,
  ],
  [
    'holdfast_replication_owed',
    'Copies that a source lists and of which no node has a whole one.',
    ({ owed }) => owed,
  ],
  [
    'holdfast_replication_compared_age_seconds',
    'Time since the whole inventories of a source and this node were compared, which finds copies that the logs missed; +Inf before the first time.',
    ({ comparedMs = Number.NEGATIVE_INFINITY }, nowMs) => Math.max(0, nowMs - comparedMs) / 1000,
  ],
]

/** How far this node is behind each node that it follows, read at each scrape. */
export function replicationMetrics(
  registry: Registry,
  { replicator, regionOf, clock }: ReplicationMetricsDeps,
): void {
  for (const [name, help, figure] of shown)
    new Gauge({
      name,
      help,
      labelNames: ['source', 'source_region'],
      registers: [registry],
      async collect() {
        // A source that is no longer followed has no lag.
        this.reset()
        for (const lag of await replicator.lag())
          this.set({ source: lag.source, source_region: regionOf(lag.source) }, figure(lag, clock.now()))
      },
    })
}
