import type { NodeFigures } from '@holdfast/blob-store-grpc'
import { Registry } from 'prom-client'
import t from 'tap'
import { peerMetrics } from '../src/peer-metrics.ts'

t.test('refusals to other nodes are counted by reason, also over several scrapes', async (t) => {
  const refused = { connections: 0, strangers: 0, unproven: 2, calls: 3, ahead: 0, bytes: 0 }
  const figures: NodeFigures = { connections: { control: 4, bytes: 5 }, calls: 6, bytes: 7, refused }
  const registry = new Registry()
  peerMetrics(registry, { figures: () => figures })
  await registry.metrics()
  refused.calls = 10
  const text = await registry.metrics()
  for (const line of [
    'holdfast_peer_refusals_total{reason="calls"} 10',
    'holdfast_peer_refusals_total{reason="unproven"} 2',
    'holdfast_peer_refusals_total{reason="bytes"} 0',
    'holdfast_peer_connections{listener="control"} 4',
    'holdfast_peer_connections{listener="bytes"} 5',
    'holdfast_peer_calls 6',
    'holdfast_peer_held_bytes 7',
  ])
    t.ok(text.includes(`${line}\n`), line)
})
