export { BackupDirectory } from './backup-directory.ts'
export { checkBytes, forEachOf } from './copies.ts'
export { BackupFault } from './errors.ts'
export { LastBackup, lastBackupKey } from './last-backup.ts'
export { type LongRun, LongRuns, outsideOf } from './long-runs.ts'
export { type PruneResult, pruneBackup } from './prune-backup.ts'
export { type RestoreTarget, restoreBackup, restoreCopies, restoreOne } from './restore-backup.ts'
export { readSegments, type SegmentRow } from './segments.ts'
export type { Snapshot } from './snapshot.ts'
export { type BackupProgress, type TakenBackup, takeBackup } from './take-backup.ts'
export {
  askUses,
  type BrokenCopy,
  type NamedResult,
  type Reference,
  type VerifyResult,
  verifyBackup,
  verifyLive,
} from './verify-backup.ts'
