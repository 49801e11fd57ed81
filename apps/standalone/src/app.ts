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
import {
  type AdminDeps,
  accountMetrics,
  backupMetrics,
  collectorMetrics,
  createAdminHost,
  openRecords,
  openShownCertificates,
  processMetrics,
  Readiness,
  reconcileMetrics,
  scrubMetrics,
} from '@holdfast/admin'
import { Scrubber } from '@holdfast/blob-store'
import { commit, descriptorLimit, divideDescriptors, listen, openMailer, version } from '@holdfast/bootstrap'
import type { Config, Secrets, SettingDescription } from '@holdfast/config'
import { AnswerBudget, createRateLimits, drainOnClose, SmallPiecesLane } from '@holdfast/http-kit'
import { backgroundTimers, type Clock, systemClock, type Tracer, tokenKeyId } from '@holdfast/kernel'
import { BlockLists } from '@holdfast/moderation'
import { openTracing, tracedBlobs, tracedJournals, tracedLookups } from '@holdfast/tracing'
import { openScans } from '@holdfast/upload'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import { type Accounts, type AccountsDeps, startAccounts } from './accounts.ts'
import { type Addresses, type ListenAddresses, listeningOf } from './addresses.ts'
import { BackupJobs, type BackupJobsDeps } from './backup-jobs.ts'
import { type CollectingDeps, createCollector, createReconciler, walksOf } from './collecting.ts'
import { isFullDisk, untilRoom } from './full-disk.ts'
import { createPublicHosts } from './hosts.ts'
import { MetadataScrubber } from './metadata-scrubber.ts'
import { createOperations, type ProcessDeps } from './operations.ts'
import { openStores, type Stores, type StoresOptions } from './stores.ts'

export interface StandaloneOptions {
  config: Config
  secrets: Secrets
  log: Logger
  /** The settings as shown to the operator. */
  settings?: readonly SettingDescription[]
  /** For a service that only reads: the wait before it first looks for room, ms. Default 0. */
  restMs?: number
}

export interface Standalone {
  readonly addresses: Addresses
  /** What `/metrics` shows. */
  readonly metrics: Registry
  /**
   * Defined when the service only reads. Resolves with true when there is room for an ordinary
   * start, with false when the service is closed before that. Undefined after an ordinary start.
   */
  readonly room: Promise<boolean> | undefined
  /** Why only a restart of the process helps. */
  readonly endReason: string | undefined
  /**
   * Drains and closes everything; takes at most about the drain time of the configuration. A second
   * call shares the first.
   */
  close(): Promise<void>
}

/**
 * Starts the service; when it resolves every host accepts requests. On a disk without any room it
 * only reads.
 * @throws StartFault when a port, the directory or the lock is not available; everything opened is
 *   closed again.
 */
export async function startStandalone(options: StandaloneOptions): Promise<Standalone> {
  const { log } = options
  try {
    return await startWith(options, { onlyReads: false })
  } catch (error) {
    if (!isFullDisk(error)) throw error
    log.error({ err: error }, 'the disk is full: the service starts and only reads until there is room')
    return await startWith(options, { onlyReads: true })
  }
}

/** What every part of the process is made with. */
type PartOptions = Omit<StoresOptions, 'descriptors' | 'onlyReads'> & {
  stores: Stores
  tracer: Tracer | undefined
}

async function startWith(
  { config, secrets, log, settings = [], restMs = 0 }: StandaloneOptions,
  { onlyReads }: { onlyReads: boolean },
): Promise<Standalone> {
  await using opened = new AsyncDisposableStack()
  const clock = systemClock
  const startedMs = clock.now()

  const descriptors = descriptorsOf(config, log)
  const tracer = await tracerOf(config, { opened, log })
  const metrics = processMetrics({ version, commit, role: 'standalone', region: config.region })
  const stores = await openStores({ config, descriptors, opened, metrics, onlyReads, clock, log })
  const { metadata, keyring, blobs } = stores
  const lookups = tracedLookups(metadata.lookups, tracer, 'leveldb')
  const parts = { config, stores, opened, metrics, tracer, clock, log }
  const upkeep = openUpkeep({
    ...parts,
    rounds: () => reconciler,
    accounts: () => operator(),
    isBlocked: (blobId) => blocked.blocksBlob(blobId),
    scans: () => scans,
  })
  const { collector, scrubber, metadataScrubber } = upkeep

  const { urls, ports, host, adminHost } = await listeningOf(config)
  const { accounts, reconciler, figures } = await openAccounts({
    ...parts,
    secrets,
    webUrl: urls.web,
    onBlobReleased: ({ blob }) => collector.released({ ...blob, placementGroup: undefined }),
  })
  const { blocked, scans, reports, transfers } = await openModeration(parts)

  const operator = () => operatorOf(parts, accounts)
  const rateLimits = createRateLimits({ mode: config.rateLimits, clock })
  opened.defer(() => rateLimits.close())
  const readiness = readinessOf(stores, clock)
  await openAdmin(
    {
      ...{ ...parts, ...upkeep, secrets, settings, addresses: urls, startedMs, readiness, rateLimits },
      ...{ reconciler, scans, accounts, figures, operator: operator() },
      moderation: { lists: blocked, transfers, reports },
      connections: descriptors.adminConnections,
    },
    { host: adminHost, port: ports.admin },
  )

  const hosts = createPublicHosts({
    config,
    urls,
    accounts: new BlockedAccounts(accounts.client, (account) => blocked.blocksAccount(account)),
    versions: accounts.versions,
    passwordWork: accounts.passwordWork,
    blobs: tracedBlobs(blobs, tracer),
    blocked,
    scans,
    transfers,
    reports,
    lookups,
    keyring,
    rateLimits,
    budgets: { connections: descriptors.connections, ...sharedBudgets(parts) },
    readiness,
    clock,
    log,
    metrics,
  })
  await listenPublicly(hosts, { opened, host, ports })
  const closing = new AbortController()
  if (!onlyReads) {
    collector.start()
    reconciler.start()
    scrubber.start()
    metadataScrubber.start()
    transfers.start()
  }
  readiness.phase = 'ready'
  log.info({ version, commit, dataDir: config.dataDir }, 'ready')

  const { reserveBytes } = blobs.disk
  const running = opened.move()
  let ending: Promise<void> | undefined
  return {
    addresses: urls,
    metrics,
    room: onlyReads ? untilRoom(config.dataDir, { reserveBytes, restMs, signal: closing.signal }) : undefined,
    get endReason() {
      return readiness.endReason
    },
    close() {
      closing.abort()
      readiness.phase = 'draining'
      ending ??= running.disposeAsync()
      return ending
    },
  }
}

/** The host of operators, which listens before the public ones. */
async function openAdmin(
  {
    opened,
    log,
    metrics,
    secrets,
    connections,
    moderation,
    operator,
    ...process
  }: ProcessDeps &
    Pick<PartOptions, 'opened' | 'log' | 'metrics'> &
    Pick<AdminDeps, 'connections' | 'moderation'> & { operator: AdminDeps['accounts']; secrets: Secrets },
  { host, port }: { host: string; port: number },
): Promise<void> {
  const { rateLimits, readiness } = process
  const admin = createAdminHost({
    log,
    metrics,
    rateLimits,
    readiness,
    adminToken: secrets.adminToken,
    metricsToken: secrets.metricsToken,
    uidOf: undefined,
    connections,
    tls: undefined,
    operations: createOperations(process),
    moderation,
    accounts: operator,
  })
  drainOnClose(admin, { drainMs: adminDrainMs })
  opened.defer(() => admin.close())
  await listen(admin, { name: 'admin', host, port })
}

function tracerOf({ tracing, serverName: name, region }: Config, parts: Pick<PartOptions, 'opened' | 'log'>) {
  return openTracing({
    config: tracing,
    process: { name, role: 'standalone', region, version },
    ...parts,
  })
}

function sharedBudgets({ metrics, clock, tracer }: PartOptions) {
  return {
    answers: new AnswerBudget({ metrics, clock }),
    tls: undefined,
    lane: new SmallPiecesLane(clock),
    tracer,
  }
}

/** What commands of operators reach. */
function operatorOf(
  { config, stores: { metadata, keyring }, clock }: PartOptions,
  { client, repair }: Accounts,
) {
  return {
    accounts: client,
    lookups: metadata.lookups,
    ids: keyring.ids,
    clock,
    keyring,
    region: config.region,
    tokenKeyId,
    signUpDomains: config.signUp.domains,
    repair,
    ...walksOf(metadata),
    questionsPerSecond: config.reconcile.perSecond,
  }
}

async function listenPublicly(
  hosts: ReturnType<typeof createPublicHosts>,
  { opened, host, ports }: Pick<PartOptions, 'opened'> & Pick<ListenAddresses, 'host' | 'ports'>,
): Promise<void> {
  opened.defer(async () => {
    await Promise.all(Object.values(hosts).map((app) => app.close()))
  })
  for (const name of ['api', 'upload', 'download'] as const)
    await listen(hosts[name], { name, host, port: ports[name] })
}

function descriptorsOf({ connections, rateLimits }: Config, log: Logger) {
  const descriptors = divideDescriptors(descriptorLimit(), {
    publicHosts: 3,
    stores: true,
    cluster: false,
    connectionsMax: connections.max,
    connectionsPerNetworkMax: connections.perNetworkMax,
    networksUnlimited: rateLimits === 'off',
  })
  if (descriptors.warning !== undefined) log.warn(descriptors.warning)
  return descriptors
}

/** The accounts, and the parts that complete the effects of their events. */
async function openAccounts({
  config,
  secrets,
  stores: { metadata, clockGuard, keyring, outbox },
  opened,
  metrics,
  clock,
  log,
  tracer,
  webUrl,
  onBlobReleased,
}: PartOptions & Pick<AccountsDeps, 'webUrl' | 'onBlobReleased'> & { secrets: Secrets }) {
  const mailer = await openMailer({ config, secrets, folder: outbox, clock })
  opened.defer(() => mailer.close())
  const { observer, figures } = accountMetrics(metrics)
  const accounts = startAccounts({
    config,
    journals: tracedJournals(metadata.journals, tracer, 'leveldb'),
    lookups: tracedLookups(metadata.lookups, tracer, 'leveldb'),
    tracer,
    keyring,
    mailer,
    webUrl,
    clock,
    log,
    metrics: observer,
    isClockOff: () => clockGuard.isOff(),
    unwritable: () => metadata.failure,
    onBlobReleased,
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
  return { accounts, reconciler, figures }
}

/** What operators block or a scanner finds, what visitors report, and who uploaded what. */
async function openModeration({
  config,
  opened,
  metrics,
  stores: {
    metadata: { lookups },
    clockGuard,
  },
  clock,
  log,
}: PartOptions) {
  const blocked = await BlockLists.open({ lookups, clock, onChange: undefined })
  const scans = openScans({ config: config.scanning, lists: blocked, clock, log, metrics })
  opened.defer(() => scans.close())
  const { reports, transfers } = openRecords({
    lookups,
    blocked,
    transferLog: config.transferLog,
    clock,
    isClockOff: () => clockGuard.isOff(),
    warn: (message) => (error) => log.warn({ err: error }, message),
    metrics,
  })
  opened.defer(() => transfers.close())
  return { blocked, scans, reports, transfers }
}

/** Background work: removing unused blobs, scrubbing, backups. */
function openUpkeep({
  config,
  stores: { metadata, blobs },
  opened,
  metrics,
  clock,
  log,
  rounds,
  ...asked
}: PartOptions & Pick<CollectingDeps, 'rounds'> & Pick<BackupJobsDeps, 'accounts' | 'isBlocked' | 'scans'>) {
  const collector = createCollector({ config: config.collect, blobs, metadata, rounds, clock, log })
  opened.defer(() => collector.close())
  collectorMetrics(metrics, { collector, clock })
  const backupJobs = new BackupJobs({
    dataDir: config.dataDir,
    metadata,
    blobs,
    collector,
    ...asked,
    clock,
    log: log.child({ part: 'backup' }),
  })
  opened.defer(() => backupJobs.close())
  backupMetrics(metrics, () => backupJobs.lastBackupMs)
  openShownCertificates({ config, own: () => undefined, log, metrics, opened })
  const scrubber = new Scrubber({
    store: blobs,
    repair: undefined,
    pause: undefined,
    ...config.scrub,
    clock,
    log: log.child({ part: 'scrubber' }),
  })
  opened.defer(() => scrubber.close())
  scrubMetrics(metrics, { scrubber, store: blobs })
  const metadataScrubber = new MetadataScrubber({
    metadata,
    config: config.scrub,
    clock,
    timers: backgroundTimers,
    log: log.child({ part: 'metadata scrubber' }),
  })
  opened.defer(() => metadataScrubber.close())
  return { collector, backupJobs, scrubber, metadataScrubber }
}

function readinessOf({ metadata, blobs }: Stores, clock: Clock): Readiness {
  return new Readiness(
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
}

/** An operator's call does not wait long. */
const adminDrainMs = 2_000
