export type { QuarantinedAccount } from './account/requests/fault-backoff.ts'
export { accountContentsMax, type RuntimeBounds } from './bounds.ts'
export { AccountHost, type AccountHostOptions } from './host/account-host.ts'
export { replicaOperations } from './host/account-replicas.ts'
export { StoredAccounts } from './host/stored-accounts.ts'
export { appendOutcomes, type HostMetrics, mailOutcomes, type RuntimeLog } from './observer.ts'
export type { Lag } from './queues/arrivals.ts'
export { FairSemaphore, type Lane } from './queues/fair-semaphore.ts'
export type { PasswordCheck } from './queues/password-checks.ts'
export { PasswordWork } from './queues/password-work.ts'
export {
  notesOf,
  Reconciler,
  type ReconcilerOptions,
  type Round,
  type RoundFigures,
  type RoundNotes,
  type RoundState,
  reconcileAnsweredMs,
  roundInWords,
} from './repair/reconciler.ts'
export type { RepairReport } from './repair/repair.ts'
export { repairAccount } from './repair/repair-client.ts'
export type { ReleasedBlob, SignInMailer } from './services.ts'
export type { LoopTimers } from './timers.ts'
