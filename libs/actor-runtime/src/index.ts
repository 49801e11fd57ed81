export { type LocalHost, RoutedAccountClient, type RoutedAccountClientOptions } from './account-client.ts'
export { AccountHost, type AccountHostOptions } from './account-host.ts'
export { replicaOperations } from './account-replicas.ts'
export type { QuarantinedAccount } from './ailments.ts'
export type { Lag } from './arrivals.ts'
export type { AccountClient, AccountMoments } from './contract.ts'
export { AccountsUnavailable } from './errors.ts'
export { FairSlots, type Lane } from './fair-slots.ts'
export { accountContentsMax, defaultLimits, type RuntimeLimits } from './limits.ts'
export { routeKey } from './lookup-rows.ts'
export { type HostMetrics, noMetrics, type RuntimeLog, silentLog } from './observer.ts'
export { checkByScrypt, type PasswordCheck } from './password-checks.ts'
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
} from './reconciler.ts'
export type { RepairReport } from './repair.ts'
export { repairAccount } from './repair-client.ts'
export type { ReleasedBlob, SignInMailer } from './services.ts'
export { ShareCodeRoutes } from './share-code-routes.ts'
export { lagSubjectOf, quarantineSubjectOf, replicaSubjectOf } from './subjects.ts'
export { systemTimers, type Timers } from './timers.ts'
