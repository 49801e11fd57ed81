/** Upkeep of a store in tests: default parts of a collector and a scrubber. */
import type { CollectorOptions } from './collector.ts'
import type { ScrubberOptions } from './scrubber.ts'

const silent = { info() {}, warn() {}, error() {} }

export const plainCollector: Omit<CollectorOptions, 'blobs' | 'referenced' | 'clock'> = {
  distrust: () => undefined,
  accounts: undefined,
  graceMs: 0,
  everyMs: 3_600_000,
  everything: false,
  notes: undefined,
  log: silent,
}

/** Its rate is no limit. */
export const plainScrubber: Omit<ScrubberOptions, 'store' | 'clock'> = {
  repair: undefined,
  pause: undefined,
  bytesPerSecond: 1e12,
  restMs: 24 * 3_600_000,
  log: silent,
}
