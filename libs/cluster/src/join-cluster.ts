/**
 * The base of every process of a cluster, in the order in which it starts and, reversed, ends: bus
 * → metadata → keys → region map → membership → ways to accounts and storage nodes → limits.
 */
import { randomUUID } from 'node:crypto'
import { BlockedAccounts, RoutedAccountClient } from '@holdfast/accounts'
import { clockMetric, moderationMetrics, processMetrics, Readiness, transferMetrics } from '@holdfast/admin'
import {
  commit,
  type DescriptorBudget,
  descriptorLimit,
  divideDescriptors,
  openKeyring,
  version,
} from '@holdfast/bootstrap'
import type { ClusterConfig, ClusterSecrets } from '@holdfast/config'
import { AnswerBudget, createRateLimits, SmallPiecesLane } from '@holdfast/http-kit'
import { type AccountId, type Clock, type Keyring, type RegionCode, systemClock } from '@holdfast/kernel'
import { isClockOff, type MemberRole } from '@holdfast/membership'
import { NatsMembership, type Report } from '@holdfast/membership-nats'
import { Reports, TransferLog } from '@holdfast/moderation'
import { Holders, ReplicatedBlobStore } from '@holdfast/replication'
import type { Logger } from 'pino'
import { AccountRounds } from './account-rounds.ts'
import { AccountRoutes } from './account-routes.ts'
import { certificateMetrics } from './certificate-metrics.ts'
import type { ClusterPart } from './cluster-part.ts'
import type { ClusterBus, Connect } from './connect-servers.ts'
import { GroupRows, type GroupRowsOptions } from './group-rows.ts'
import { keptAccounts } from './kept-accounts.ts'
import { NodeAdminStates } from './node-admin-states.ts'
import { type Home, RegionMap } from './region-map.ts'
import { RegionalLookups } from './regional-lookups.ts'
import { ReplicaReads } from './replica-reads.ts'
import { busMetrics, cassandraMetrics, cassandraNodeMetrics } from './server-metrics.ts'
import { SharedBans } from './shared-bans.ts'
import { shareBlockLists } from './shared-block-lists.ts'
import { SharedCounts } from './shared-counts.ts'
import { StoragePeers } from './storage-peers.ts'
import { openTrust } from './trust.ts'

export interface JoinOptions {
  config: ClusterConfig
  secrets: ClusterSecrets
  role: Extract<MemberRole, 'api' | 'upload' | 'actor-host' | 'storage-node'>
  /** Further roles of the process. */
  moreRoles?: readonly MemberRole[]
  /** Where other processes and users reach this process; includes the admin host. */
  addresses: Record<string, string>
  log: Logger
  connect: Connect
  load?: () => number
  /** The content of heartbeats; without `ready` they carry the phase of the process. */
  report?: () => Partial<Report>
  onGroup?: GroupRowsOptions['onGroup']
  clock?: Clock
}

/** New tokens are made with this key; tokens of older keys stay valid. */
export const tokenKeyId = 1

/**
 * @throws JournalFault when metadata is unreachable.
 * @throws SettingsFault when credentials are refused. Waits for NATS.
 */
export async function joinCluster(options: JoinOptions): Promise<ClusterPart> {
  const { config, secrets, role, addresses, log, clock = systemClock } = options
  await using opened = new AsyncDisposableStack()
  const { nodeName: id, region } = config
  const descriptors = clusterDescriptors(config, role)
  if (descriptors.warning !== undefined) log.warn(descriptors.warning)
  const warn = (message: string) => (error: unknown) => log.warn({ err: error }, message)

  const trust = openTrust(config, log)
  opened.defer(() => trust.close())
  const servers = await options.connect({ config, secrets, log, trust })
  opened.defer(() => servers.close())
  const { bus } = servers
  const metrics = processMetrics({ version, commit, role, region })
  busMetrics(metrics, bus)

  // The term of an account comes from the region map, which is itself read from here.
  let homeOf = (_account: string): Home => ({ serving: region, term: 1 })
  const metadata = await servers.openMetadata({
    onRequest: cassandraMetrics(metrics),
    journals: role === 'actor-host',
    termOf: (account) => homeOf(account).term,
    handedOver: (account) => homeOf(account).handedOver === true,
  })
  opened.defer(() => metadata.close())
  cassandraNodeMetrics(metrics, metadata)
  const lookups = new RegionalLookups({
    region,
    regions: config.regions,
    stores: metadata.lookups,
    homes: new Map([...metadata.homes].map(([birth, { lookups: home }]) => [birth, home])),
  })
  const keyring = await openKeyring(lookups)
  const regions = await RegionMap.open({
    region,
    regions: config.regions,
    stores: metadata.lookups,
    clock,
    onFault: warn('the region map cannot be read; the last one counts'),
  })
  opened.defer(() => regions.close())
  lookups.useHomes(regions)
  const ownClockIsOff = () => isClockOff(membership.self())
  const rounds = new AccountRounds({
    regions: config.regions,
    map: regions,
    lookups,
    clock,
    isClockOff: ownClockIsOff,
  })
  lookups.useRounds(rounds)
  const learnHomes = () =>
    void regions.refresh().catch(warn('the region map cannot be read; the last one counts'))
  const homesChanged = bus.subscribe('regions.changed', learnHomes)
  opened.defer(() => homesChanged.close())
  homeOf = (account) => regions.homeOf(keyring.ids.birthRegion(account as AccountId))

  const readiness = new Readiness({
    nats: async () => {
      if (!bus.up) throw new Error('no link to NATS')
    },
    metadata: async () => void (await metadata.lookups.get(region)?.get('setting/master')),
  })
  const membership = new NatsMembership({
    bus,
    facts: { id, role, region, addresses },
    moreRoles: options.moreRoles ?? [],
    load: options.load ?? (() => 0),
    report: () => ({ ready: readiness.phase === 'ready', ...options.report?.() }),
    clock,
    onListenerError: warn('a listener of the membership failed'),
  })
  opened.defer(() => membership.close())
  const routes = new AccountRoutes({
    membership,
    regions,
    ids: keyring.ids,
    clock,
    replicaReadsMs: config.replicaReadsMs,
  })
  opened.defer(() => routes.close())
  const peers = new StoragePeers({ membership, secret: () => secrets.clusterSecret, tls: trust.peers })
  opened.defer(() => peers.close())
  const nodes = new NodeAdminStates({
    lookups,
    bus,
    onFault: warn('what was decided about storage nodes cannot be read; the last of it counts'),
  })
  opened.defer(() => nodes.close())
  await nodes.refresh()
  const groups = new GroupRows({
    lookups,
    bus,
    regions: config.regions,
    onFault: warn('the placement groups cannot be read; the last ones count'),
    ...(options.onGroup === undefined ? {} : { onGroup: options.onGroup }),
  })
  opened.defer(() => groups.close())
  await groups.refresh()

  const { lists: blocked, close: closeBlocked } = await shareBlockLists({
    lookups,
    bus,
    clock,
    onFault: warn('what operators block cannot be read; the last of it counts'),
  })
  opened.defer(closeBlocked)

  const { limits, bans } = opened.use(sharedLimits({ config, bus, clock, warn }))
  await bus.flush()

  const holders = new Holders({ region, groups: groups.map, peers, clock })
  opened.defer(learnHolders(holders, peers, membership))

  moderationMetrics(metrics, blocked)
  const transfers = new TransferLog({
    lookups,
    clock,
    ...config.transferLog,
    isClockOff: ownClockIsOff,
    onFault: warn('the record of transfers is behind'),
  })
  opened.defer(() => transfers.close())
  transferMetrics(metrics, transfers)
  certificateMetrics(metrics, trust)
  clockMetric(metrics, { offsetMs: () => membership.self().clockOffsetMs })
  const running = opened.move()
  return {
    config,
    secrets,
    trust,
    clock,
    log,
    metrics,
    bus,
    lookups,
    ...keptAccounts({ region, regionCodes: config.regions, metadata, regions, ids: keyring.ids }),
    keyring,
    regions,
    membership,
    isClockOff: ownClockIsOff,
    routes,
    accounts: new BlockedAccounts(
      new ReplicaReads({
        accounts: new RoutedAccountClient({
          bus,
          hostOf: routes.hostOf,
          onHostsChanged: (listener) => routes.onChange(listener),
          onSilent: (host) => void membership.suspect(host),
          clock,
        }),
        bus,
        replicaHostOf: routes.replicaHostOf,
        onHostsChanged: (listener) => routes.onChange(listener),
        clock,
      }),
      (account) => blocked.blocksAccount(account),
    ),
    peers,
    nodes,
    groups,
    blocked,
    transfers,
    reports: new Reports({ lookups, clock, acts: blocked.acts }),
    limits,
    budgets: {
      connections: descriptors.connections,
      answers: new AnswerBudget({ metrics, clock }),
      lane: new SmallPiecesLane(clock),
    },
    adminConnections: descriptors.adminConnections,
    bans,
    readiness,
    rounds,
    serversOf: (number, createdMs) => holders.serversOf(number, createdMs),
    ...publicAddresses(membership, regions, keyring),
    setPhase(phase) {
      readiness.phase = phase
      routes.refresh()
      membership.announce()
    },
    leave: () => membership.close(),
    close: () => running.disposeAsync(),
  }
}

/** Rate limits of this process, which hears of those of the others. */
function sharedLimits({
  config,
  bus,
  clock,
  warn,
}: {
  config: ClusterConfig
  bus: ClusterBus
  clock: Clock
  warn: (message: string) => (error: unknown) => void
}) {
  const limits = createRateLimits({ mode: config.rateLimits, clock })
  const bans = new SharedBans({ bus, limits, onFault: warn('bans could not be sent') })
  const counts = new SharedCounts({
    bus,
    limits,
    self: `${config.nodeName}/${randomUUID()}`,
    onFault: warn('counts could not be sent'),
  })
  return {
    limits,
    bans,
    [Symbol.dispose]() {
      counts.close()
      bans.close()
      limits.close()
    },
  }
}

function publicAddresses(
  membership: NatsMembership,
  regions: RegionMap,
  { ids }: Keyring,
): Pick<ClusterPart, 'uploadUrlOf' | 'directUrlOf'> {
  const frontendOf = (region: RegionCode | undefined) =>
    membership.beats().find((beat) => beat.region === region && beat.roles.includes('upload'))?.addresses
  return {
    uploadUrlOf: (region) => frontendOf(region)?.upload,
    directUrlOf(contentId) {
      const account = ids.accountOf(contentId)
      return frontendOf(account && regions.homeOf(ids.birthRegion(account)).serving)?.download
    },
  }
}

const publicHosts = { api: 1, upload: 2, 'actor-host': 0, 'storage-node': 1 } as const

/** The descriptors of a process in this role. @throws StartFault TOO_FEW_DESCRIPTORS */
export function clusterDescriptors(config: ClusterConfig, role: JoinOptions['role']): DescriptorBudget {
  return divideDescriptors(descriptorLimit(), {
    publicHosts: publicHosts[role],
    stores: role === 'storage-node' || (role === 'upload' && config.uploadStores),
    cluster: true,
    connectionsMax: config.connections.max,
    connectionsPerNetworkMax: config.connections.perNetworkMax,
    networksUnlimited: config.rateLimits === 'off',
  })
}

/** Keeps the view of holders up to date with heartbeats. @returns ends it */
function learnHolders(holders: Holders, peers: StoragePeers, membership: NatsMembership): () => void {
  const learn = () => {
    for (const { id, suspect, coveredMs } of peers.beats())
      holders.learn({ id, suspect, coveredMs: new Map(Object.entries(coveredMs)) })
  }
  const timer = setInterval(learn, learnMs)
  const subscription = membership.onChange(learn)
  return () => {
    clearInterval(timer)
    subscription.close()
  }
}

/** As often as heartbeats come. */
const learnMs = 1_000

/** The storage nodes as one store, which takes uploads for a region: by default the own one. */
export function clusterBlobs(
  cluster: ClusterPart,
  { region = cluster.config.region }: { region?: RegionCode } = {},
): ReplicatedBlobStore {
  const { config, groups, peers, clock, log } = cluster
  const localNode = region === config.region ? peers.localId : undefined
  return new ReplicatedBlobStore({
    region,
    ...(localNode === undefined ? {} : { localNode }),
    groups: groups.map,
    peers,
    refreshGroups: groups.refresh,
    freeBytesOf: (node) => peers.freeBytesOf(node),
    clock,
    log: log.child({ part: 'blobs' }),
  })
}
