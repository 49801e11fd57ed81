/** When a storage node may be drained. */
import { MemoryBus } from '@holdfast/bus'
import { RefusalError } from '@holdfast/http-kit'
import { MemoryLookupStore } from '@holdfast/journal/testing'
import type { Heartbeat } from '@holdfast/wire/cluster'
import t, { type Test } from 'tap'
import { NodeAdminStates } from '../src/storage/node-admin-states.ts'
import { drainNode, returnNode } from '../src/storage/storage-nodes.ts'

/** Processes of one cluster, each with its own view of the operator's decisions. */
function cluster(t: Test) {
  const lookups = new MemoryLookupStore()
  const bus = new MemoryBus()
  const beats: Partial<Heartbeat>[] = [
    { id: 'a1', region: 'eu-par', ready: true },
    { id: 'a2', region: 'eu-par', ready: true },
    { id: 'b1', region: 'na-nyc', ready: true },
    { id: 'b2', region: 'na-nyc', ready: false },
  ]
  const join = () => {
    const nodes = new NodeAdminStates({ lookups, bus, onFault: (error) => t.fail(String(error)) })
    t.teardown(() => nodes.close())
    const parts = { nodes, peers: { beats: () => beats }, groups: { map: { all: () => [] } } }
    return parts as unknown as Parameters<typeof drainNode>[0]
  }
  return { beats, join }
}

const last = new RefusalError('error-nodeLast')

t.test('the last ready node of a region is not drained: nothing could take what it holds', async (t) => {
  const { beats, join } = cluster(t)
  const [one, other] = [join(), join()]
  await t.rejects(drainNode(one, 'b1'), last, 'the other one takes no uploads')
  t.equal(one.nodes.of('b1'), undefined)
  t.match(await drainNode(one, 'a1'), { order: 'draining' })
  t.match(await drainNode(other, 'a1'), { order: 'draining' }, 'a repeated command')
  await t.rejects(drainNode(other, 'a2'), last, 'another process drained the other one')
  t.equal(other.nodes.of('a2'), undefined)
  await returnNode(other, 'a1')
  t.match(await drainNode(one, 'a2'), { order: 'draining' })
  beats.push({ id: 'a3', region: 'eu-par', ready: true })
  t.match(await drainNode(one, 'a1'), { order: 'draining' }, 'a node was added')
})

t.test('of two drains at one time that would leave none, one at most is accepted', async (t) => {
  const { join } = cluster(t)
  const [one, other] = [join(), join()]
  // Both have looked before either one writes.
  const looked = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  for (const [at, { nodes }] of [one, other].entries()) {
    const set = nodes.set.bind(nodes)
    nodes.set = async (node, state) => {
      looked[at]?.resolve()
      await Promise.all(looked.map(({ promise }) => promise))
      return set(node, state)
    }
  }
  const drains = await Promise.allSettled([drainNode(one, 'a1'), drainNode(other, 'a2')])
  t.ok(drains.some(({ status }) => status === 'rejected'))
  for (const drain of drains) if (drain.status === 'rejected') t.match(drain.reason, { status: last.status })
  await one.nodes.refresh()
  t.ok([...one.nodes.all().values()].length <= 1, 'a refused drain leaves no order')
})
