/** For tests of what uses a host of accounts. */
import type { AccountHostOptions } from './host/account-host.ts'

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
  checkPassword: undefined,
}
