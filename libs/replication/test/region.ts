/** A few nodes over memory stores in one process, and ways to make them fail. */

import { randomBytes } from 'node:crypto'
import {
  BlobFault,
  type BlobInfo,
  MemoryBlobStore,
  type MemoryBlobStoreOptions,
  type PlacedStage,
  type StageOptions,
  type StorageNode,
} from '@holdfast/blob-store'
import type { Timers } from '@holdfast/kernel'
import {
  GroupMap,
  LocalNode,
  NodeGroups,
  type Peers,
  type PlacementGroup,
  ReplicatedBlobStore,
} from '../src/index.ts'
import { plainFrontend } from '../src/testing.ts'

export interface NodeSpec {
  id: string
  region?: string
  store?: MemoryBlobStore
  options?: MemoryBlobStoreOptions
}

export class Region implements Peers {
  /** The rows that a node or frontend reads when it looks a group up. */
  readonly rows = new GroupMap()
  readonly stores = new Map<string, MemoryBlobStore>()
  readonly nodes = new Map<string, LocalNode>()
  /** As others reach it: through the planted faults. */
  readonly reached = new Map<string, StorageNode>()
  readonly silent = new Set<string>()
  readonly #regions = new Map<string, string>()

  static async open(specs: NodeSpec[], groups: PlacementGroup[]): Promise<Region> {
    const region = new Region()
    for (const group of groups) region.rows.learn(group)
    for (const spec of specs) await region.add(spec)
    return region
  }

  async add({ id, region = 'r1', store, options }: NodeSpec): Promise<LocalNode> {
    const own = store ?? new MemoryBlobStore(options)
    this.stores.set(id, own)
    this.#regions.set(id, region)
    const groups = await NodeGroups.open({
      nodeId: id,
      notes: own,
      lookUp: async (number) => this.rows.get(number),
    })
    for (const group of this.rows.all()) await groups.learn(group)
    const node = new LocalNode({ store: own, groups, peers: this })
    this.nodes.set(id, node)
    this.reached.set(id, node)
    return node
  }

  /** Inserts something between a node and its callers. */
  plant(id: string, change: (node: StorageNode) => Partial<StorageNode>): void {
    const node = this.reached.get(id) as StorageNode
    const planted = change(node)
    this.reached.set(
      id,
      new Proxy(node, {
        get(target, name) {
          const own = Reflect.get(planted, name)
          if (own !== undefined) return own
          const value = Reflect.get(target, name, target)
          return typeof value === 'function' ? value.bind(target) : value
        },
      }),
    )
  }

  heal(id: string): void {
    this.reached.set(id, this.nodes.get(id) as LocalNode)
  }

  /** Nothing reaches it any more, and the others have not noticed. */
  cut(id: string): void {
    const dead = () => {
      throw new BlobFault('UNAVAILABLE', `${id} does not answer`)
    }
    this.reached.set(
      id,
      new Proxy({} as StorageNode, {
        get: (_, name) =>
          name === 'read' || name === 'inventory'
            ? () => ({ [Symbol.asyncIterator]: () => ({ next: async () => dead() }) })
            : async () => dead(),
      }),
    )
  }

  node(id: string): StorageNode | undefined {
    return this.reached.get(id)
  }

  isAlive(id: string): boolean {
    return this.reached.has(id) && !this.silent.has(id)
  }

  regionOf(id: string): string | undefined {
    return this.#regions.get(id)
  }

  /** Writes a new version of a group and sends it to these nodes. */
  async publish(group: PlacementGroup, reported: Iterable<string> = this.nodes.keys()): Promise<void> {
    this.rows.learn(group)
    for (const id of reported) await this.nodes.get(id)?.groups.learn(group)
  }

  frontend(
    options: {
      region?: string
      localNode?: string
      groups?: GroupMap
      timers?: Timers
      random?: (bytes: number) => Uint8Array
    } = {},
  ): ReplicatedBlobStore {
    const groups = options.groups ?? this.rows
    return new ReplicatedBlobStore({
      ...plainFrontend,
      region: 'r1',
      ...options,
      groups,
      peers: this,
      refreshGroups: async () => {
        for (const group of this.rows.all()) groups.learn(group)
      },
    })
  }

  async holdersOf(blob: BlobInfo): Promise<string[]> {
    const holders: string[] = []
    for (const [id, store] of this.stores) {
      const info = await store.stat(blob)
      if (info !== undefined && info.damaged === undefined) holders.push(id)
    }
    return holders.sort()
  }

  async close(): Promise<void> {
    for (const store of this.stores.values()) await store.close()
  }
}

export function group(members: string[], more: Partial<PlacementGroup> = {}): PlacementGroup {
  return { number: 1, version: 1, region: 'r1', members, remote: [], writable: true, ...more }
}

/** Stages that fail after this many bytes. */
export function breaksAfter(bytes: number): (node: StorageNode) => Partial<StorageNode> {
  return (node) => ({
    put: async (blob, options) => {
      if (blob.bytes.length > bytes) throw new BlobFault('IO', 'the line broke')
      return node.put(blob, options)
    },
    stage: async (options?: StageOptions) => {
      const stage = await node.stage(options)
      let taken = 0
      return new Proxy(stage, {
        get(target, name) {
          if (name === 'write')
            return (piece: Uint8Array) => {
              taken += piece.length
              if (taken > bytes) throw new BlobFault('IO', 'the line broke')
              return target.write(piece)
            }
          const value = Reflect.get(target, name, target)
          return typeof value === 'function' ? value.bind(target) : value
        },
      }) as PlacedStage
    },
  })
}

/** Commits that take effect, and whose answer is lost; `committed` answers. */
export function losesCommitAnswers(node: StorageNode): Partial<StorageNode> {
  return {
    put: async (blob, options) => {
      await node.put(blob, options)
      throw new BlobFault('UNKNOWN', 'no answer came')
    },
    stage: async (options?: StageOptions) => {
      const stage = await node.stage(options)
      return new Proxy(stage, {
        get(target, name) {
          if (name === 'commit')
            return async (commit: Parameters<PlacedStage['commit']>[0]) => {
              await target.commit(commit)
              throw new BlobFault('UNKNOWN', 'no answer came')
            }
          const value = Reflect.get(target, name, target)
          return typeof value === 'function' ? value.bind(target) : value
        },
      }) as PlacedStage
    },
  }
}

export function upload(bytes = 1000): Buffer {
  return randomBytes(bytes)
}
