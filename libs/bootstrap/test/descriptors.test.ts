import t from 'tap'
import { limitIn } from '../src/descriptors.ts'
import { descriptorLimit, divideDescriptors, StartFault } from '../src/index.ts'

const needs = {
  publicHosts: 3,
  stores: true,
  cluster: false,
  connectionsMax: undefined,
  connectionsPerNetworkMax: undefined,
  networksUnlimited: false,
}

/** The sum of a budget, including the fixed parts: 64 of the process and 88 of the stores. */
function sum({
  connections,
  adminConnections,
  openExtentsMax,
  peerConnections: { control, bytes },
}: ReturnType<typeof divideDescriptors>): number {
  return 64 + 88 + adminConnections.max + connections.max * 3 + openExtentsMax * 2 + control + bytes
}

t.test('connections from other nodes have their part, and users keep the larger one', async (t) => {
  const node = { ...needs, cluster: true, publicHosts: 3 }
  for (let limit = 440; limit < 20_000; limit += 37) {
    const budget = divideDescriptors(limit, node)
    if (128 + sum(budget) > limit) t.fail(`${limit} descriptors, ${128 + sum(budget)} given`)
  }
  const { peerConnections, connections } = divideDescriptors(1_024, node)
  t.ok(peerConnections.control >= 32, `${peerConnections.control} processes`)
  t.ok(peerConnections.bytes >= 128, `${peerConnections.bytes} streams`)
  t.ok(connections.max * 3 > peerConnections.control + peerConnections.bytes)
  t.same(divideDescriptors(1_048_576, node).peerConnections, { control: 1_024, bytes: 4_096 })
  t.same(divideDescriptors(1_024, needs).peerConnections, { control: 0, bytes: 0 })
})

t.test('the parts never add up to more than the limit, and users get most of it', async (t) => {
  for (let limit = 248; limit < 20_000; limit += 37) {
    const budget = divideDescriptors(limit, needs)
    if (sum(budget) > limit) t.fail(`${limit} descriptors, ${sum(budget)} given`)
  }
  const { connections, openExtentsMax, adminConnections } = divideDescriptors(1_024, needs)
  t.ok(connections.max >= 150, `${connections.max} connections a host of 1,024 descriptors`)
  t.ok(connections.perNetworkMax >= 32)
  t.ok(openExtentsMax >= 64)
  t.equal(adminConnections.max, 32)
})

t.test('many descriptors are not all used', async (t) => {
  const { connections, openExtentsMax } = divideDescriptors(1_048_576, needs)
  t.same(
    { connections, openExtentsMax },
    { connections: { max: 4_096, perNetworkMax: 1_024 }, openExtentsMax: 512 },
  )
})

t.test('too few are refused with the needed number and the place to raise it', async (t) => {
  const refused = (limit: number, more = {}) => {
    try {
      divideDescriptors(limit, { ...needs, ...more })
      return undefined
    } catch (error) {
      return error as StartFault
    }
  }
  t.match(refused(64), {
    code: 'TOO_FEW_DESCRIPTORS',
    message: /may open 64 files, but takes 248 or more: .*ulimit -n.*LimitNOFILE/,
  })
  t.equal(refused(248), undefined)
  t.ok(refused(247) instanceof StartFault)
  t.match(refused(1_024, { connectionsMax: 1_000 }), {
    message: /takes 1200 or more with HOLDFAST_CONNECTIONS_MAX=1000: .*`ulimit -n 4096`/,
  })
  t.match(
    refused(4_096, { connectionsMax: 100_000 }),
    { message: /takes 100200 or more .*`ulimit -n 100200`.*LimitNOFILE=100200.*nofile=100200/ },
    'the advice is enough for the request',
  )
  t.equal(refused(4_096, { connectionsMax: 1_000 }), undefined)
})

t.test('a start that leaves users few connections warns', async (t) => {
  const { warning, connections } = divideDescriptors(256, needs)
  t.match(warning, `may open 256 files, which leaves ${connections.max} connections for each host`)
  t.match(warning, '`ulimit -n 4096`')
  t.equal(divideDescriptors(1_024, needs).warning, undefined)
  t.equal(divideDescriptors(1_024, { ...needs, connectionsMax: 30 }).warning, undefined, 'as requested')
})

t.test('settings and rate limits that are off', async (t) => {
  const set = divideDescriptors(4_096, { ...needs, connectionsMax: 300, connectionsPerNetworkMax: 7 })
  t.same(set.connections, { max: 100, perNetworkMax: 7 })
  const off = divideDescriptors(4_096, { ...needs, connectionsMax: 300, networksUnlimited: true })
  t.same(off.connections, { max: 100, perNetworkMax: Number.POSITIVE_INFINITY })
})

t.test('the limit is read from the system', async (t) => {
  t.ok(descriptorLimit() > 0)
  t.equal(limitIn('Max open files            1024                 524288               files     '), 1_024)
  t.equal(
    limitIn('Max open files            unlimited            unlimited            files     '),
    Number.MAX_SAFE_INTEGER,
  )
  t.equal(limitIn('nothing'), undefined)
})
