/** Where processes of a cluster listen. Their hosts of accounts have more: `@holdfast/accounts`. */
import type { RegionCode } from '@holdfast/kernel'

/** Where a process is asked for a page of the accounts that it lists. */
export function accountListSubjectOf(host: string): string {
  return `accounts.list.${host}`
}

/** Where a host is asked for a round of the reconciler. */
export function reconcileSubjectOf(host: string): string {
  return `reconcile.${host}`
}

/** Where a node is asked to collect. */
export function collectSubjectOf(node: string): string {
  return `collect.${node}`
}

/** Where a node is asked why it does not collect. */
export function collectPausedSubjectOf(node: string): string {
  return `collect-paused.${node}`
}

/** Where a node is asked to delete nothing for a while. */
export function collectHoldSubjectOf(node: string): string {
  return `collect-hold.${node}`
}

/** Where a node is asked about its groups. */
export function groupsSubjectOf(node: string): string {
  return `groups.${node}`
}

/** Where a region is asked to take over accounts, a portion at a time. */
export function takeoverSubjectOf(region: RegionCode): string {
  return `takeover.${region}`
}

/** Heard by all. What changed is in rows, except counts, bans and homes. */
export const heardByAll = {
  bans: 'bans',
  blockLists: 'moderation.changed',
  counts: 'counts',
  groups: 'groups.changed',
  homes: 'regions.changed',
  nodeStates: 'nodes.changed',
  reconcileWanted: 'reconcile.wanted',
} as const
