/** A host of accounts: the accounts of its region that placement gives it. */
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { AccountHost, type Reconciler, roundInWords } from '@holdfast/actor-runtime'
import { accountMetrics, reconcileMetrics } from '@holdfast/admin'
import { type AccountHostDeps, accountHostOptions, chosenPorts, openMailer, urlOf } from '@holdfast/bootstrap'
import {
  adminScheme,
  type ClusterPart,
  type ClusterStart,
  joinCluster,
  serveAccountLists,
  serveTakeover,
  startAdmin,
  startReconciling,
} from '@holdfast/cluster'

/** How long a start waits for heartbeats: every living member sends one in this time. */
const settleMs = 1_300
/** The pause between two requests to other regions. */
const hearMs = 1_000

/** Serves when it resolves. @throws StartFault */
export async function startActorHost({
  config,
  secrets,
  settings,
  log,
  clock: wallClock,
  connect,
}: ClusterStart) {
  await using opened = new AsyncDisposableStack()
  const { host: publicHost, adminHost } = config.listen
  const ports = await chosenPorts({ admin: config.listen.admin }, adminHost)
  const mailer = await openMailer({
    config,
    secrets,
    folder: join(config.dataDir, 'outbox'),
    clock: wallClock,
  })
  opened.defer(() => mailer.close())
  let active = () => 0
  const addresses = { admin: urlOf(adminHost, ports.admin, adminScheme(config)) }
  const cluster = await joinCluster({
    config,
    secrets,
    role: 'actor-host',
    moreRoles: [],
    addresses,
    log,
    clock: wallClock,
    connect,
    report: (byPhase) => ({ ...byPhase, accounts: active() }),
    onGroup: undefined,
  })
  opened.defer(() => cluster.close())
  const { clock, metrics } = cluster
  const { observer, figures } = accountMetrics(metrics)
  const webUrl = config.publicUrls.web ?? config.publicUrls.api ?? urlOf(publicHost, config.listen.api)
  const host = accountHostOf(cluster, { mailer, webUrl, metrics: observer })
  active = () => host.activeAccounts
  let reconciler: Reconciler | undefined
  reconcileMetrics(metrics, { rounds: () => reconciler?.rounds ?? { last: undefined }, clock })
  const admin = await startAdmin(cluster, {
    role: 'actor-host',
    port: ports.admin,
    settings,
    accounts: true,
    status: async () => ({
      accounts: {
        ...figures(),
        active: host.activeAccounts,
        quarantined: host.quarantined,
        backupLag: host.backupLag,
      },
      reconciling: roundsInWords(reconciler?.rounds),
    }),
  })
  opened.defer(() => admin.close())
  await delay(settleMs)
  await untilHeard(cluster)
  const takeover = serveTakeover(cluster)
  opened.defer(() => takeover.close())
  // Ready before the start: its own view of the members then includes it, and it wakes only its own
  // share of the accounts.
  cluster.setPhase('ready')
  host.start()
  opened.defer(() => host.close({ drainMs: config.drainMs }))
  const lists = serveAccountLists(cluster)
  opened.defer(() => lists.close())
  const reconciling = startReconciling(cluster)
  opened.defer(() => reconciling.close())
  reconciler = reconciling.reconciler

  const running = opened.move()
  return {
    addresses,
    async close() {
      cluster.setPhase('draining')
      await running.disposeAsync()
    },
  }
}

/** The accounts that placement gives this host, over what the cluster shares. */
function accountHostOf(
  cluster: ClusterPart,
  { mailer, webUrl, metrics }: Pick<AccountHostDeps, 'mailer' | 'webUrl' | 'metrics'>,
): AccountHost {
  const { config, bus, journals, lookups, keyring, clock, tracer, routes } = cluster
  return new AccountHost(
    accountHostOptions({
      config,
      hostId: config.nodeName,
      bus,
      journals,
      journalBackup: journals,
      lookups,
      keyring,
      mailer,
      webUrl,
      clock,
      log: cluster.log.child({ part: 'accounts' }),
      metrics,
      tracer,
      isClockOff: cluster.isClockOff,
      // Storage nodes look for unused blobs by themselves.
      onBlobReleased: undefined,
      hostOf: routes.hostOf,
      predecessorOf: routes.predecessorOf,
      replicaOf: cluster.replicaOf,
      homes: cluster.homes,
      // Passwords are hashed by the API's processes.
      passwordWork: undefined,
    }),
  )
}

function roundsInWords({ running, last }: Partial<Reconciler['rounds']> = {}) {
  return { running: running && roundInWords(running), last: last && roundInWords(last) }
}

/**
 * A region cannot know by itself that another one took over its accounts. So a new host waits for
 * an answer of another region, or joins hosts of its own region that already serve.
 */
async function untilHeard({ regions, membership, config, log }: ClusterPart): Promise<void> {
  const colleague = () =>
    membership
      .beats()
      .some(
        ({ id, region, roles, ready }) =>
          id !== config.nodeName && region === config.region && roles.includes('actor-host') && ready,
      )
  if (regions.heardElsewhere) return
  log.warn(
    'no other region answers. One may have taken over the accounts of this region: this host serves none until a region answers or another host here serves',
  )
  while (!regions.heardElsewhere && !colleague()) {
    await delay(hearMs)
    await regions
      .refresh()
      .catch((error: unknown) => log.warn({ err: error }, 'the region map cannot be read'))
  }
}
