/**
 * The base of every process of a cluster, in the order in which it starts and, reversed, ends: bus
 * → metadata → keys → region map → membership → ways to accounts and storage nodes → limits.
 */
import { randomUUID } from 'node:crypto'
import { BlockedAccounts, RoutedAccountClient } from '@holdfast/actor-runtime'
import { clockMetric, moderationMetrics, processMetrics, Readiness } from '@holdfast/admin'
import {
  type DescriptorBudget,
  descriptorLimit,
  divideDescriptors,
  openKeyring,
  version,
} from '@holdfast/bootstrap'
import { BusFault } from '@holdfast/bus'
import { NatsBus } from '@holdfast/bus-nats'
import type { ClusterConfig, ClusterSecrets } from '@holdfast/config'
import { AnswerBudget, createRateLimits, SmallPiecesLane } from '@holdfast/http-kit'
import { type AccountId, type Clock, type RegionCode, systemClock } from '@holdfast/kernel'
import { isClockOff, type MemberRole } from '@holdfast/membership'
import { NatsMembership, type Report } from '@holdfast/membership-nats'
import { Holders, ReplicatedBlobStore } from '@holdfast/replication'
import type { Logger } from 'pino'
import { AccountRounds, accountsOf } from './account-rounds.ts'
import { AccountRoutes } from './account-routes.ts'
import type { ClusterPart } from './cluster-part.ts'
import { pagesNamedBy } from './evacuation.ts'
import { GroupRows, type GroupRowsOptions } from './group-rows.ts'
import { openMetadata, refusal } from './metadata.ts'
import { NodeAdminStates } from './node-admin-states.ts'
import { RateLimitedLog } from './rate-limited-log.ts'
import { type Home, RegionMap } from './region-map.ts'
import { RegionalJournals } from './regional-journals.ts'
import { RegionalLookups } from './regional-lookups.ts'
import { ReplicaReads } from './replica-reads.ts'
import { SharedBans } from './shared-bans.ts'
import { shareBlockLists } from './shared-block-lists.ts'
import { SharedCounts } from './shared-counts.ts'
import { StoragePeers } from './storage-peers.ts'

export interface JoinOptions {
  config: ClusterConfig
  secrets: ClusterSecrets
  role: Extract<MemberRole, 'api' | 'upload' | 'actor-host' | 'storage-node'>
  /** Further roles of the process. */
  moreRoles?: readonly MemberRole[]
  /** Where other processes and users reach this process; includes the admin host. */
  addresses: Record<string, string>
  log: Logger
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

  const unanswered = new RateLimitedLog<{ subject: string; error: unknown }>(({ subject, error }, count) =>
    log.error({ subject, err: error, count }, 'requests were left without an answer'),
  )
  opened.defer(() => unanswered.close())
  const servers = config.natsServers.map(({ host, port }) => `${host}:${port}`)
  const bus = await NatsBus.connect({
    servers,
    name: id,
    credentials: secrets.nats,
    tlsCa: config.natsTlsCa,
    onWaiting: warn('NATS cannot be used yet'),
    onLink: (up) => log.warn({ up }, up ? 'NATS is back' : 'the link to NATS broke'),
    onHandlerError: (fact) => unanswered.add(fact),
  }).catch((error) => {
    if (!(error instanceof BusFault && error.code === 'REFUSED')) throw error
    throw refusal({ what: 'NATS', servers: `NATS at ${servers.join(', ')}`, credentials: secrets.nats })
  })
  opened.defer(() => bus.close())

  // The term of an account comes from the region map, which is itself read from here.
  let homeOf = (_account: string): Home => ({ serving: region, term: 1 })
  const metadata = await openMetadata(config, {
    journals: role === 'actor-host',
    credentials: secrets.cassandra,
    termOf: (account) => homeOf(account).term,
    handedOver: (account) => homeOf(account).handedOver === true,
  })
  opened.defer(() => metadata.close())
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
  const peers = new StoragePeers({ membership, secret: secrets.clusterSecret })
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

  const limits = createRateLimits({ mode: config.rateLimits, clock })
  opened.defer(() => limits.close())
  const bans = new SharedBans({ bus, limits, onFault: warn('bans could not be sent') })
  opened.defer(() => bans.close())
  const counts = new SharedCounts({
    bus,
    limits,
    self: `${id}/${randomUUID()}`,
    onFault: warn('counts could not be sent'),
  })
  opened.defer(() => counts.close())
  await bus.flush()

  const holders = new Holders({ region, groups: groups.map, peers, clock })
  opened.defer(learnHolders(holders, peers, membership))

  const metrics = processMetrics({ version, role, region })
  moderationMetrics(metrics, blocked)
  clockMetric(metrics, { offsetMs: () => membership.self().clockOffsetMs })
  const running = opened.move()
  return {
    config,
    secrets,
    clock,
    log,
    metrics,
    bus,
    lookups,
    journals: new RegionalJournals(
      new Map([...metadata.homes].map(([birth, { journals }]) => [birth, journals])),
      {
        regions: config.regions,
        ids: keyring.ids,
        isServed: (birth) => regions.homeOf(birth).serving === region,
        fresh: () => regions.fresh(),
      },
    ),
    homes: {
      of: (account) => keyring.ids.birthRegion(account as AccountId),
      served: () => [...metadata.homes.keys()].filter((birth) => regions.homeOf(birth).serving === region),
    },
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
    limits,
    budgets: {
      connections: descriptors.connections,
      answers: new AnswerBudget({ metrics, clock }),
      lane: new SmallPiecesLane(clock),
    },
    adminConnections: descriptors.adminConnections,
    bans,
    readiness,
    takeAll(birth, after) {
      const home = metadata.homes.get(birth)
      if (home === undefined) throw new Error(`the journals of ${birth} are not kept in ${region}`)
      const { term, handedOver = false } = regions.homeOf(birth)
      return home.journals.takeAll(term, { pagesNamedBy, handedOver, after })
    },
    async *listAccounts(after) {
      const served = [...metadata.homes].filter(([birth]) => regions.homeOf(birth).serving === region)
      yield* accountsOf(new Map(served.map(([birth, { journals }]) => [birth, journals])), after)
    },
    listReferences: (after) => metadata.references.walk('ref', after === undefined ? {} : { after }),
    rounds,
    replicaOf: async (account) =>
      metadata.homes.get(keyring.ids.birthRegion(account as AccountId))?.journals.replica(account),
    serversOf: (number, createdMs) => holders.serversOf(number, createdMs),
    uploadUrlOf: (code) =>
      membership.beats().find((beat) => beat.region === code && beat.roles.includes('upload'))?.addresses
        .upload,
    directUrlOf(contentId) {
      const account = keyring.ids.accountOf(contentId)
      const home = account && regions.homeOf(keyring.ids.birthRegion(account)).serving
      return membership.beats().find((beat) => beat.region === home && beat.roles.includes('upload'))
        ?.addresses.download
    },
    setPhase(phase) {
      readiness.phase = phase
      routes.refresh()
      membership.announce()
    },
    leave: () => membership.close(),
    close: () => running.disposeAsync(),
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
