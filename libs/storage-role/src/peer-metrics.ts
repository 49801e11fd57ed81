/** Requests of other nodes that run here, and those that were refused. */
import { type BlobStoreServer, type RefusalReason, refusalReasons } from '@holdfast/blob-store-grpc'
import { Counter, Gauge, type Registry } from 'prom-client'

export function peerMetrics(registry: Registry, server: Pick<BlobStoreServer, 'figures'>): void {
  const registers = [registry]
  new Gauge({
    name: 'holdfast_peer_connections',
    help: 'Connections of other nodes, by listener.',
    labelNames: ['listener'],
    registers,
    collect() {
      const { control, bytes } = server.figures().connections
      this.set({ listener: 'control' }, control)
      this.set({ listener: 'bytes' }, bytes)
    },
  })
  new Gauge({
    name: 'holdfast_peer_calls',
    help: 'Running calls of other nodes.',
    registers,
    collect() {
      this.set(server.figures().calls)
    },
  })
  new Gauge({
    name: 'holdfast_peer_held_bytes',
    help: 'Memory for bytes in transfer from and to other nodes.',
    registers,
    collect() {
      this.set(server.figures().bytes)
    },
  })
  const reported: Partial<Record<RefusalReason, number>> = {}
  new Counter({
    name: 'holdfast_peer_refusals_total',
    help: 'Connections, calls and streams of other nodes that were refused, by reason.',
    labelNames: ['reason'],
    registers,
    collect() {
      const { refused } = server.figures()
      for (const reason of refusalReasons) {
        this.inc({ reason }, refused[reason] - (reported[reason] ?? 0))
        reported[reason] = refused[reason]
      }
    },
  })
}
