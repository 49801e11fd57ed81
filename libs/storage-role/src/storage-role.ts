/**
 * The storage role of a process: its own store behind the rules of its placement groups, served to
 * frontends and other nodes. A storage node consists mostly of it. An upload frontend may have the
 * role too, and then writes the first replica without the network.
 *
 * It starts in two steps with the joining of the cluster between them: the join announces the
 * addresses and the node's status, and the node's work needs the cluster.
 */
import { join } from 'node:path'
import {
  collectorMetrics,
  diskMetrics,
  scrubMetrics,
  scrubStatus,
  storeMetrics,
  storeStatus,
} from '@holdfast/admin'
import { pinMsMax } from '@holdfast/blob-store'
import { type BlobStoreServer, serveBlobStore } from '@holdfast/blob-store-grpc'
import {
  checkDataFormat,
  chosenPorts,
  type DescriptorBudget,
  makePrivate,
  requireStores,
  signDataFormat,
  urlOf,
} from '@holdfast/bootstrap'
import type { ChunkStore } from '@holdfast/chunk-store'
import type { ClusterPart } from '@holdfast/cluster'
import type { ClusterConfig, ClusterSecrets } from '@holdfast/config'
import type { Clock } from '@holdfast/kernel'
import { NodeGroups, type PlacementGroup } from '@holdfast/replication'
import type { Logger } from 'pino'
import { type NodeStatus, openNode, type RunningNode } from './node.ts'
import { openStore } from './open-store.ts'
import { peerMetrics } from './peer-metrics.ts'
import { replicationMetrics } from './replication-metrics.ts'

/** How often heartbeats update space and lag, ms. */
const lookMs = 1_000

export interface StorageRoleOptions {
  config: ClusterConfig
  descriptors: Pick<DescriptorBudget, 'openExtentsMax' | 'peerConnections'>
  secrets: ClusterSecrets
  log: Logger
  clock: Clock
}

export class StorageRole {
  /** Where other nodes and frontends reach it. */
  readonly addresses: { control: string; bytes: string }
  readonly #options: StorageRoleOptions
  readonly #store: ChunkStore
  readonly #ports: { control: number; bytes: number }
  #groups: NodeGroups | undefined
  #running: RunningNode | undefined
  #server: BlobStoreServer | undefined
  #looking: NodeJS.Timeout | undefined
  #status: NodeStatus = { freeBytes: 0, lagMs: 0, suspect: false, coveredMs: {}, draining: false }
  #unhealthyReason: string | undefined = 'starting'

  /** Opens the store. @throws StartFault DATA_LOCKED, DATA_UNUSABLE, DATA_FORMAT, DATA_MISSING */
  static async open(options: StorageRoleOptions): Promise<StorageRole> {
    const { config, descriptors, log, clock } = options
    const { openExtentsMax } = descriptors
    const path = join(config.dataDir, 'blobs')
    if (config.requireStore) await requireStores(config.dataDir, ['blobs/extents'])
    for (const damage of await checkDataFormat(config.dataDir))
      log.error({ damage }, 'the format note is damaged and will be replaced')
    const left = await makePrivate(config.dataDir)
    if (left.length > 0)
      log.warn(
        { paths: left },
        'files of the data directory cannot be made private: another user owns them, or they are read-only',
      )
    const store = await openStore({
      path,
      cataloguesIn: undefined,
      config: config.store,
      openExtentsMax,
      pinnedAtFirstMs: pinMsMax,
      clock,
      log,
    })
    try {
      await signDataFormat(config.dataDir).catch((err) => log.warn({ err }, 'the release could not be noted'))
      const { host, control, bytes } = config.internal
      return new StorageRole(options, store, await chosenPorts({ control, bytes }, host))
    } catch (error) {
      await store.close()
      throw error
    }
  }

  private constructor(
    options: StorageRoleOptions,
    store: ChunkStore,
    ports: { control: number; bytes: number },
  ) {
    const { tls, internal } = options.config
    const { host } = internal
    this.#options = options
    this.#store = store
    this.#ports = ports
    this.addresses = {
      control: `${host}:${ports.control}`,
      bytes: urlOf(host, ports.bytes, tls === undefined ? 'http' : 'https'),
    }
  }

  /** The content of heartbeats. */
  get status(): NodeStatus {
    return this.#status
  }

  /**
   * Why it accepts no uploads or is not trusted, as of the last check; undefined when all is well.
   */
  get unhealthyReason(): string | undefined {
    return this.#unhealthyReason
  }

  /** The node, once it has joined. */
  get node(): RunningNode {
    if (this.#running === undefined) throw new Error('the storage role has not joined yet')
    return this.#running
  }

  /**
   * Adopts a version of a group that another process announced; earlier ones are read at the join.
   */
  async learn(group: PlacementGroup): Promise<void> {
    await this.#groups?.learn(group)
  }

  /** Serves other processes when it resolves. @throws StartFault PORT_TAKEN */
  async join(cluster: ClusterPart): Promise<void> {
    const { config, secrets, descriptors, clock } = this.#options
    const groups = await NodeGroups.open({
      nodeId: config.nodeName,
      notes: this.#store,
      lookUp: async (number) => {
        await cluster.groups.refresh()
        return cluster.groups.map.get(number)
      },
    })
    this.#groups = groups
    for (const group of cluster.groups.map.all()) await groups.learn(group)
    this.#running = await openNode(cluster, { store: this.#store, groups })
    this.#server = await serveBlobStore(this.#running.node, {
      secret: () => secrets.clusterSecret,
      tls: cluster.trust.peers,
      host: config.internal.host,
      controlPort: this.#ports.control,
      bytesPort: this.#ports.bytes,
      bounds: { connections: descriptors.peerConnections },
      clock,
      log: cluster.log.child({ part: 'node' }),
      tracer: cluster.tracer,
    })
    peerMetrics(cluster.metrics, this.#server)
    cluster.readiness.addVital('store', () => this.#store.failing)
    storeMetrics(cluster.metrics, this.#store)
    diskMetrics(cluster.metrics, this.#store)
    replicationMetrics(cluster.metrics, {
      replicator: this.#running.replicator,
      regionOf: (node) => cluster.peers.regionOf(node) ?? 'unknown',
      clock: cluster.clock,
    })
    scrubMetrics(cluster.metrics, { scrubber: this.#running.scrubber, store: this.#store })
    collectorMetrics(cluster.metrics, { collector: this.#running.collector, clock: cluster.clock })
  }

  /**
   * Begins to follow others, to scrub, to collect.
   * @param looked called after each health check; the first has run when it resolves
   */
  async start(looked: () => void = () => {}): Promise<void> {
    const { log } = this.#options
    const { node } = this
    const look = async () => {
      this.#status = await node.status()
      const unhealthyReason = await node.unhealthyReason()
      if (unhealthyReason !== undefined && unhealthyReason !== this.#unhealthyReason)
        log.warn({ reason: unhealthyReason }, 'the node takes no uploads')
      this.#unhealthyReason = unhealthyReason
      looked()
    }
    await look()
    let isLooking = false
    const lookAgain = async () => {
      if (isLooking) return
      isLooking = true
      try {
        await look()
      } catch (error) {
        log.warn({ err: error }, 'the store does not answer')
        this.#unhealthyReason = `the store does not answer: ${(error as Error).message}`
        looked()
      } finally {
        isLooking = false
      }
    }
    this.#looking = setInterval(() => void lookAgain(), lookMs)
    node.start()
  }

  /** For the admin host. */
  async details() {
    const { replicator, scrubber } = this.node
    return {
      store: await storeStatus(this.#store),
      scrubbing: scrubStatus({ scrubber, store: this.#store }),
      replication: await replicator.lag(),
    }
  }

  /**
   * Ends requests of others within the drain time; the store stays open. Called before the cluster
   * is left.
   */
  async stop(): Promise<void> {
    clearInterval(this.#looking)
    await this.#server?.close({ drainMs: this.#options.config.drainMs })
    await this.#running?.close()
  }

  /** Closes the store. Called last. */
  async close(): Promise<void> {
    await this.#store.close()
  }
}
