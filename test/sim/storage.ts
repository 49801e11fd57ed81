/**
 * Storage nodes under the scheduler: three in the home region, one elsewhere, each a memory store
 * behind the real rules of its groups, with the real pulling and collecting; frontends upload
 * through the real replicated store. The network is between any two.
 *
 * A node that crashes loses stages and pins and begins a new life of its log; its copies were
 * synced. Times are scaled down, in their order: request < pin and grace.
 */

import {
  BlobFault,
  type BlobInfo,
  type BlobName,
  type BlobStoreUsage,
  Collector,
  digestOf,
  type GroupVersion,
  type LogPosition,
  MemoryBlobStore,
  type NodeStore,
  type PlacedCommit,
  type PlacedStage,
  type PullAnswer,
  type PutOptions,
  type SealedContent,
  type SmallBlob,
  type StageOptions,
  type StorageNode,
} from '@holdfast/blob-store'
import { plainCollector } from '@holdfast/blob-store/testing'
import { isReferenced, referencedOf } from '@holdfast/journal'
import { hex } from '@holdfast/kernel'
import {
  GroupMap,
  LocalNode,
  NodeGroups,
  nodesOf,
  type Peers,
  type PlacementGroup,
  ReplicatedBlobStore,
  Replicator,
} from '@holdfast/replication'
import { plainFrontend } from '@holdfast/replication/testing'
import type { Blob } from '@holdfast/wire'
import type { Cluster, Frontend } from './cluster.ts'
import type { Dice } from './random.ts'
import type { SimProcess } from './sim-process.ts'
import { SimLookups, StoreLine } from './stores.ts'
import type { Uploads } from './workload.ts'

const home = 'eu-par'
const elsewhere = 'na-nyc'
const nodeIds = ['s1', 's2', 's3', 'r1']
const regionOf = (id: string) => (id.startsWith('r') ? elsewhere : home)

export const groups: readonly PlacementGroup[] = [
  { number: 1, version: 1, region: home, members: ['s1', 's2'], remote: ['r1'], writable: true },
  { number: 2, version: 1, region: home, members: ['s2', 's3'], remote: ['r1'], writable: true },
]

/** Longer than a client repeats a request. */
const pinMs = 25_000
const graceMs = 25_000
const stageIdleMs = 8_000
const collectEveryMs = 2_000
const callMs = 1_500
const heardMs = 4_000

export interface StoragePlants {
  /** Around a node's own store. */
  store?: (store: NodeStore) => NodeStore
  memory?: ConstructorParameters<typeof MemoryBlobStore>[0]
  /** What a node does with a copy that another has deleted, instead of notifying its collector. */
  deletedAtSource?: (store: NodeStore, copy: BlobName) => Promise<void>
}

interface SimNode {
  process: SimProcess
  node: LocalNode
}

/** What survives the lives of a node. */
interface Disk {
  store: MemoryBlobStore
  clock: { now(): number; monotonic(): number }
}

export class Storage implements Uploads {
  readonly #cluster: Cluster
  readonly #dice: Dice
  readonly #plants: StoragePlants
  readonly #disks = new Map<string, Disk>()
  readonly #running = new Map<string, SimNode>()
  readonly #replicated = new WeakMap<SimProcess, ReplicatedBlobStore>()
  collected = 0

  constructor(cluster: Cluster, dice: Dice, plants: StoragePlants = {}) {
    this.#cluster = cluster
    this.#dice = dice
    this.#plants = plants
  }

  async start(): Promise<void> {
    for (const id of nodeIds) await this.startNode(id)
  }

  get nodes(): ReadonlyMap<string, SimNode> {
    return this.#running
  }

  async startNode(id: string): Promise<void> {
    if (this.#running.has(id)) return
    const cluster = this.#cluster
    const process = cluster.newProcess(id)
    const disk = this.#diskOf(id, process)
    const store = this.#plants.store?.(disk.store) ?? disk.store
    const line = new StoreLine(process, cluster.network, cluster.shared)
    const lookups = new SimLookups(line)
    const referenced = (blob: BlobName) => isReferenced(lookups, blob)
    const view = new GroupMap()
    for (const group of groups) view.learn(group)
    const nodeGroups = await NodeGroups.open({
      nodeId: id,
      notes: store,
      lookUp: async (number) => groups.find((group) => group.number === number),
    })
    for (const group of groups) await nodeGroups.learn(group)
    const peers = this.#peersOf(process)
    const node = new LocalNode({ store, groups: nodeGroups, peers })
    const collector = new Collector({
      ...plainCollector,
      blobs: store,
      referenced: (some) => referencedOf(lookups, some),
      distrust: () => undefined,
      graceMs,
      everyMs: collectEveryMs,
      clock: process,
      log: { info: () => {}, warn: () => {} },
    })
    const replicator = new Replicator(
      {
        node,
        peers,
        region: regionOf(id),
        referenced,
        deletedAtSource: (copy) => {
          if (this.#plants.deletedAtSource === undefined) collector.released(copy)
          else void this.#plants.deletedAtSource(store, copy)
        },
        clock: process,
        timers: process,
        random: () => process.dice.fraction(),
        log: {
          info: () => {},
          warn: (fields, message) =>
            void cluster.scheduler.note(`${process.name} log: ${message}: ${JSON.stringify(fields)}`),
        },
      },
      { idleMs: 500, backoffMaxMs: 4_000 },
    )
    this.#running.set(id, { process, node })
    this.#beat(process)
    replicator.start()
    void this.#collect(process, collector)
    cluster.scheduler.note(`${process.name} starts`)
  }

  crashNode(id: string): void {
    const running = this.#running.get(id)
    if (running === undefined) return
    this.#cluster.scheduler.note(`${running.process.name} crashes`)
    running.process.kill()
    this.#running.delete(id)
    this.#disks.get(id)?.store.crash()
  }

  async heal(): Promise<void> {
    for (const { process } of this.#running.values()) {
      process.resume()
      process.settleClock()
    }
    await this.start()
  }

  #diskOf(id: string, process: SimProcess): Disk {
    const known = this.#disks.get(id)
    if (known !== undefined) {
      known.clock = process
      return known
    }
    const disk = { clock: process } as unknown as Disk
    const dice = this.#dice.fork()
    disk.store = new MemoryBlobStore({
      stageIdleMs,
      ...this.#plants.memory,
      clock: { now: () => disk.clock.now(), monotonic: () => disk.clock.monotonic() },
      random: (count) => dice.bytes(count),
    })
    this.#disks.set(id, disk)
    return disk
  }

  async #collect(process: SimProcess, collector: Collector): Promise<void> {
    for (;;) {
      await process.wait(collectEveryMs)
      try {
        const { deleted } = await collector.collect()
        this.collected += deleted
        if (deleted > 0) process.scheduler.note(`${process.name} collects ${deleted}`)
      } catch (error) {
        process.scheduler.note(`${process.name} cannot collect: ${(error as Error).message}`)
      }
    }
  }

  /** The faults of the nodes. */
  troubles(): (() => void)[] {
    const cluster = this.#cluster
    const { scheduler } = cluster
    const dice = this.#dice
    const all: (() => void)[] = [
      () => {
        // One node, or all of them as in a power failure.
        for (const id of dice.chance(0.7) ? [dice.pick(nodeIds)] : nodeIds) {
          this.crashNode(id)
          scheduler.after(dice.between(50, 6_000), () => void this.startNode(id))
        }
      },
      () => {
        const process = this.#running.get(dice.pick(nodeIds))?.process
        if (process === undefined || process.paused) return
        scheduler.note(`${process.name} pauses`)
        process.pause({ monotonicStands: dice.chance(0.5) })
        scheduler.after(dice.between(200, 8_000), () => process.resume())
      },
      () => {
        const from = dice.pick(nodeIds)
        const to = dice.pick([...nodeIds, ...cluster.frontendIds, cluster.shared.id])
        scheduler.note(`cut ${from}-${to}`)
        cluster.network.cut(from, to)
        cluster.network.cut(to, from)
        scheduler.after(dice.between(500, 8_000), () => {
          cluster.network.heal(from, to)
          cluster.network.heal(to, from)
        })
      },
    ]
    return all.filter(() => dice.chance(0.7))
  }

  /**
   * What is wrong with a copy in the end. A node may lack it for one reason alone: its own
   * collector deleted it when it was unreferenced, and it was referenced again at as many others as
   * an upload needs.
   */
  async faultsOf(blob: Blob): Promise<string[]> {
    const faults: string[] = []
    let whole = 0
    const group = groups.find(({ number }) => number === blob.placementGroup)
    for (const id of group === undefined ? [] : nodesOf(group)) {
      const store = this.#disks.get(id)?.store
      if ((await store?.stat(blob)) === undefined) {
        if ((await store?.deletedMs(blob)) === undefined) faults.push(`${id} never got it`)
      } else if (await holdsWholeCopy(store as MemoryBlobStore, blob)) whole++
      else faults.push(`${id} has other bytes`)
    }
    if (whole < 2) faults.push(`${whole} whole copies are left`)
    return faults
  }

  // ---- who sees whom

  readonly #heard = new WeakMap<SimProcess, Map<string, number>>()

  #beat(process: SimProcess): void {
    const { network } = this.#cluster
    for (const other of this.#everybody())
      if (other !== process)
        network.send(process, other, () => this.#heardBy(other).set(process.id, other.monotonic()))
    process.after(1_000, () => this.#beat(process))
  }

  #everybody(): SimProcess[] {
    return [...[...this.#running.values()].map(({ process }) => process), ...this.#cluster.processes]
  }

  #heardBy(process: SimProcess): Map<string, number> {
    let heard = this.#heard.get(process)
    if (heard === undefined) {
      heard = new Map(nodeIds.map((id) => [id, process.monotonic()]))
      this.#heard.set(process, heard)
    }
    return heard
  }

  #peersOf(process: SimProcess): Peers {
    const remotes = new Map(nodeIds.map((id) => [id, new RemoteNode(process, id, this)]))
    return {
      node: (id) => remotes.get(id),
      isAlive: (id) => (this.#heardBy(process).get(id) ?? 0) > process.monotonic() - heardMs,
      regionOf,
    }
  }

  /** One call over the network, carried out once for each copy of the message that arrives. */
  call<T>(from: SimProcess, to: string, what: string, work: (node: LocalNode) => Promise<T>): Promise<T> {
    const { network } = this.#cluster
    return new Promise((resolve, reject) => {
      const cancel = from.after(callMs, () => reject(new BlobFault('UNKNOWN', `${to}: no answer to ${what}`)))
      const target = this.#running.get(to)
      if (target === undefined) {
        from.deliver(network.delay(), () => {
          cancel()
          reject(new BlobFault('UNAVAILABLE', `${to} cannot be reached`))
        })
        return
      }
      const answer = (settle: () => void) =>
        network.send(target.process, from, () => {
          cancel()
          settle()
        })
      const [ms] = network.fates(from.id, to)
      if (ms === undefined) return
      target.process.deliver(ms, () => {
        work(target.node).then(
          (value) => answer(() => resolve(value)),
          (error: unknown) => answer(() => reject(error)),
        )
      })
    })
  }

  // ---- uploads

  async upload(frontend: Frontend, content: number): Promise<Blob | undefined> {
    const { scheduler } = this.#cluster
    try {
      const info = await Promise.race([
        this.#upload(this.#replicatedOf(frontend.process), content),
        frontend.died,
      ])
      scheduler.note(`uploaded ${content} as ${hex(info.incarnation).slice(0, 6)}`)
      const { id, incarnation, size, crc32, placementGroup = 0 } = info
      return { id: Buffer.from(id), incarnation: Buffer.from(incarnation), size, crc32, placementGroup }
    } catch (error) {
      if (!(error instanceof BlobFault) && frontend.process.alive) throw error
      scheduler.note(`upload of ${content} failed: ${(error as Error).message}`)
      return undefined
    }
  }

  async #upload(store: ReplicatedBlobStore, content: number): Promise<BlobInfo> {
    // Content that announces more is staged at the nodes; the same content comes both ways.
    const stage = await store.stage(this.#dice.chance(0.5) ? {} : { expectedBytes: 1_000_000 })
    try {
      const bytes = bytesOf(content)
      await stage.write(bytes.subarray(0, 100))
      await stage.write(bytes.subarray(100))
      return await stage.commit({ pinMs })
    } finally {
      await stage.abort()
    }
  }

  #replicatedOf(process: SimProcess): ReplicatedBlobStore {
    let store = this.#replicated.get(process)
    if (store === undefined) {
      const view = new GroupMap()
      for (const group of groups) view.learn(group)
      store = new ReplicatedBlobStore({
        ...plainFrontend,
        region: home,
        groups: view,
        peers: this.#peersOf(process),
        clock: process,
        timers: process,
        random: (count) => process.dice.bytes(count),
      })
      this.#replicated.set(process, store)
    }
    return store
  }
}

async function holdsWholeCopy(store: MemoryBlobStore, blob: Blob): Promise<boolean> {
  const parts: Buffer[] = []
  for await (const bytes of store.read(blob, { start: 0, end: blob.size })) parts.push(Buffer.from(bytes))
  return Buffer.compare(digestOf(Buffer.concat(parts)).id, blob.id) === 0
}

export function bytesOf(content: number): Buffer {
  return Buffer.alloc(1000 * (content + 1), content + 1)
}

/** A node as another process reaches it. */
class RemoteNode implements StorageNode {
  readonly #from: SimProcess
  readonly #id: string
  readonly #storage: Storage

  constructor(from: SimProcess, id: string, storage: Storage) {
    this.#from = from
    this.#id = id
    this.#storage = storage
  }

  #call<T>(what: string, work: (node: LocalNode) => Promise<T>): Promise<T> {
    return this.#storage.call(this.#from, this.#id, what, work)
  }

  async stage(options?: StageOptions): Promise<PlacedStage> {
    const stage = await this.#call('stage', (node) => node.stage(options))
    return new RemoteStage(stage, (what, work) => this.#call(what, work))
  }

  put(blob: SmallBlob, options: PutOptions): Promise<BlobInfo> {
    const bytes = Buffer.from(blob.bytes)
    return this.#call('put', (node) => node.put({ ...blob, bytes }, options))
  }

  pin(blob: BlobName, options: { ttlMs: number; placement?: GroupVersion }): Promise<boolean> {
    return this.#call('pin', (node) => node.pin(blob, options))
  }

  copyFrom(
    from: string,
    blob: BlobInfo,
    options: { pinMs: number; placement: GroupVersion; signal?: AbortSignal },
  ): Promise<BlobInfo> {
    return this.#call('copyFrom', (node) => node.copyFrom(from, blob, options))
  }

  committed(uploadId: Uint8Array): Promise<BlobInfo | undefined> {
    return this.#call('committed', (node) => node.committed(uploadId))
  }

  find(id: Uint8Array): Promise<BlobInfo[]> {
    return this.#call('find', (node) => node.find(id))
  }

  stat(blob: BlobName): Promise<BlobInfo | undefined> {
    return this.#call('stat', (node) => node.stat(blob))
  }

  async *read(blob: BlobName, range: { start: number; end: number }): AsyncIterable<Uint8Array> {
    yield await this.#call('read', async (node) => {
      const parts: Buffer[] = []
      for await (const bytes of node.read(blob, range)) parts.push(Buffer.from(bytes))
      return Buffer.concat(parts)
    })
  }

  delete(blob: BlobName): Promise<'deleted' | 'pinned'> {
    return this.#call('delete', (node) => node.delete(blob))
  }

  async *inventory(options?: { groups?: readonly number[] }): AsyncIterable<BlobInfo> {
    yield* await this.#call('inventory', async (node) => {
      const all: BlobInfo[] = []
      for await (const info of node.inventory(options)) all.push(info)
      return all
    })
  }

  pull(request: {
    after?: LogPosition | undefined
    limit: number
    groups?: readonly number[]
  }): Promise<PullAnswer> {
    return this.#call('pull', (node) => node.pull(request))
  }

  readBatch(copies: readonly BlobInfo[]): Promise<(Uint8Array | undefined)[]> {
    return this.#call('readBatch', (node) => node.readBatch(copies))
  }

  deletedMs(blob: BlobName): Promise<number | undefined> {
    return this.#call('deletedMs', (node) => node.deletedMs(blob))
  }

  usage(): Promise<BlobStoreUsage> {
    return this.#call('usage', (node) => node.usage())
  }

  async close(): Promise<void> {}
}

/** The node's stage by its handle: a new life of the node does not know it. */
class RemoteStage implements PlacedStage {
  readonly uploadId: Uint8Array
  readonly #stage: PlacedStage
  readonly #call: <T>(what: string, work: () => Promise<T>) => Promise<T>

  constructor(stage: PlacedStage, call: <T>(what: string, work: () => Promise<T>) => Promise<T>) {
    this.uploadId = stage.uploadId
    this.#stage = stage
    this.#call = call
  }

  write(bytes: Uint8Array): Promise<void> {
    const copy = Buffer.from(bytes)
    return this.#call('write', async () => this.#stage.write(copy))
  }

  seal(): Promise<SealedContent> {
    return this.#call('seal', () => this.#stage.seal())
  }

  commit(options: PlacedCommit): Promise<BlobInfo> {
    return this.#call('commit', () => this.#stage.commit(options))
  }

  abort(): Promise<void> {
    return this.#call('abort', () => this.#stage.abort())
  }
}
