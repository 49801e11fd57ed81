import type { Clock } from '@holdfast/kernel'
import type { Replicator, SourceLag } from '@holdfast/replication'
import { Gauge, type Registry } from 'prom-client'

export interface ReplicationMetricsDeps {
  replicator: Pick<Replicator, 'lag'>
  regionOf: (node: string) => string
  clock: Clock
}

type Shown = readonly [name: string, help: string, figure: (lag: SourceLag, nowMs: number) => number]

const shown: readonly Shown[] = [
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
  [
    'holdfast_replication_compared_age_seconds',
    'Since the whole inventories of a source and this node were compared, which finds and repairs what the logs missed; +Inf before the first time.',
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
