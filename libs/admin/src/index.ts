export type { NewAccountDeps } from './accounts/new-account.ts'
export type {
  BackupRequest,
  ClusterBackupOperations,
  ExportRequest,
  ImportRequest,
  RestoreRequest,
} from './backup-jobs.ts'
export { accountNamed, askAsOperator, type OperatorDeps } from './calls.ts'
export { type Check, type Phase, Readiness, type VitalPart } from './health/readiness.ts'
export { type AdminDeps, createAdminHost } from './host.ts'
export { type AccountFigures, accountMetrics } from './metrics/account-metrics.ts'
export { backupMetrics } from './metrics/backup-metrics.ts'
export { collectorMetrics } from './metrics/collector-metrics.ts'
export { clockGuardMetric, clockMetric, processMetrics } from './metrics/metrics.ts'
export { moderationMetrics, reportMetrics, transferMetrics } from './metrics/moderation-metrics.ts'
export { readMetrics } from './metrics/read-metrics.ts'
export { type Rounds, reconcileMetrics } from './metrics/reconcile-metrics.ts'
export { type ScrubDeps, scrubMetrics, scrubStatus } from './metrics/scrub-metrics.ts'
export { openShownCertificates, shownCertificateMetrics } from './metrics/shown-certificates.ts'
export { diskMetrics, metadataMetrics, storeMetrics, storeStatus } from './metrics/store-metrics.ts'
export { openRecords } from './moderation/records.ts'
export type { OperationDeps } from './operations.ts'
