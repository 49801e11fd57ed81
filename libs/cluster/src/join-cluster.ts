/**
 * The base of every process of a cluster, in the order in which it starts and, reversed, ends: bus
 * → metadata → keys → region map → membership → ways to accounts and storage nodes → rate limits.
 */
import { randomBytes, randomUUID } from 'node:crypto'
import { type AccountClient, BlockedAccounts, RoutedAccountClient } from '@holdfast/accounts'
import { clockMetric, openRecords, openShownCertificates, processMetrics, Readiness } from '@holdfast/admin'
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
import { type AccountId, backgroundTimers, type Clock, type Keyring, type RegionCode } from '@holdfast/kernel'
import { AgreedClock, isClockOff, type MemberRole } from '@holdfast/membership'
import { type HeartbeatReport, NatsMembership, plainReport } from '@holdfast/membership-nats'
import { Holders, ReplicatedBlobStore } from '@holdfast/replication'
import { openTracing, tracedAccounts, tracedBlobs, tracedJournals, tracedLookups } from '@holdfast/tracing'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import { AccountRounds } from './accounts/account-rounds.ts'
import { AccountRoutes } from './accounts/account-routes.ts'
import { ReplicaReads } from './accounts/replica-reads.ts'
import type { ClusterPart } from './cluster-part.ts'
import { keptAccounts } from './regions/kept-accounts.ts'
import { type Home, RegionMap } from './regions/region-map.ts'
import { RegionalLookups } from './regions/regional-lookups.ts'
import { certificateMetrics } from './servers/certificate-metrics.ts'
import type { ClusterBus, ClusterServers, ServerConnector } from './servers/connect-servers.ts'
import { busMetrics, cassandraMetrics, cassandraNodeMetrics } from './servers/server-metrics.ts'
import { type ClusterTrust, frontendTls, openTrust } from './servers/trust.ts'
import { SharedBans } from './sharing/shared-bans.ts'
import { shareBlockLists } from './sharing/shared-block-lists.ts'
import { SharedCounts } from './sharing/shared-counts.ts'
import { GroupRows, type GroupRowsOptions } from './storage/group-rows.ts'
import { NodeAdminStates } from './storage/node-admin-states.ts'
import { StoragePeers } from './storage/storage-peers.ts'
import { heardByAll } from './subjects.ts'

export interface JoinOptions {
  config: ClusterConfig
  secrets: ClusterSecrets
  role: Extract<MemberRole, 'api' | 'upload' | 'actor-host' | 'storage-node'>
  /** Further roles of the process. */
  moreRoles: readonly MemberRole[]
  /** Where other processes and users reach this process; includes the admin host. */
  addresses: Record<string, string>
  log: Logger
  connect: ServerConnector
  /** The content of heartbeats. `byPhase` is ready while the phase of the process is. */
  report: (byPhase: HeartbeatReport) => HeartbeatReport
  onGroup: GroupRowsOptions['onGroup']
  clock: Clock
}

/** The inputs of the parts of a joining process. */
interface JoinContext extends JoinOptions {
  /** Ends what was opened, in reverse order. */
  opened: AsyncDisposableStack
  trust: ClusterTrust
  servers: ClusterServers
  metrics: Registry
  warn: (message: string) => (error: unknown) => void
  isClockOff: () => boolean
}

/**
 * @throws JournalFault when metadata is unreachable.
 * @throws SettingsFault when credentials are refused. Waits for NATS.
 */
export async function joinCluster(options: JoinOptions): Promise<ClusterPart> {
  const { config, secrets, role, log, clock } = options
  await using opened = new AsyncDisposableStack()
  const descriptors = clusterDescriptors(config, role)
  if (descriptors.warning !== undefined) log.warn(descriptors.warning)
  const warn = (message: string) => (error: unknown) => log.warn({ err: error }, message)

  const process = { name: config.nodeName, role, region: config.region, version }
  const tracer = await openTracing({ config: config.tracing, process, opened, log })
  const trust = openTrust(config, log)
  opened.defer(() => trust.close())
  const tls = frontendTls(config, trust, { isFrontend: role === 'api' || role === 'upload' })
  const servers = await options.connect({ config, secrets, log, trust })
  opened.defer(() => servers.close())
  const { bus } = servers
  const metrics = processMetrics({ version, commit, role, region: config.region })
  busMetrics(metrics, bus)
  const ownClockIsOff = () => isClockOff(members.membership.self())
  const joining = { ...options, opened, trust, servers, metrics, warn, isClockOff: ownClockIsOff }

  const { isMetadataUp, ...metadata } = await openAccountData(joining)
  const { lookups, keyring, regions } = metadata
  const members = joinMembers(joining, { isMetadataUp, regions, keyring })
  const { membership, routes, peers, readiness } = members
  const { nodes, groups, blocked } = await openOperatorRows(joining, lookups)
  const { rateLimits, bans } = opened.use(sharedLimits({ config, bus, clock, warn }))
  await bus.flush()
  const agreed = new AgreedClock(clock, membership)

  const holders = new Holders({ region: config.region, groups: groups.map, peers, clock })
  opened.defer(learnHolders(holders, peers, membership))

  const { transferLog } = config
  const recording = { lookups, blocked, transferLog, clock, isClockOff: ownClockIsOff, warn, metrics }
  const { reports, transfers } = openRecords(recording)
  opened.defer(() => transfers.close())
  certificateMetrics(metrics, trust)
  openShownCertificates({ config, own: () => trust.peers?.pem.own, log, metrics, opened })
  clockMetric(metrics, { offsetMs: () => membership.self().clockOffsetMs })
  const running = opened.move()
  return {
    config,
    secrets,
    trust,
    clock: agreed,
    log,
    metrics,
    bus,
    tracer,
    ...metadata,
    openWholeKeyspaces: () => servers.openWholeKeyspaces(regions.order),
    lookups: tracedLookups(lookups, tracer, 'cassandra'),
    journals: tracedJournals(metadata.journals, tracer, 'cassandra'),
    membership,
    isClockOff: ownClockIsOff,
    routes,
    accounts: new BlockedAccounts(
      tracedAccounts(routedAccounts({ ...joining, clock: agreed }, members), tracer),
      (account) => blocked.blocksAccount(account),
    ),
    peers,
    nodes,
    groups,
    blocked,
    transfers,
    reports,
    rateLimits,
    budgets: {
      connections: descriptors.connections,
      tls,
      answers: new AnswerBudget({ metrics, clock }),
      lane: new SmallPiecesLane(clock),
      tracer,
    },
    adminConnections: descriptors.adminConnections,
    bans,
    readiness,
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

/** Metadata, and the region where each account is served. */
async function openAccountData({
  config,
  role,
  clock,
  opened,
  servers,
  metrics,
  warn,
  isClockOff,
}: JoinContext) {
  const { region } = config
  // The term of an account comes from the region map, which is itself read from here.
  let homeOf = (_account: string): Home => ({ serving: region, term: 1, handedOver: false })
  const metadata = await servers.openMetadata({
    onRequest: cassandraMetrics(metrics),
    journals: role === 'actor-host',
    termOf: (account) => homeOf(account).term,
    handedOver: (account) => homeOf(account).handedOver,
  })
  opened.defer(() => metadata.close())
  cassandraNodeMetrics(metrics, metadata)
  const lookups = new RegionalLookups({
    region,
    regions: config.regions,
    founders: metadata.founders,
    stores: metadata.lookups,
    homes: new Map([...metadata.homes].map(([birth, { lookups: home }]) => [birth, home])),
  })
  const keyring = await openKeyring(lookups)
  const regions = await RegionMap.open({
    region,
    regions: config.regions,
    founders: metadata.founders,
    stores: metadata.lookups,
    clock,
    onFault: warn('the region map cannot be read; the last one counts'),
  })
  opened.defer(() => regions.close())
  lookups.useHomes(regions)
  const rounds = new AccountRounds({ regions: config.regions, map: regions, lookups, clock, isClockOff })
  lookups.useRounds(rounds)
  const learnHomes = () =>
    void regions.refresh().catch(warn('the region map cannot be read; the last one counts'))
  const homesChanged = servers.bus.subscribe(heardByAll.homes, learnHomes)
  opened.defer(() => homesChanged.close())
  homeOf = (account) => regions.homeOf(keyring.ids.birthRegion(account as AccountId))
  return {
    isMetadataUp: async () => void (await metadata.lookups.get(region)?.get('setting/master')),
    lookups,
    keyring,
    regions,
    rounds,
    ...keptAccounts({ region, regionCodes: config.regions, metadata, regions, ids: keyring.ids }),
  }
}

type AccountData = Awaited<ReturnType<typeof openAccountData>>

/** Joins the other processes, and finds those that serve accounts and store bytes. */
function joinMembers(
  joining: JoinContext,
  { isMetadataUp, regions, keyring }: Pick<AccountData, 'isMetadataUp' | 'regions' | 'keyring'>,
) {
  const { config, secrets, role, addresses, clock, opened, trust, servers, warn } = joining
  const { bus } = servers
  const readiness = new Readiness({
    nats: async () => {
      if (!bus.up) throw new Error('no link to NATS')
    },
    metadata: isMetadataUp,
  })
  const membership = new NatsMembership({
    bus,
    info: { id: config.nodeName, role, region: config.region, addresses },
    moreRoles: joining.moreRoles,
    load: undefined,
    report: () => joining.report({ ...plainReport, ready: readiness.phase === 'ready' }),
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
  const peers = new StoragePeers({ membership, secret: () => secrets.clusterSecret, tls: trust.peers, clock })
  opened.defer(() => peers.close())
  return { readiness, membership, routes, peers }
}

/** What operators decided: about storage nodes, groups of them, and blocked content. */
async function openOperatorRows(
  { config, clock, opened, servers, warn, onGroup }: JoinContext,
  lookups: RegionalLookups,
) {
  const { bus } = servers
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
    onGroup,
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
  return { nodes, groups, blocked }
}

/** Accounts at the hosts that serve them; reads can be answered by a replica. */
function routedAccounts(
  { clock, servers: { bus } }: JoinContext,
  { routes, membership }: ReturnType<typeof joinMembers>,
): AccountClient {
  const onHostsChanged = (listener: () => void) => routes.onChange(listener)
  return new ReplicaReads({
    accounts: new RoutedAccountClient({
      bus,
      hostOf: routes.hostOf,
      onHostsChanged,
      onSilent: (host) => void membership.suspect(host),
      local: undefined,
      unwritable: undefined,
      clock,
      timers: undefined,
      randomness: undefined,
    }),
    bus,
    replicaHostOf: routes.replicaHostOf,
    onHostsChanged,
    clock,
  })
}

/** Rate limits of this process, with the counts and bans of the others. */
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
  const rateLimits = createRateLimits({ mode: config.rateLimits, clock })
  const bans = new SharedBans({ bus, rateLimits, onFault: warn('bans could not be sent') })
  const counts = new SharedCounts({
    bus,
    rateLimits,
    self: `${config.nodeName}/${randomUUID()}`,
    onFault: warn('counts could not be sent'),
  })
  return {
    rateLimits,
    bans,
    [Symbol.dispose]() {
      counts.close()
      bans.close()
      rateLimits.close()
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
  const { config, groups, peers, clock, log, tracer } = cluster
  const localNode = region === config.region ? peers.localId : undefined
  const blobs = new ReplicatedBlobStore({
    region,
    localNode,
    groups: groups.map,
    peers,
    refreshGroups: groups.refresh,
    freeBytesOf: (node) => peers.freeBytesOf(node),
    clock,
    timers: backgroundTimers,
    random: randomBytes,
    log: log.child({ part: 'blobs' }),
  })
  return tracedBlobs(blobs, tracer)
}
