/** The whole over loopback: three nodes on the network, a frontend, and nodes that die. */
import { MemoryBlobStore, type StorageNode } from '@holdfast/blob-store'
import { blobStoreContract, get, put } from '@holdfast/blob-store/testing'
import { type BlobStoreServer, RemoteBlobStore, serveBlobStore } from '@holdfast/blob-store-grpc'
import { plainRemote, plainServer } from '@holdfast/blob-store-grpc/testing'
import t, { type Test } from 'tap'
import { GroupMap, LocalNode, NodeGroups, type Peers, ReplicatedBlobStore, Replicator } from '../src/index.ts'
import { plainFrontend, plainReplicator } from '../src/testing.ts'
import { group, upload } from './region.ts'

const secret = 'a secret of this test'
const names = ['a', 'b', 'c']

async function cluster(t: Test) {
  const rows = new GroupMap()
  rows.learn(group(names))
  const remotes = new Map<string, RemoteBlobStore>()
  const servers = new Map<string, BlobStoreServer>()
  const stores = new Map<string, MemoryBlobStore>()
  const nodes = new Map<string, LocalNode>()
  const peers: Peers = {
    node: (id): StorageNode | undefined => remotes.get(id),
    isAlive: (id) => remotes.has(id),
    regionOf: () => 'r1',
  }
  for (const id of names) {
    const store = new MemoryBlobStore()
    const groups = await NodeGroups.open({ nodeId: id, notes: store, lookUp: async (n) => rows.get(n) })
    await groups.learn(group(names))
    const node = new LocalNode({ store, groups, peers })
    const server = await serveBlobStore(node, { ...plainServer, secret })
    const { control, bytes } = server
    stores.set(id, store)
    nodes.set(id, node)
    servers.set(id, server)
    remotes.set(
      id,
      new RemoteBlobStore({ ...plainRemote, node: id, control, bytes, secret }, { progressTimeoutMs: 1_000 }),
    )
  }
  const frontend = new ReplicatedBlobStore({
    ...plainFrontend,
    region: 'r1',
    groups: rows,
    peers,
  })
  t.teardown(async () => {
    for (const remote of remotes.values()) await remote.close()
    for (const server of servers.values()) await server.close({ drainMs: 0 })
  })
  return { frontend, servers, stores, nodes, peers }
}

t.test('the blob store suite holds for a frontend over three nodes on the network', async (t) => {
  blobStoreContract<Test>({
    test: (name, body) => t.test(name, body),
    passed: (t, name) => void t.pass(name),
    open: async (t) => (await cluster(t)).frontend,
  })
})

t.test(
  'a node that dies in the middle of an upload costs only its copy, which the third gets from the first',
  async (t) => {
    const { frontend, servers, stores } = await cluster(t)
    const bytes = upload(8 * 1024 * 1024)
    const stage = await frontend.stage()
    for (let at = 0; at < bytes.length; at += 65_536) {
      if (at === 4 * 1024 * 1024) await servers.get('b')?.close({ drainMs: 0 })
      await stage.write(bytes.subarray(at, at + 65_536))
    }
    const info = await stage.commit({ pinMs: 1000 })
    t.ok(await stores.get('a')?.stat(info))
    t.ok(await stores.get('c')?.stat(info))
    t.ok(bytes.equals(await get(frontend, info)))
  },
)

t.test('nodes follow each other over the network', async (t) => {
  const { frontend, nodes, stores, peers } = await cluster(t)
  const info = await put(frontend, upload(100_000))
  const replicator = new Replicator({
    ...plainReplicator,
    node: nodes.get('c') as LocalNode,
    peers,
    region: 'r1',
  })
  t.match(await replicator.round('a'), { compared: true, fetched: 1 })
  t.same(await stores.get('c')?.stat(info), await stores.get('a')?.stat(info))
  const next = await put(frontend, upload(1000))
  t.match(await replicator.round('a'), { compared: false, fetched: 1, behind: 0 })
  t.ok(await stores.get('c')?.stat(next))
  await replicator.close()
})
