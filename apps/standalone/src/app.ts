/**
 * The whole service in one process: every long-lived part is made here and connected to the others,
 * with the embedded adapters behind the four ports. All state is in the result of
 * `startStandalone`, so several can run in one process on different directories.
 *
 * Order of the start: metadata store (its lock is the data directory's) → keys → bytes → accounts →
 * HTTP hosts → collector. The end is the reverse: unready, stop accepting, let running requests
 * end, passivate the accounts, close the stores.
 */

import { BlockedAccounts } from '@holdfast/accounts'
import { roundInWords } from '@holdfast/actor-runtime'
import {
  accountMetrics,
  backupMetrics,
  clockGuardMetric,
  collectorMetrics,
  createAdminHost,
  diskMetrics,
  metadataMetrics,
  moderationMetrics,
  processMetrics,
  Readiness,
  reconcileMetrics,
  scrubMetrics,
  scrubStatus,
  storeMetrics,
  storeStatus,
  transferMetrics,
} from '@holdfast/admin'
import { Scrubber } from '@holdfast/blob-store'
import {
  commit,
  descriptorLimit,
  divideDescriptors,
  listen,
  openKeyring,
  openMailer,
  signDataFormat,
  version,
} from '@holdfast/bootstrap'
import type { Config, Secrets, SettingDescription } from '@holdfast/config'
import { AnswerBudget, createRateLimits, drainOnClose, SmallPiecesLane } from '@holdfast/http-kit'
import { systemClock } from '@holdfast/kernel'
import { BlockLists, Reports, TransferLog } from '@holdfast/moderation'
import { openStore } from '@holdfast/storage-role/store'
import { openScans } from '@holdfast/upload'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import { startAccounts } from './accounts.ts'
import { type Addresses, listeningOf } from './addresses.ts'
import { WholeReads } from './backing-up.ts'
import { ClockGuard } from './clock-guard.ts'
import { collectNow, createCollector, createReconciler, reconcileNow } from './collecting.ts'
import { openMetadata, prepareDataDir } from './data-dir.ts'
import { createPublicHosts, tokenKeyId } from './hosts.ts'

export interface StandaloneOptions {
  config: Config
  secrets: Secrets
  log: Logger
  /** The settings as shown to the operator. */
  settings?: readonly SettingDescription[]
}

export interface Standalone {
  readonly addresses: Addresses
  /** What `/metrics` shows. */
  readonly metrics: Registry
  /**
   * Drains and closes everything; takes at most about the drain time of the configuration. A second
   * call shares the first.
   */
  close(): Promise<void>
}

/**
 * Starts the service; when it resolves every host accepts requests.
 * @throws StartFault when a port, the directory or the lock is not available; everything opened is
 *   closed again.
 */
export async function startStandalone({
  config,
  secrets,
  log,
  settings = [],
}: StandaloneOptions): Promise<Standalone> {
  await using opened = new AsyncDisposableStack()
  const clock = systemClock
  const startedMs = clock.now()

  const descriptors = divideDescriptors(descriptorLimit(), {
    publicHosts: 3,
    stores: true,
    cluster: false,
    connectionsMax: config.connections.max,
    connectionsPerNetworkMax: config.connections.perNetworkMax,
    networksUnlimited: config.rateLimits === 'off',
  })
  if (descriptors.warning !== undefined) log.warn(descriptors.warning)
  const dir = await prepareDataDir(config.dataDir, { requireStore: config.requireStore, log })
  const metadata = await openMetadata(dir, log)
  opened.defer(() => metadata.close())
  const { lookups, journals } = metadata
  const clockGuard = await ClockGuard.open({ lookups, aheadMaxMs: config.clockJumpMs, clock, log })
  opened.defer(() => clockGuard.close())
  const keyring = await openKeyring(lookups)

  const metrics = processMetrics({ version, commit, role: 'standalone', region: config.region })
  const blobs = await openStore({
    path: dir.blobs,
    config: config.store,
    openExtentsMax: descriptors.openExtentsMax,
    pinnedAtFirstMs: 0,
    clock,
    log,
  })
  opened.defer(() => blobs.close())
  // without room for a small file the service still serves what it has
  await signDataFormat(config.dataDir).catch((err) => log.warn({ err }, 'the release could not be noted'))
  clockGuardMetric(metrics, () => clockGuard.offsetMs)
  storeMetrics(metrics, blobs)
  diskMetrics(metrics, blobs)
  metadataMetrics(metrics, {
    isWritable: () => metadata.failure === undefined,
    lostBatches: () => metadata.lostBatches,
  })
  const rounds = () => reconciler
  const collector = createCollector({ config: config.collect, blobs, metadata, rounds, clock, log })
  opened.defer(() => collector.close())
  collectorMetrics(metrics, { collector, clock })
  const wholeReads = new WholeReads({
    dataDir: config.dataDir,
    metadata,
    blobs,
    collector,
    accounts: () => operator(),
    isBlocked: (blobId) => blocked.blocksBlob(blobId),
    scans: () => scans,
    clock,
    log: log.child({ part: 'backup' }),
  })
  opened.defer(() => wholeReads.close())
  backupMetrics(metrics, () => wholeReads.lastBackupMs)
  const scrubber = new Scrubber({
    store: blobs,
    ...config.scrub,
    clock,
    log: log.child({ part: 'scrubber' }),
  })
  opened.defer(() => scrubber.close())
  scrubMetrics(metrics, { scrubber, store: blobs })

  const { urls, ports, host, adminHost } = await listeningOf(config)
  const mailer = await openMailer({ config, secrets, folder: dir.outbox, clock })
  opened.defer(() => mailer.close())
  const { observer, figures } = accountMetrics(metrics)
  const accounts = startAccounts({
    config,
    journals,
    lookups,
    keyring,
    mailer,
    webUrl: urls.web,
    clock,
    log,
    metrics: observer,
    isClockOff: () => clockGuard.isOff(),
    unwritable: () => metadata.failure,
    onBlobReleased: ({ blob }) => collector.released(blob),
  })
  opened.defer(() => accounts.close())
  const reconciler = createReconciler({
    config: config.reconcile,
    accounts: accounts.client,
    metadata,
    clock,
    log,
  })
  opened.defer(() => reconciler.close())
  reconcileMetrics(metrics, { rounds: () => reconciler.rounds, clock })

  const blocked = await BlockLists.open({ lookups, clock })
  moderationMetrics(metrics, blocked)
  const scans = openScans({ config: config.scanning, lists: blocked, clock, log, metrics })
  opened.defer(() => scans.close())
  const reports = new Reports({ lookups, clock, acts: blocked.acts })
  const transfers = new TransferLog({
    lookups,
    clock,
    ...config.transferLog,
    isClockOff: () => clockGuard.isOff(),
    onFault: (error) => log.warn({ err: error }, 'the record of transfers is behind'),
  })
  opened.defer(() => transfers.close())
  transferMetrics(metrics, transfers)

  const operator = () => ({
    accounts: accounts.client,
    lookups,
    ids: keyring.ids,
    clock,
    keyring,
    region: config.region,
    tokenKeyId,
    repair: accounts.repair,
  })
  const limits = createRateLimits({ mode: config.rateLimits, clock })
  opened.defer(() => limits.close())
  const readiness = new Readiness(
    {
      metadata: async () => {
        if (metadata.failure !== undefined) throw metadata.failure
      },
      store: async () => {
        if (!(await blobs.usage()).writable) throw new Error('not writable: the disk is full or failed')
      },
    },
    { vital: { metadata: () => metadata.failing, store: () => blobs.failing }, clock },
  )
  const status = async () => ({
    version,
    commit,
    role: 'standalone',
    region: config.region,
    server: config.serverName,
    startTime: Math.floor(startedMs / 1000),
    uptimeSeconds: Math.floor((clock.now() - startedMs) / 1000),
    ...(await readiness.report()),
    addresses: urls,
    dataDir: config.dataDir,
    accounts: { ...figures(), active: accounts.active(), quarantined: accounts.quarantined() },
    store: await storeStatus(blobs),
    collecting: collector.paused ?? 'goes on',
    reconciling: {
      running: reconciler.rounds.running && roundInWords(reconciler.rounds.running),
      last: reconciler.rounds.last && roundInWords(reconciler.rounds.last),
    },
    clock: clockGuard.status(),
    backup: { run: wholeReads.run ?? null, lastMs: wholeReads.lastBackupMs ?? null },
    scrubbing: scrubStatus({ scrubber, store: blobs }),
    scanning: scans.figures,
    lostBatches: metadata.lostBatches,
  })
  const admin = createAdminHost({
    log,
    metrics,
    limits,
    readiness,
    adminToken: secrets.adminToken,
    uidOf: undefined,
    connections: descriptors.adminConnections,
    operations: {
      status,
      collect: (options) => collectNow({ collector, blobs }, options),
      reconcile: (options) => reconcileNow(reconciler, options),
      wholeReads,
      acceptClock: () => clockGuard.accept(),
      cluster: undefined,
      settings: () => [...settings],
      bans: () => limits.bans(),
      liftBan: (network) => limits.liftBan(network),
    },
    moderation: { lists: blocked, transfers, reports },
    accounts: operator(),
  })
  drainOnClose(admin, { drainMs: adminDrainMs })
  opened.defer(() => admin.close())
  await listen(admin, { name: 'admin', host: adminHost, port: ports.admin })

  const hosts = createPublicHosts({
    config,
    urls,
    accounts: new BlockedAccounts(accounts.client, (account) => blocked.blocksAccount(account)),
    versions: accounts.versions,
    blobs,
    blocked,
    scans,
    transfers,
    reports,
    lookups,
    keyring,
    limits,
    budgets: {
      connections: descriptors.connections,
      answers: new AnswerBudget({ metrics, clock }),
      lane: new SmallPiecesLane(clock),
    },
    clock,
    log,
    metrics,
  })
  opened.defer(async () => {
    await Promise.all(Object.values(hosts).map((app) => app.close()))
  })
  for (const name of ['api', 'upload', 'download'] as const)
    await listen(hosts[name], { name, host, port: ports[name] })
  collector.start()
  reconciler.start()
  scrubber.start()
  transfers.start()
  readiness.phase = 'ready'
  log.info({ version, commit, dataDir: config.dataDir }, 'ready')

  const running = opened.move()
  let closing: Promise<void> | undefined
  return {
    addresses: urls,
    metrics,
    close() {
      readiness.phase = 'draining'
      closing ??= running.disposeAsync()
      return closing
    },
  }
}

/** An operator's call does not wait long. */
const adminDrainMs = 2_000
