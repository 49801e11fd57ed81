/** The operator's calls on this process, and its status. */
import { type Reconciler, roundInWords } from '@holdfast/actor-runtime'
import {
  type AccountFigures,
  type OperationDeps,
  type Readiness,
  scrubStatus,
  storeStatus,
} from '@holdfast/admin'
import type { Collector, Scrubber } from '@holdfast/blob-store'
import { commit, version } from '@holdfast/bootstrap'
import type { Config, SettingDescription } from '@holdfast/config'
import type { CountingRateLimits } from '@holdfast/http-kit'
import type { Clock } from '@holdfast/kernel'
import type { ContentScans } from '@holdfast/upload'
import type { Accounts } from './accounts.ts'
import type { Addresses } from './addresses.ts'
import type { BackupJobs } from './backup-jobs.ts'
import { collectNow, reconcileNow } from './collecting.ts'
import type { MetadataScrubber } from './metadata-scrubber.ts'
import type { Stores } from './stores.ts'

export interface ProcessDeps {
  config: Config
  settings: readonly SettingDescription[]
  addresses: Addresses
  startedMs: number
  clock: Clock
  readiness: Readiness
  rateLimits: CountingRateLimits
  stores: Stores
  collector: Collector
  reconciler: Reconciler
  scrubber: Scrubber
  metadataScrubber: MetadataScrubber
  backupJobs: BackupJobs
  scans: ContentScans
  accounts: Accounts
  figures: () => AccountFigures
}

export function createOperations(deps: ProcessDeps): OperationDeps {
  const { settings, rateLimits, stores, collector, reconciler, backupJobs } = deps
  return {
    status: () => statusOf(deps),
    collect: (options) => collectNow({ collector, blobs: stores.blobs }, options),
    reconcile: (options) => reconcileNow(reconciler, options),
    backupJobs,
    acceptClock: () => stores.clockGuard.accept(),
    cluster: undefined,
    settings: () => [...settings],
    bans: () => rateLimits.bans(),
    liftBan: (network) => rateLimits.liftBan(network),
  }
}

async function statusOf({
  config,
  addresses,
  startedMs,
  clock,
  readiness,
  stores: { blobs, clockGuard, metadata, onlyReads },
  collector,
  reconciler,
  scrubber,
  metadataScrubber,
  backupJobs,
  scans,
  accounts,
  figures,
}: ProcessDeps) {
  return {
    version,
    commit,
    role: 'standalone',
    region: config.region,
    server: config.serverName,
    startTime: Math.floor(startedMs / 1000),
    uptimeSeconds: Math.floor((clock.now() - startedMs) / 1000),
    ...(await readiness.report()),
    addresses,
    dataDir: config.dataDir,
    readsOnly: onlyReads ? 'the disk is full' : null,
    accounts: { ...figures(), active: accounts.active(), quarantined: accounts.quarantined() },
    store: await storeStatus(blobs),
    collecting: collector.paused ?? 'goes on',
    reconciling: {
      running: reconciler.rounds.running && roundInWords(reconciler.rounds.running),
      last: reconciler.rounds.last && roundInWords(reconciler.rounds.last),
    },
    clock: clockGuard.status(),
    backup: { run: backupJobs.run ?? null, lastMs: backupJobs.lastBackupMs ?? null },
    scrubbing: scrubStatus({ scrubber, store: blobs }),
    scanning: scans.figures,
    lostBatches: metadata.lostBatches,
    metadataDamage: { ...metadata.damage, lastFullPass: metadataScrubber.lastPass },
  }
}
