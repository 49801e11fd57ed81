import type { Collector } from '@holdfast/blob-store'
import type { Clock } from '@holdfast/kernel'
import type { Registry } from 'prom-client'
import { readMetrics } from './read-metrics.ts'

/** Freed copies, and the time without a complete pass, read at each scrape. */
export function collectorMetrics(
  registry: Registry,
  { collector, clock }: { collector: Pick<Collector, 'paused' | 'figures'>; clock: Clock },
): void {
  const { gauge, counter } = readMetrics(registry)
  gauge(
    'holdfast_collect_paused_seconds',
    'Time since a garbage collection completed, also over restarts; 0 when the last one did. Status has the reason.',
    () => (collector.paused === undefined ? 0 : Math.max(0, clock.now() - collector.paused.sinceMs) / 1000),
  )
  gauge(
    'holdfast_collect_last_success_timestamp_seconds',
    'When a garbage collection completed last, Unix seconds; 0: none since the start of the process.',
    () => (collector.figures.lastPassMs ?? 0) / 1000,
  )
  gauge(
    'holdfast_collect_waiting_blobs',
    'Copies without a reference that are not deleted yet: their grace is not over, or they are pinned.',
    () => collector.figures.waiting,
  )
  counter(
    'holdfast_collect_freed_blobs_total',
    'Copies without a reference that were deleted.',
    () => collector.figures.deleted,
  )
  counter(
    'holdfast_collect_freed_bytes_total',
    'Bytes of copies without a reference that were deleted.',
    () => collector.figures.freedBytes,
  )
}
