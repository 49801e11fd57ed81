/**
 * Two nodes with their own disks, each reached over the network, and flipped bits on the disk of
 * one of them.
 */

import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  BlobFault,
  type BlobInfo,
  type LogPosition,
  Scrubber,
  type ScrubResult,
  type StorageNode,
} from '@holdfast/blob-store'
import { get, plainScrubber, put } from '@holdfast/blob-store/testing'
import { type BlobStoreServer, RemoteBlobStore, serveBlobStore } from '@holdfast/blob-store-grpc'
import { plainRemote, plainServer } from '@holdfast/blob-store-grpc/testing'
import { ChunkStore } from '@holdfast/chunk-store'
import { testChunkStore } from '@holdfast/chunk-store/testing'
import { systemClock } from '@holdfast/kernel'
import {
  GroupMap,
  LocalNode,
  NodeGroups,
  type Peers,
  ReplicatedBlobStore,
  repairSources,
} from '@holdfast/replication'
import { plainFrontend } from '@holdfast/replication/testing'
import t from 'tap'

const MiB = 1024 * 1024
const secret = 'a secret of this test'
const quiet = { warn: () => {}, error: () => {} }
const group = { number: 1, version: 1, region: 'r1', members: ['a', 'b'], remote: [], writable: true }

interface ServedNode {
  store: ChunkStore
  node: LocalNode
  server: BlobStoreServer
  remote: RemoteBlobStore
}

class TwoNodes implements Peers {
  readonly path: string
  readonly #rows = new GroupMap()
  readonly #running = new Map<string, ServedNode>()
  readonly #silent = new Set<string>()

  constructor(path: string) {
    this.path = path
    this.#rows.learn(group)
  }

  async start(id: string): Promise<void> {
    const store = await ChunkStore.open({
      ...testChunkStore,
      path: join(this.path, id),
      extentBytes: 16 * MiB,
      extentStepBytes: 4 * MiB,
      uploadMemoryBytes: 8 * MiB,
      lowWaterBytes: MiB,
      ballastBytes: MiB,
      cacheBytes: 0, // the scrubber reads what is on the disk
      hashThreadsMax: 1,
    })
    const groups = await NodeGroups.open({
      nodeId: id,
      notes: store,
      lookUp: async (number) => this.#rows.get(number),
    })
    await groups.learn(group)
    const node = new LocalNode({ store, groups, peers: this })
    const server = await serveBlobStore(node, { ...plainServer, secret })
    const { control, bytes } = server
    const remote = new RemoteBlobStore({ ...plainRemote, node: id, control, bytes, secret })
    this.#running.set(id, { store, node, server, remote })
  }

  async stop(id: string): Promise<void> {
    const { store, server, remote } = this.running(id)
    this.#running.delete(id)
    await remote.close()
    await server.close({ drainMs: 0 })
    await store.close()
  }

  async close(): Promise<void> {
    for (const id of this.#running.keys()) await this.stop(id)
  }

  running(id: string): ServedNode {
    return this.#running.get(id) as ServedNode
  }

  /** No other process notices it, or repeats it. */
  silence(id: string, silent: boolean): void {
    if (silent) this.#silent.add(id)
    else this.#silent.delete(id)
  }

  frontend(): ReplicatedBlobStore {
    return new ReplicatedBlobStore({
      ...plainFrontend,
      region: 'r1',
      groups: this.#rows,
      peers: this,
    })
  }

  scrub(id: string): Promise<ScrubResult> {
    const { node, store } = this.running(id)
    const sources = { self: id, region: 'r1', groups: this.#rows, peers: this }
    return new Scrubber({
      ...plainScrubber,
      store,
      repair: (copy) => node.fetch(copy, repairSources(copy, sources), { pinMs: 0 }),
      clock: systemClock,
      bytesPerSecond: 1e12,
      log: quiet,
    }).pass()
  }

  node(id: string): StorageNode | undefined {
    return this.#silent.has(id) ? undefined : this.#running.get(id)?.remote
  }

  isAlive(id: string): boolean {
    return this.node(id) !== undefined
  }

  regionOf(): string {
    return 'r1'
  }
}

/** One bit of each file of this kind. */
function flip(directory: string, kind: RegExp, placeIn: (bytes: Buffer) => number): number {
  const files = readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .map((name) => join(directory, name))
    .filter((path) => kind.test(path) && statSync(path).size > 0)
  for (const path of files) {
    const bytes = readFileSync(path)
    const at = placeIn(bytes)
    if (at < 0) continue
    bytes[at] = (bytes[at] as number) ^ 0x10
    writeFileSync(path, bytes, { flag: 'r+' })
  }
  return files.length
}

t.test('damage on the disk of a node is found and repaired without help', async (t) => {
  t.teardown(() => nodes.close()) // before the directory is removed
  const nodes = new TwoNodes(t.testdir())
  await nodes.start('a')
  await nodes.start('b')
  const directory = join(nodes.path, 'a')
  const frontend = nodes.frontend()
  const blobs = new Map<BlobInfo, Buffer>()
  for (const size of [5_000, 70_000, 2 * MiB + 7]) {
    const bytes = randomBytes(size)
    blobs.set(await put(frontend, bytes, { pinMs: 0 }), bytes)
  }
  const isWhole = async (id: string) => {
    for (const [info, bytes] of blobs)
      if (!bytes.equals(await get(nodes.running(id).store, info, 0, info.size))) return false
    return true
  }
  t.match(await nodes.scrub('a'), { copies: 3, damaged: 0 })

  await t.test('damaged bytes in an extent are repaired from the replica', async (t) => {
    for (const bytes of blobs.values())
      flip(directory, /\.extent$/, (extent) => extent.indexOf(bytes.subarray(0, 64)))
    nodes.silence('b', true)
    t.match(await nodes.scrub('a'), { copies: 3, damaged: 3, repaired: 0 }, 'no node has them')
    for (const info of blobs.keys()) {
      t.match(await nodes.running('a').store.stat(info), { damaged: true }, 'quarantined')
      await t.rejects(get(nodes.running('a').remote, info, 0, info.size), { code: 'CORRUPT' })
    }
    t.ok(await isWhole('b'))
    nodes.silence('b', false)
    t.match(await nodes.scrub('a'), { copies: 3, damaged: 3, repaired: 3 })
    t.ok(await isWhole('a'))
    t.match(await nodes.scrub('a'), { copies: 3, damaged: 0 })
  })

  await t.test(
    'after damage to the log of the catalogue the extents restore all rows, and followers compare',
    async (t) => {
      const before = await positionOf(nodes.running('a').node)
      await nodes.stop('a')
      t.ok(flip(directory, /\.log$/, () => 0) > 0)
      await nodes.start('a')
      t.match(await nodes.scrub('a'), { copies: 3, damaged: 0, unreadable: 0 })
      t.ok(await isWhole('a'))
      const pulled = await nodes.running('a').remote.pull({ after: before, limit: 10 })
      t.equal(pulled.kind, 'unknown position', 'earlier entries may be among the lost ones')
    },
  )

  await t.test('a table of the catalogue: a start rebuilds it from the extents', async (t) => {
    await nodes.stop('a')
    await nodes.start('a') // RocksDB's log becomes a table
    await nodes.stop('a')
    t.ok(flip(directory, /\.sst$/, () => 100) > 0)
    await nodes.start('a')
    const scrubbed = await nodes.scrub('a').catch((error: unknown) => error)
    if (scrubbed instanceof BlobFault) {
      // The start did not find it, the scrub did.
      t.equal(scrubbed.code, 'CORRUPT')
      t.equal((await nodes.running('a').store.usage()).writable, false)
      await nodes
        .stop('a')
        .catch((error: BlobFault) => t.equal(error.code, 'CORRUPT', 'it has no last batch'))
      await nodes.start('a')
    }
    t.match(await nodes.scrub('a'), { copies: 3, damaged: 0, unreadable: 0 })
    t.equal((await nodes.running('a').store.usage()).writable, true)
    t.ok(await isWhole('a'))
  })

  const bytes = randomBytes(100)
  const info = await put(frontend, bytes)
  t.ok(await nodes.running('a').store.stat(info), 'and it accepts uploads as before')
})

async function positionOf(node: StorageNode): Promise<LogPosition> {
  const pulled = await node.pull({ limit: 1 })
  return pulled.kind === 'unknown position' ? pulled.now : pulled.through
}
