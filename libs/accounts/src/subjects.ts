/**
 * Where a host listens. Requests go to hosts, not to accounts: placement is a hint of the sender.
 */
export function subjectOf(hostId: string): string {
  return `accounts.${hostId}`
}

/**
 * Where a host is asked to release an account, by its id as text. The host answers when it has
 * dropped the account from memory, or decided to keep it.
 */
export function releaseSubjectOf(hostId: string): string {
  return `accounts.${hostId}.release`
}

/** Where a host is asked to answer from a copy of a journal that others write. */
export function replicaSubjectOf(hostId: string): string {
  return `accounts.${hostId}.replica`
}

/** Where a host is asked which accounts it has in quarantine: a JSON list. */
export function quarantineSubjectOf(hostId: string): string {
  return `accounts.${hostId}.quarantined`
}

/** Where a host is asked how far the second region is behind: a `Lag` as JSON. */
export function lagSubjectOf(hostId: string): string {
  return `accounts.${hostId}.lag`
}

/** Where a host repairs an account: JSON in, a report or a fault out. */
export function repairSubjectOf(hostId: string): string {
  return `accounts.${hostId}.repair`
}

/** Parts of requests that are larger than a message of the bus. */
export function partSubjectOf(hostId: string): string {
  return `accounts.${hostId}.parts`
}

/**
 * Where a host is asked to activate an account and to remove an active row of it: the row's key as
 * text, answered with `cleared` or nothing.
 */
export function clearSubjectOf(hostId: string): string {
  return `accounts.${hostId}.clear`
}

/** Where a living host answers, with an empty message. */
export function livingSubjectOf(hostId: string): string {
  return `accounts.${hostId}.living`
}
