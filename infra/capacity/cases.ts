/** The plan of infra/CAPACITY.md, and what changes when one of its numbers does. */
import type { Year } from './year.ts'

/**
 * Rates: disks as their yearly failure statistics say (1.4 %); a host with all its disks and a
 * region are rarer and guessed high.
 */
export const plan: Year = {
  regions: ['eu-par', 'na-nyc', 'ap-sgp'],
  hostsPerRegion: 24,
  disksPerHost: 12,
  nodeBytes: 14e12,
  losses: { disk: 0.014, host: 0.005, region: 0 },
  silentSeconds: 900,
  replaceDays: 3,
  repairBytesPerSecond: 100e6,
  order: 'disk first',
}

export const cases: readonly { name: string; year: Year }[] = [
  { name: 'the plan', year: plan },
  { name: 'pairs named host first', year: { ...plan, order: 'host first' } },
  { name: 'repair at 25 MB/s', year: { ...plan, repairBytesPerSecond: 25e6 } },
  { name: 'disks lost ten times as often', year: { ...plan, losses: { ...plan.losses, disk: 0.14 } } },
  {
    name: 'a region is lost in a year of three',
    year: { ...plan, losses: { ...plan.losses, region: 1 / 9 } },
  },
]
