/** Keys of the cluster's own rows in the lookups. */
import type { RegionCode } from '@holdfast/kernel'

/** Ten digits: rows are in the order of their numbers. */
function padNumber(number: number): string {
  return String(number).padStart(10, '0')
}

/** Placement groups of a region. */
export function groupsPrefix(region: RegionCode): string {
  return `pg/${region}/`
}

/** One version of a placement group → `PlacementGroupRow`. */
export function groupKey(
  region: RegionCode,
  { number, version }: { number: number; version: number },
): string {
  return `${groupsPrefix(region)}${padNumber(number)}/${padNumber(version)}`
}

/** The regions with which the installation was made, with commas. */
export const foundersKey = 'setting/regions'

/** The region that was added after this one. */
export function regionAfterKey(region: RegionCode): string {
  return `setting/regions-after/${region}`
}

/** An added region has all rows of the others. */
export function regionJoinedKey(region: RegionCode): string {
  return `setting/regions-joined/${region}`
}

/** The format of an installation's rows, behind it by number → the release that raised it. */
export const clusterFormatPrefix = 'setting/format/'

/** Homes of a birth region. */
export function homesPrefix(birth: RegionCode): string {
  return `region/${birth}/`
}

/** Where accounts of a birth region are since a term → `RegionMapEntry`. */
export function homeKey(birth: RegionCode, { term }: { term: number }): string {
  return `${homesPrefix(birth)}${padNumber(term)}`
}

/** The same, once everything was handed over. */
export function handedOverKey(birth: RegionCode, { term }: { term: number }): string {
  return `${homeKey(birth, { term })}/done`
}

/** The progress of a takeover. */
export function takeoverKey(birth: RegionCode, { term }: { term: number }): string {
  return `takeover/${birth}/${term}`
}

/** The state of a region's rounds of the reconciler. */
export function roundsKey(region: RegionCode): string {
  return `reconcile/${region}`
}

/** The counter of placement groups. */
export const groupNumbersCounter = 'pg-numbers'

/** Decisions about storage nodes, by name. */
export const nodeStatesPrefix = 'nodes/all/'

/** Which backup is being restored into this cluster → its `takenMs`. */
export const restoringKey = 'restoring/backup'
