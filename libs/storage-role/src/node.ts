/**
 * The node behind the listeners: its store under the rules of its groups, and its background work.
 */

import { Collector, type NodeStore, reportsHealth, Scrubber } from '@holdfast/blob-store'
import {
  type ClusterPart,
  GroupLeader,
  serveCollecting,
  serveGroupStatus,
  serveHolding,
  wantRound,
} from '@holdfast/cluster'
import { type CopyName, isReferenced, referencedOf } from '@holdfast/journal'
import { backgroundTimers } from '@holdfast/kernel'
import {
  groupProgress,
  LocalNode,
  type NodeGroups,
  ReadThroughStore,
  RejoinCheck,
  Replicator,
  repairSources,
} from '@holdfast/replication'
import type { Logger } from 'pino'
import { NodeDrain } from './node-drain.ts'

/** The node's part of heartbeats. */
export interface NodeStatus {
  freeBytes: number
  lagMs: number
  suspect: boolean
  coveredMs: Record<string, number>
  draining: boolean
}

export interface RunningNode {
  readonly node: LocalNode
  /** The node's bytes for public downloads; missing ones come from other nodes. */
  readonly blobs: ReadThroughStore
  readonly replicator: Replicator
  readonly collector: Collector
  readonly scrubber: Scrubber
  /** Why it accepts no uploads or is not trusted; undefined when all is well. */
  unhealthyReason(): Promise<string | undefined>
  status(): Promise<NodeStatus>
  /**
   * Starts to follow other nodes, to scrub, to collect, to plan groups, and to check whether it was
   * away.
   */
  start(): void
  close(): Promise<void>
}

/** Reported while the lag is unknown: ten years. */
const lagMaxMs = 10 * 365 * 86_400_000
const aliveMs = 5 * 60_000

export async function openNode(
  cluster: ClusterPart,
  { store, groups }: { store: NodeStore; groups: NodeGroups },
): Promise<RunningNode> {
  const { clock, peers, lookups } = cluster
  const { nodeName: id, region } = cluster.config
  const log = cluster.log.child({ part: 'node' })
  const node = new LocalNode({ store, groups, peers })
  peers.local = { id, region, node }
  const referenced = (blob: CopyName) => isReferenced(lookups, blob)
  const rejoinCheck = new RejoinCheck({ node, referenced, clock })
  await rejoinCheck.begin()
  const owned: OwnedNode = { cluster, store, node, referenced, log }
  const collector = createCollector(owned)
  const replicator = createReplicator(owned, collector)
  const scrubber = createScrubber(owned)
  const collecting = serveCollecting(cluster, {
    async collect(options) {
      const collected = await collector.collect(options)
      const { liveBytes, blobs, diskBytes, freeBytes } = await store.usage()
      return { ...collected, liveBytes, blobs, diskBytes, freeBytes }
    },
    paused: () => collector.paused,
  })
  const holding = serveHolding(cluster, () => collector.hold())
  const progress = serveGroupStatus(cluster, () => groupProgress({ node, replicator, clock }))
  const draining = new NodeDrain(cluster, node)
  const timers: NodeJS.Timeout[] = []
  let leader: GroupLeader | undefined
  const quietly = (what: string, work: () => Promise<unknown>) => () =>
    void work().catch((error: unknown) => log.warn({ err: error }, what))
  return {
    node,
    blobs: new ReadThroughStore({ node, region, groups: cluster.groups.map, peers, referenced, log }),
    replicator,
    collector,
    scrubber,
    async unhealthyReason() {
      if (scrubber.suspect !== undefined) return scrubber.suspect
      return (await store.usage()).writable ? undefined : 'not writable: the disk is full or failed'
    },
    status: () => statusOf(owned, { replicator, scrubber }),
    start() {
      replicator.start()
      draining.start()
      scrubber.start()
      collector.start()
      leader = leadGroups(owned)
      timers.push(
        setInterval(
          quietly('the alive mark was not stored', () => rejoinCheck.noteAlive()),
          aliveMs,
        ),
      )
      if (node.unverified !== undefined)
        quietly('deletions of the meantime are not known', () => rejoinCheck.verify())()
    },
    async close() {
      for (const timer of timers) clearInterval(timer)
      collecting.close()
      holding.close()
      progress.close()
      await draining.close()
      await Promise.all([leader?.close(), replicator.close(), scrubber.close(), collector.close()])
    },
  }
}

/** The inputs of a node's background work. */
interface OwnedNode {
  cluster: ClusterPart
  store: NodeStore
  node: LocalNode
  referenced: (blob: CopyName) => Promise<boolean>
  log: Logger
}

function createCollector({ cluster, store, node, log }: OwnedNode): Collector {
  const { config, clock, lookups, rounds } = cluster
  return new Collector({
    blobs: node,
    referenced: (blobs) => referencedOf(lookups, blobs),
    accounts: {
      confirmedMs: () => rounds.confirmedMs(),
      wanted: () => wantRound(cluster),
    },
    distrust: () => node.unverified ?? (reportsHealth(store) ? store.health.gap : undefined),
    ...config.collect,
    everything: true,
    notes: store,
    clock,
    log,
  })
}

function createReplicator({ cluster, node, referenced, log }: OwnedNode, collector: Collector): Replicator {
  return new Replicator({
    node,
    peers: cluster.peers,
    region: cluster.config.region,
    referenced,
    deletedAtSource: (blob) => collector.released(blob),
    clock: cluster.clock,
    timers: backgroundTimers,
    random: Math.random,
    log,
  })
}

function createScrubber({ cluster, store, node, log }: OwnedNode): Scrubber {
  const { config, groups, peers, clock } = cluster
  return new Scrubber({
    store,
    repair: (copy) =>
      node.fetch(
        copy,
        repairSources(copy, { self: config.nodeName, region: config.region, groups: groups.map, peers }),
        {
          pinMs: 0,
        },
      ),
    pause: undefined,
    ...config.scrub,
    clock,
    log,
  })
}

function leadGroups({ cluster, log }: OwnedNode): GroupLeader {
  const { config, groups, peers, nodes, clock, regions } = cluster
  return new GroupLeader({
    self: config.nodeName,
    region: config.region,
    regions: regions.copyOrder,
    rows: groups,
    peers,
    states: nodes,
    clock,
    lostMs: config.nodeLostMs,
    onFault: (error) => log.warn({ err: error }, 'the placement groups could not be planned'),
  })
}

async function statusOf(
  { cluster, store, node }: OwnedNode,
  { replicator, scrubber }: { replicator: Replicator; scrubber: Scrubber },
): Promise<NodeStatus> {
  const [{ freeBytes }, lags] = await Promise.all([store.usage(), replicator.lag()])
  const marks = replicator.watermarks.known()
  return {
    freeBytes,
    lagMs: Math.round(Math.min(lagMaxMs, Math.max(0, ...lags.map(({ ms }) => ms)))),
    suspect: scrubber.suspect !== undefined || node.unverified !== undefined,
    coveredMs: Object.fromEntries(marks.map(([source, { coveredMs }]) => [source, Math.floor(coveredMs)])),
    draining: cluster.nodes.of(cluster.config.nodeName) === 'draining',
  }
}
