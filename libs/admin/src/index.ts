export { type AccountFigures, accountMetrics } from './account-metrics.ts'
export type {
  BackupRequest,
  ClusterBackupOperations,
  ExportRequest,
  ImportRequest,
  RestoreRequest,
} from './backup-jobs.ts'
export { backupMetrics } from './backup-metrics.ts'
export { accountNamed, askAsOperator, type OperatorDeps } from './calls.ts'
export { collectorMetrics } from './collector-metrics.ts'
export { type AdminDeps, createAdminHost } from './host.ts'
export { clockGuardMetric, clockMetric, processMetrics } from './metrics.ts'
export { moderationMetrics, reportMetrics, transferMetrics } from './moderation-metrics.ts'
export type { NewAccountDeps } from './new-account.ts'
export type { OperationDeps } from './operations.ts'
export { readMetrics } from './read-metrics.ts'
export { type Check, type Phase, Readiness, type VitalPart } from './readiness.ts'
export { type Rounds, reconcileMetrics } from './reconcile-metrics.ts'
export { type ScrubDeps, scrubMetrics, scrubStatus } from './scrub-metrics.ts'
export { diskMetrics, metadataMetrics, storeMetrics, storeStatus } from './store-metrics.ts'
