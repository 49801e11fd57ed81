/** The plan of infra/CAPACITY.md, and what changes when one of its numbers does. */
import type { Year } from './year.ts'

/**
 * Rates, per year. A disk: 1.57 %, Backblaze Drive Stats for 2024, 300,633 disks. A host with all
 * its disks: 0.4 %, the RAID controllers (5 % of the faults) of the 8 % of servers that have one a
 * year, Vishwanath and Nagappan, "Characterizing Cloud Computing Hardware Reliability", SoCC 2010.
 * A region: 0.3 %, an assumption; no published rate was found. One fire is known well (OVHcloud
 * Strasbourg, March 2021), in about thirty data centres of that operator in ten years.
 *
 * That a copy is made at 100 MB/s is an assumption. Measured were 11 to 13 MB/s, on two cores that
 * users and the whole cluster shared (bench/NOTES-regions.md); a case has that rate.
 */
export const plan: Year = {
  regions: ['eu-par', 'na-nyc', 'ap-sgp'],
  hostsPerRegion: 51,
  disksPerHost: 12,
  nodeBytes: 14e12,
  reserve: 0.05,
  storedBytes: 12e15,
  losses: { disk: 0.0157, host: 0.004, region: 0.003 },
  silentSeconds: 900,
  replaceDays: 3,
  repairBytesPerSecond: 100e6,
}

const rates = plan.losses

export const cases: readonly { name: string; year: Year }[] = [
  { name: 'the plan', year: plan },
  { name: 'two thirds of the hosts (34)', year: { ...plan, hostsPerRegion: 34 } },
  { name: 'half of the hosts (25)', year: { ...plan, hostsPerRegion: 25 } },
  { name: 'repair at 12.5 MB/s (measured)', year: { ...plan, repairBytesPerSecond: 12.5e6 } },
  { name: 'disks lost ten times as often', year: { ...plan, losses: { ...rates, disk: 0.157 } } },
  { name: 'a region is lost in a year of three', year: { ...plan, losses: { ...rates, region: 1 / 9 } } },
]
