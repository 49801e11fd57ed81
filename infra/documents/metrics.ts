/** `infra/METRICS.md`: what `/metrics` of a process shows, from the metrics themselves. */
import { clockMetric } from '@holdfast/admin'
import { Registry } from 'prom-client'
import { groupMetrics } from '../../libs/cluster/src/operator/group-metrics.ts'
import { certificateMetrics } from '../../libs/cluster/src/servers/certificate-metrics.ts'
import {
  busMetrics,
  cassandraMetrics,
  cassandraNodeMetrics,
} from '../../libs/cluster/src/servers/server-metrics.ts'
import { peerMetrics } from '../../libs/storage-role/src/peer-metrics.ts'
import { replicationMetrics } from '../../libs/storage-role/src/replication-metrics.ts'
import type { RunningService } from './service.ts'
import { generatedMark, table } from './table.ts'

export function metricsPage({ metrics, scraped }: RunningService): string {
  const embedded = ownMetrics(metrics)
  const names = new Set(embedded.map(({ name }) => name))
  const shown = [...scraped.matchAll(/^# TYPE (holdfast_\w+) /gm)].map(([, name]) => name)
  if (shown.some((name) => name === undefined || !names.has(name)))
    throw new Error('/metrics shows what the registry lacks')
  return `${generatedMark}

# Metrics

\`GET /metrics\` of the admin host shows these in the text format of Prometheus, beside the default metrics of \`prom-client\`
for Node processes (\`process_…\`, \`nodejs_…\`). Labels have few values: accounts, content and blobs are never labels.

A new metric has its unit in its name. \`libs/admin/README.md\` says where it is defined.

## Every service

The embedded service shows all of these. A process of a cluster shows those of its parts.

${tableOf(embedded)}

## Processes of a cluster

${tableOf(ownMetrics(clusterMetrics()))}
`
}

interface OwnMetric {
  name: string
  type: string
  labels: readonly string[]
  help: string
}

/** Metrics are read when somebody scrapes, so what they would read is not needed to list them. */
function clusterMetrics(): Registry {
  const registry = new Registry()
  const unread = {} as never
  certificateMetrics(registry, unread)
  clockMetric(registry, unread)
  busMetrics(registry, unread)
  cassandraMetrics(registry)
  cassandraNodeMetrics(registry, unread)
  groupMetrics(registry, unread)
  peerMetrics(registry, unread)
  replicationMetrics(registry, unread)
  return registry
}

function ownMetrics(registry: Registry): OwnMetric[] {
  return registry
    .getMetricsAsArray()
    .filter(({ name }) => name.startsWith('holdfast_'))
    .map((metric) => ({
      name: metric.name,
      // Every metric has them; the types of prom-client do not say so.
      type: (metric as unknown as { type: string }).type,
      labels: (metric as unknown as { labelNames: readonly string[] }).labelNames,
      help: metric.help,
    }))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
}

function tableOf(metrics: readonly OwnMetric[]): string {
  return table(
    ['metric', 'type', 'labels', 'meaning'],
    metrics.map(({ name, type, labels, help }) => [
      `\`${name}\``,
      type,
      labels.map((label) => `\`${label}\``).join(', '),
      help,
    ]),
  )
}
