/** Which rows and copies of a cluster are in its backup, and how nodes are kept from deleting. */
import { type BlobInfo, MemoryBlobStore, nameOfCopy } from '@holdfast/blob-store'
import { MemoryBus } from '@holdfast/bus'
import type { LookupEntry } from '@holdfast/journal'
import { systemClock } from '@holdfast/kernel'
import type { PlacementGroup } from '@holdfast/replication'
import t from 'tap'
import { copiesOfCluster } from '../src/backup/cluster-copies.ts'
import { eachOnce } from '../src/backup/cluster-rows.ts'
import type { ClusterPart } from '../src/cluster-part.ts'
import { HeldCollectors, serveHolding } from '../src/storage/holding.ts'

const entry = (key: string, value = ''): LookupEntry => ({ kind: 'lookup', key, value: Buffer.from(value) })

async function* listed<T>(items: readonly T[]): AsyncGenerator<T> {
  yield* items
}

t.test('a row that all regions have comes once, and none is missing', async (t) => {
  const here = [entry('a'), entry('b', '1'), entry('c'), entry('only here')]
  const there = [entry('only there'), entry('a'), entry('b', '2'), entry('c')]
  const rows = await Array.fromAsync(eachOnce([listed(here), listed(there), listed([entry('a')])]))
  t.same(rows.map(({ key, value }) => `${key}=${value}`).sort(), [
    'a=',
    'b=1',
    'b=2',
    'c=',
    'only here=',
    'only there=',
  ])
})

interface Node {
  store: MemoryBlobStore
  isAlive: boolean
}

/** A group of three nodes, two of which have each acknowledged copy. */
async function groupOfThree() {
  const nodes = new Map<string, Node>()
  for (const id of ['one', 'two', 'three'])
    nodes.set(id, { store: new MemoryBlobStore({ clock: systemClock }), isAlive: true })
  const group: PlacementGroup = {
    number: 8,
    version: 1,
    region: 'eu-par',
    members: ['one', 'two'],
    remote: ['three'],
    writable: true,
  }
  const copies: BlobInfo[] = []
  const put = async (text: string, ...ids: string[]) => {
    const uploadId = crypto.getRandomValues(new Uint8Array(16))
    for (const id of ids) {
      const stage = await (nodes.get(id) as Node).store.stage({
        uploadId,
        placement: { group: 8, version: 1 },
      })
      await stage.write(Buffer.from(text))
      copies.push(await stage.commit({ pinMs: 0, asNew: true }))
    }
  }
  const pairs = [
    ['one', 'two'],
    ['two', 'three'],
    ['one', 'three'],
  ]
  for (let at = 0; at < 30; at++) await put(`text ${at % 20}`, ...(pairs[at % 3] as string[]))
  const states = new Map<string, 'removed'>()
  const cluster = {
    groups: { refresh: async () => {}, map: { all: () => [group] } },
    peers: {
      isAlive: (id: string) => nodes.get(id)?.isAlive === true,
      node: (id: string) => nodes.get(id)?.store,
    },
    nodes: states,
  } as unknown as ClusterPart
  Object.assign(states, { of: (id: string) => states.get(id) })
  const names = new Set(copies.map(nameOfCopy))
  return { cluster, nodes, names, states }
}

async function namesIn(cluster: ClusterPart, reported: string[] = []): Promise<string[]> {
  const onIncomplete = (message: string) => reported.push(message)
  return (await Array.fromAsync(copiesOfCluster({ cluster, onIncomplete }))).map(nameOfCopy)
}

t.test('every copy of a group is listed once, as long as enough nodes answer', async (t) => {
  const { cluster, nodes, names } = await groupOfThree()
  t.equal(names.size, 30)
  for (const away of [undefined, 'one', 'three']) {
    for (const [id, node] of nodes) node.isAlive = id !== away
    const found = await namesIn(cluster)
    t.equal(found.length, 30)
    t.same(new Set(found), names, `without ${away}`)
  }
  for (const [id, node] of nodes) node.isAlive = id === 'two'
  await t.rejects(namesIn(cluster), { code: 'UNUSABLE', message: /group 8: 1 of 2 nodes.*one: is not heard/ })
})

t.test('a group whose other nodes are removed lists the copies of the remaining node', async (t) => {
  const { cluster, nodes, states } = await groupOfThree()
  for (const id of ['two', 'three']) {
    ;(nodes.get(id) as Node).isAlive = false
    states.set(id, 'removed')
  }
  const reported: string[] = []
  t.equal((await namesIn(cluster, reported)).length, 20)
  t.match(reported, [/group 8: 1 of 2 nodes/])
})

t.test('nodes hold until they are released, or not heard of again', async (t) => {
  const exchange = new MemoryBus()
  const bus = exchange.connect() as unknown as ClusterPart['bus']
  const held = new Map<string, number>()
  const passes = Promise.withResolvers<void>()
  for (const nodeName of ['one', 'two']) {
    const served = serveHolding({ bus, config: { nodeName } }, async () => {
      if (nodeName === 'two') await passes.promise
      held.set(nodeName, (held.get(nodeName) ?? 0) + 1)
      return () => void held.set(nodeName, (held.get(nodeName) ?? 0) - 1)
    })
    t.teardown(() => served.close())
  }
  const peers = { beats: () => [{ id: 'one' }, { id: 'two' }] } as unknown as ClusterPart['peers']
  const { signal } = new AbortController()
  const holding = HeldCollectors.hold({ bus, peers }, { by: 'a backup', clock: systemClock, signal })
  setTimeout(() => passes.resolve(), 700)
  const collectors = await holding
  t.same(
    [...held],
    [
      ['one', 1],
      ['two', 1],
    ],
    'passes that are under way end first',
  )
  await collectors.release()
  await new Promise((resolve) => setTimeout(resolve, 20))
  t.same(new Set(held.values()), new Set([0]))
  t.notOk(collectors.lost.aborted)
})
