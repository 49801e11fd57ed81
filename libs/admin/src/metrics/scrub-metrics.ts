import type { Scrubber } from '@holdfast/blob-store'
import type { Registry } from 'prom-client'
import { readMetrics } from './read-metrics.ts'

export interface ScrubDeps {
  scrubber: Pick<Scrubber, 'figures'>
  store: {
    /** Copies known to be damaged now, and those replaced by a whole one since the start. */
    counters(): { damagedBlobs: number; replacedBlobs: number }
  }
}

/** The scrubber's work and findings, read at each scrape. */
export function scrubMetrics(registry: Registry, { scrubber, store }: ScrubDeps): void {
  const { gauge, counter } = readMetrics(registry)
  gauge(
    'holdfast_scrub_last_pass_timestamp_seconds',
    'When the last pass over all files ended, Unix seconds; 0: none yet.',
    () => Math.floor((scrubber.figures.lastPassMs ?? 0) / 1000),
  )
  gauge(
    'holdfast_scrub_began_timestamp_seconds',
    'When the store was scrubbed first, Unix seconds; 0: never.',
    () => Math.floor((scrubber.figures.beganMs ?? 0) / 1000),
  )
  gauge(
    'holdfast_scrub_stopped',
    '1 after too much damage within an hour: nothing is verified until a restart. In a cluster the node takes no uploads.',
    () => Number(scrubber.figures.suspect !== undefined),
  )
  counter(
    'holdfast_scrub_verified_bytes_total',
    'Bytes that the scrubber read from the disk and compared.',
    () => scrubber.figures.verifiedBytes,
  )
  counter(
    'holdfast_scrub_damaged_total',
    'Copies that the scrubber found damaged.',
    () => scrubber.figures.damaged,
  )
  counter(
    'holdfast_scrub_repaired_total',
    'Damaged copies that the scrubber had replaced.',
    () => scrubber.figures.repaired,
  )
  gauge(
    'holdfast_scrub_unreadable',
    'Copies that could not be read, in the running pass or the last one.',
    () => scrubber.figures.unreadable,
  )
  gauge(
    'holdfast_store_damaged_blobs',
    'Copies that are known to be damaged now and have no whole copy.',
    () => store.counters().damagedBlobs,
  )
  counter(
    'holdfast_store_replaced_blobs_total',
    'Damaged copies that were replaced by a whole one: from an upload of the same content, another copy or another node.',
    () => store.counters().replacedBlobs,
  )
}

/** The scrubber's work and findings for the operator's status. */
export function scrubStatus({ scrubber, store }: ScrubDeps) {
  const { lastPassMs, beganMs: _, progress, suspect, ...totals } = scrubber.figures
  const { damagedBlobs, replacedBlobs } = store.counters()
  return {
    lastFullPass: lastPassMs === undefined ? 'not yet' : Math.floor(lastPassMs / 1000),
    pass: progress === undefined ? 'rests' : `${Math.floor(progress * 100)} %`,
    ...(suspect === undefined ? {} : { stopped: suspect }),
    damagedNow: damagedBlobs,
    replaced: replacedBlobs,
    sinceStart: totals,
  }
}
