/**
 * A storage node of a cluster: its own store behind the rules of its placement groups, served to frontends and other nodes, public
 * downloads in front of it. What it lacks it reads from others.
 */
import { join } from 'node:path'
import { storeMetrics } from '@holdfast/admin'
import { serveBlobStore } from '@holdfast/blob-store-grpc'
import { joinCluster, startAdmin } from '@holdfast/cluster'
import { systemClock } from '@holdfast/kernel'
import {
  type ClusterConfig,
  type ClusterSecrets,
  chosenPorts,
  listen,
  type SettingDescription,
  urlOf,
} from '@holdfast/process'
import { NodeGroups } from '@holdfast/replication'
import type { Logger } from 'pino'
import { createDownloads } from './app.ts'
import { type NodeWord, openNode } from './node.ts'
import { openNodeStore } from './node-store.ts'
import { replicationMetrics } from './replication-metrics.ts'

export interface StartOptions {
  config: ClusterConfig
  secrets: ClusterSecrets
  settings: readonly SettingDescription[]
  log: Logger
}

/** How often heartbeats learn of space and lag, ms. */
const lookMs = 1_000

/** Serves when it resolves. @throws StartFault */
export async function startStorageNode({ config, secrets, settings, log }: StartOptions) {
  await using opened = new AsyncDisposableStack()
  const clock = systemClock
  const { nodeName: id, trustProxy, drainMs } = config
  const { host, adminHost, download, admin: adminPort } = config.listen
  const ports = await chosenPorts({ download, admin: adminPort }, host)
  const store = await openNodeStore({ path: join(config.dataDir, 'blobs'), config: config.store, clock, log })
  opened.defer(() => store.close())
  const internal = await chosenPorts(
    { control: config.internal.control, bytes: config.internal.bytes },
    config.internal.host,
  )
  const addresses = {
    download: urlOf(host, ports.download),
    admin: urlOf(adminHost, ports.admin),
    control: `${config.internal.host}:${internal.control}`,
    bytes: urlOf(config.internal.host, internal.bytes),
  }
  let word: NodeWord = { freeBytes: 0, lagMs: 0, suspect: false, coveredMs: {}, draining: false }
  let groups: NodeGroups | undefined
  const cluster = await joinCluster({
    config,
    secrets,
    role: 'storage-node',
    addresses,
    log,
    report: () => word,
    onGroup: async (group) => groups?.learn(group),
  })
  opened.defer(() => cluster.close())
  groups = await NodeGroups.open({
    nodeId: id,
    notes: store,
    lookUp: async (number) => {
      await cluster.groups.refresh()
      return cluster.groups.map.get(number)
    },
  })
  for (const group of cluster.groups.map.all()) await groups.learn(group)
  const running = await openNode(cluster, { store, groups })
  opened.defer(() => running.close())
  const server = await serveBlobStore(running.node, {
    secret: secrets.clusterSecret,
    host: config.internal.host,
    controlPort: internal.control,
    bytesPort: internal.bytes,
  })
  opened.defer(() => server.close({ drainMs }))
  storeMetrics(cluster.metrics, store)
  replicationMetrics(cluster.metrics, running.replicator)

  const admin = await startAdmin(cluster, {
    role: 'storage-node',
    port: ports.admin,
    settings,
    accounts: false,
    status: async () => ({ store: await store.usage(), replication: await running.replicator.lag() }),
  })
  opened.defer(() => admin.close())
  const downloads = createDownloads({ ...cluster, blobs: running.blobs, trustProxy, drainMs })
  opened.defer(() => downloads.close())
  await listen(downloads, { name: 'download', host, port: ports.download })

  let draining = false
  /** Ready is who can take uploads; a node that cannot still gives out what it has. */
  const look = async () => {
    word = await running.word()
    const ailment = await running.ailment()
    const phase = ailment === undefined ? 'ready' : 'starting'
    if (draining || cluster.readiness.phase === phase) return
    if (ailment !== undefined) log.warn({ reason: ailment }, 'the node takes no uploads')
    cluster.setPhase(phase)
  }
  await look()
  const looking = setInterval(
    () => void look().catch((error: unknown) => log.warn({ err: error }, 'the store does not answer')),
    lookMs,
  )
  opened.defer(() => clearInterval(looking))
  running.start()

  const held = opened.move()
  return {
    addresses,
    async close() {
      draining = true
      cluster.setPhase('draining')
      await held.disposeAsync()
    },
  }
}
