/** For tests of what uses a host of accounts. */
import { silentLog, systemClock, systemTimers } from '@holdfast/kernel'
import type { AccountHostOptions } from './host/account-host.ts'
import type { ReconcilerOptions } from './repair/reconciler.ts'

type RequiredOption = 'hostId' | 'bus' | 'journal' | 'lookups' | 'states' | 'mailer' | 'sweepMs'

/** Default parts of a host in tests. */
export const plainHost: Omit<AccountHostOptions, RequiredOption> = {
  journalRepair: undefined,
  journalBackup: undefined,
  onBlobReleased: undefined,
  tracer: undefined,
  hostOf: undefined,
  predecessorOf: undefined,
  replicaOf: undefined,
  homes: undefined,
  isClockOff: undefined,
  bounds: undefined,
  clock: undefined,
  timers: undefined,
  randomness: undefined,
  log: undefined,
  metrics: undefined,
  passwordWork: undefined,
  checkPassword: undefined,
}

type OfStores = 'accounts' | 'listAccounts' | 'listReferences' | 'notes'

/** Default parts of what compares references with accounts: one process that has all of them. */
export const plainReconciler: Omit<ReconcilerOptions, OfStores> = {
  isOurs: () => true,
  scope: () => '',
  losses: () => 0,
  leads: () => true,
  perSecond: 1_000_000,
  everyMs: 3_600_000,
  wantedMs: 1_000,
  clock: systemClock,
  timers: systemTimers,
  log: silentLog,
}
