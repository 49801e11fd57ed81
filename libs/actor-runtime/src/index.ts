export type { QuarantinedAccount } from './account/fault-backoff.ts'
export {
  type LocalHost,
  RoutedAccountClient,
  type RoutedAccountClientOptions,
} from './client/account-client.ts'
export { BlockedAccounts } from './client/blocked-accounts.ts'
export type { AccountClient, AccountVersions } from './client/contract.ts'
export { AccountsUnavailable } from './client/errors.ts'
export { ShareCodeRoutes } from './client/share-code-routes.ts'
export { lagSubjectOf, quarantineSubjectOf, replicaSubjectOf } from './client/subjects.ts'
export { AccountHost, type AccountHostOptions } from './host/account-host.ts'
export { replicaOperations } from './host/account-replicas.ts'
export { accountContentsMax, defaultLimits, type RuntimeLimits } from './limits.ts'
export { routeKey } from './lookups/lookup-rows.ts'
export { type HostMetrics, noMetrics, type RuntimeLog, silentLog } from './observer.ts'
export type { Lag } from './queues/arrivals.ts'
export { FairSlots, type Lane } from './queues/fair-slots.ts'
export { checkByScrypt, type PasswordCheck } from './queues/password-checks.ts'
export { type Randomness, systemRandomness } from './randomness.ts'
export {
  notesOf,
  Reconciler,
  type ReconcilerOptions,
  type Round,
  type RoundFigures,
  type RoundNotes,
  type RoundState,
  roundInWords,
} from './repair/reconciler.ts'
export type { RepairReport } from './repair/repair.ts'
export { repairAccount } from './repair/repair-client.ts'
export type { ReleasedBlob, SignInMailer } from './services.ts'
export { type LoopTimers, systemLoop } from './timers.ts'
