/** What scans of new content find and cost, for operators. */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import { type ContentScans, scanOutcomes } from './content-scans.ts'

export function scanMetrics(registry: Registry, scans: Pick<ContentScans, 'figures' | 'onScanned'>): void {
  const registers = [registry]
  new Counter({
    name: 'holdfast_scans_total',
    help: 'New content by the outcome of its scan: clean, found, failed; known: the verdict was cached; larger and lifted: not scanned.',
    labelNames: ['outcome'],
    registers,
    collect() {
      this.reset()
      for (const outcome of scanOutcomes) this.inc({ outcome }, scans.figures.outcomes[outcome])
    },
  })
  new Gauge({
    name: 'holdfast_scans_in_flight',
    help: 'Running and waiting scans.',
    registers,
    collect() {
      this.set(scans.figures.underWay)
    },
  })
  new Gauge({
    name: 'holdfast_scanner_failing',
    help: '1 while the scanner gives no verdict. It is tried every 30 s then, also without uploads.',
    registers,
    collect() {
      this.set(scans.figures.failing === undefined ? 0 : 1)
    },
  })
  const seconds = new Histogram({
    name: 'holdfast_scan_seconds',
    help: 'Time to the verdict, with the wait for its turn.',
    buckets: [0.005, 0.02, 0.1, 0.5, 2, 10, 60],
    registers,
  })
  scans.onScanned = (duration) => seconds.observe(duration)
}
