/** The two copies of a home region are on different machines. */

import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { GroupMap, type GroupNode, type PlacementGroup, planGroups } from '../src/index.ts'
import { group } from './region.ts'

const regions = ['r1', 'r2']

function node(id: string, machine: string | undefined, more: Partial<GroupNode> = {}): GroupNode {
  return { id, region: 'r1', machine, ready: true, lost: false, draining: false, freeBytes: 1, ...more }
}

/** Node names are ordered by disk, then by host, as deployments name them. */
function nodesOfHosts(disks: readonly number[], region = 'r1'): GroupNode[] {
  return disks.flatMap((count, host) =>
    Array.from({ length: count }, (_, disk) =>
      node(`storage-${disk}-${region}-${host}`, `${region}-${host}`, { region }),
    ),
  )
}

/** Carries out plans for a region until nothing changes. */
function settle(
  map: GroupMap,
  nodes: readonly GroupNode[],
  { region = 'r1', arriving = false }: { region?: string; arriving?: boolean } = {},
): PlacementGroup[] {
  for (let rounds = 0; rounds < 10; rounds++) {
    const changes = planGroups({ region, regions, nodes, groups: map.all(), arriving })
    if (changes.length === 0) return [...map.all()]
    for (const change of changes) map.learn({ ...change, number: change.number ?? map.all().length + 1 })
  }
  throw new Error('the plans do not end')
}

function machinesOf(nodes: readonly GroupNode[], { members }: PlacementGroup): number {
  return new Set(members.map((id) => nodes.find((one) => one.id === id)?.machine)).size
}

function countsOf(nodes: readonly GroupNode[], groups: readonly PlacementGroup[]): number[] {
  return nodes.map(
    ({ id }) => groups.filter(({ members, writable }) => writable && members.includes(id)).length,
  )
}

const hosts = fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 2, maxLength: 8 })

t.test('nodes that came together form pairs on two machines, spread evenly', async () => {
  fc.assert(
    fc.property(hosts, (disks) => {
      const nodes = nodesOfHosts(disks)
      const groups = settle(new GroupMap(), nodes)
      for (const one of groups) assert.equal(machinesOf(nodes, one), 2, one.members.join())
      const counts = countsOf(nodes, groups)
      assert.ok(Math.min(...counts) >= 1, 'each takes uploads')
      // One machine may have more disks than all others.
      const others = (host: number) => disks.reduce((sum, count) => sum + count, 0) - (disks[host] ?? 0)
      const most = Math.max(...disks.map((count, host) => Math.ceil(count / others(host))))
      assert.ok(Math.max(...counts) <= most + 1, `${counts} of ${disks}`)
    }),
  )
})

t.test('machines that came one after another have no group with all its copies on one', async () => {
  fc.assert(
    fc.property(hosts, (disks) => {
      const map = new GroupMap()
      const nodes: GroupNode[] = []
      for (const one of nodesOfHosts(disks)) {
        nodes.push(one)
        settle(map, nodes)
      }
      for (const one of map.all()) {
        assert.ok(machinesOf(nodes, one) >= 2, one.members.join())
        // Two copies are enough for an upload: here they could be on one machine.
        if (one.members.length > 2) assert.ok(!one.writable)
      }
      assert.ok(Math.min(...countsOf(nodes, map.all())) >= 1, 'each takes uploads')
    }),
  )
})

t.test('a group on one machine gets a member on another, and takes no new uploads', async (t) => {
  const [a, b, c] = [node('a', 'm1'), node('b', 'm1'), node('c', 'm2')]
  const groups = [group(['a', 'b'])]
  const plan = (nodes: GroupNode[], arriving = false) =>
    planGroups({ region: 'r1', regions, nodes, groups, arriving })
  t.same(plan([a, b]), [], 'one machine alone')
  t.match(plan([a, b, c]), [
    { number: 1, version: 2, members: ['a', 'b', 'c'], writable: false },
    { members: ['a', 'c'], writable: true },
    { members: ['b', 'c'], writable: true },
  ])
  t.same(plan([a, b, c], true), [], 'later, while nodes arrive')
  t.same(plan([a, b, node('c', undefined)]).length, 3, 'an unknown machine is another one')
})

t.test('a lost node is replaced on another machine than the one that is left', async (t) => {
  const nodes = [
    node('a', 'm1'),
    node('b', 'm2', { ready: false, lost: true }),
    node('c', 'm1', { freeBytes: 1000 }),
    node('d', 'm3'),
  ]
  const [changed] = planGroups({ region: 'r1', regions, nodes, groups: [group(['a', 'b'])] })
  t.match(changed, { number: 1, members: ['a', 'd'] })
})

t.test('while nodes arrive, only what is lost or alone changes', async (t) => {
  const all = [node('a', 'm1'), node('b', 'm2'), node('x', 'm8', { region: 'r2' })]
  const plan = (nodes: GroupNode[], groups: PlacementGroup[]) =>
    planGroups({ region: 'r1', regions, nodes, groups, arriving: true })
  t.same(plan(all, []), [], 'no new group')
  t.same(plan(all, [group(['a', 'b'])]), [], 'no first copy elsewhere')
  t.match(plan(all, [group(['a'])]), [{ members: ['a', 'b'], remote: [] }], 'a second copy at once')
  const lost = node('y', 'm9', { region: 'r2', ready: false, lost: true })
  t.match(
    plan([...all, lost], [group(['a', 'b'], { remote: ['y'] })]),
    [{ remote: ['x'] }],
    'a lost copy at once',
  )
})

t.test('copies elsewhere are spread evenly when its nodes came together', async () => {
  fc.assert(
    fc.property(hosts, hosts, (here, there) => {
      const map = new GroupMap()
      const nodes = [...nodesOfHosts(here), ...nodesOfHosts(there, 'r2')]
      const remotes = settle(map, nodes).flatMap(({ remote }) => remote)
      const counts = nodes
        .filter(({ region }) => region === 'r2')
        .map(({ id }) => remotes.filter((one) => one === id).length)
      assert.ok(Math.max(...counts) - Math.min(...counts) <= 1, String(counts))
    }),
  )
})
