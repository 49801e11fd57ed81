/** How the servers that a process works on answer it. */
import { readMetrics } from '@holdfast/admin'
import { requestEnds } from '@holdfast/bus-nats'
import type { RegionCode } from '@holdfast/kernel'
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { ClusterBus } from './connect-servers.ts'
import type { MetadataConnections } from './metadata.ts'

const buckets = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10]

/** Read at each scrape. */
export function busMetrics(registry: Registry, bus: Pick<ClusterBus, 'up' | 'figures'>): void {
  const registers = [registry]
  const { gauge, counter } = readMetrics(registry)
  gauge('holdfast_nats_up', '1 while the process has a connection to NATS.', () => Number(bus.up))
  gauge(
    'holdfast_nats_requests_waiting',
    'Requests over NATS without an answer yet.',
    () => bus.figures().waiting,
  )
  counter(
    'holdfast_nats_link_losses_total',
    'How often the connection to NATS was lost.',
    () => bus.figures().linkLosses,
  )
  new Counter({
    name: 'holdfast_nats_requests_total',
    help: 'Requests over NATS, by outcome.',
    labelNames: ['outcome'],
    registers,
    collect() {
      this.reset()
      const { requests } = bus.figures()
      for (const outcome of requestEnds) this.inc({ outcome }, requests[outcome])
    },
  })
}

/** @returns what observes each request. */
export function cassandraMetrics(
  registry: Registry,
): (figures: { region: RegionCode; ms: number; failed: boolean }) => void {
  const seconds = new Histogram({
    name: 'holdfast_cassandra_request_seconds',
    help: 'Time of a request to Cassandra, by the region of the data centre. Outcomes: ok, failed.',
    labelNames: ['region', 'outcome'],
    buckets,
    registers: [registry],
  })
  return ({ region, ms, failed }) => seconds.observe({ region, outcome: failed ? 'failed' : 'ok' }, ms / 1000)
}

/** Read at each scrape. */
export function cassandraNodeMetrics(registry: Registry, metadata: Pick<MetadataConnections, 'nodes'>): void {
  for (const [name, help, figure] of [
    ['holdfast_cassandra_nodes', 'Nodes of Cassandra that are known, by region.', 'known'],
    [
      'holdfast_cassandra_nodes_connected',
      'Nodes of Cassandra that this process has a connection to, by region.',
      'connected',
    ],
  ] as const)
    new Gauge({
      name,
      help,
      labelNames: ['region'],
      registers: [registry],
      collect() {
        for (const { region, ...nodes } of metadata.nodes()) this.set({ region }, nodes[figure])
      },
    })
}
