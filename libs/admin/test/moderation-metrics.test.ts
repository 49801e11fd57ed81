/** The figures of moderation reach Prometheus under their labels. */
import { Registry } from 'prom-client'
import t from 'tap'
import { moderationMetrics, reportMetrics, transferMetrics } from '../src/index.ts'

t.test('each figure is shown with its label, and read again at each scrape', async (t) => {
  const registry = new Registry()
  const reports = { counts: { added: 3, repeated: 2, full: 1 } }
  reportMetrics(registry, reports)
  transferMetrics(registry, {
    counts: (kind) => (kind === 'upload' ? { written: 5, lost: 4 } : { written: 7, lost: 6 }),
  })
  moderationMetrics(registry, { count: (list) => list.length })
  const shown = await registry.metrics()
  for (const line of [
    'holdfast_reports_total{outcome="added"} 3',
    'holdfast_reports_total{outcome="repeated"} 2',
    'holdfast_reports_total{outcome="full"} 1',
    'holdfast_transfers_recorded_total{kind="upload"} 5',
    'holdfast_transfers_unrecorded_total{kind="download"} 6',
    'holdfast_blocked_names{list="network"} 7',
  ])
    t.ok(shown.split('\n').includes(line), line)
  reports.counts.full = 9
  t.match(await registry.metrics(), 'holdfast_reports_total{outcome="full"} 9')
})
