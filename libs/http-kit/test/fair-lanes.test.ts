import t from 'tap'
import { FairLanes } from '../src/turns/fair-lanes.ts'
import { RecentUse } from '../src/turns/recent-use.ts'

function lanes(littleMs = 0) {
  const time = { nowMs: 0 }
  const use = new RecentUse({ monotonic: () => time.nowMs })
  const waiting = new FairLanes<string>(use, littleMs)
  const push = (...names: string[]) => {
    for (const name of names) waiting.push(name.charAt(0), name)
  }
  const all = () => {
    const served: string[] = []
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) served.push(next.item)
    return served
  }
  /** In pieces of a millisecond: longer ones count less. */
  const spend = (network: string, ms: number) => {
    for (let piece = 0; piece < ms; piece++) use.add(network, 1)
  }
  return { time, use, waiting, spend, push, all }
}

t.test('networks that used the same take turns, and each is served in its own order', async (t) => {
  const { waiting, push, all } = lanes()
  push('a1', 'a2', 'a3', 'b1', 'c1', 'b2')
  t.equal(waiting.size, 6)
  t.same(waiting.shift(), { network: 'a', item: 'a1' })
  t.same(all(), ['b1', 'c1', 'a2', 'b2', 'a3'])
  t.same([waiting.size, waiting.shift()], [0, undefined])
})

t.test('the network that used the least time is next, also after it was gone', async (t) => {
  const { spend, push, all } = lanes()
  spend('a', 50)
  spend('b', 20)
  push('a1', 'b1', 'c1')
  t.same(all(), ['c1', 'b1', 'a1'])
  push('a1', 'c1')
  t.same(all(), ['c1', 'a1'])
})

t.test('a network with one waiting item goes before one with several that used nearly as much', async (t) => {
  const { spend, push, all } = lanes()
  spend('a', 30)
  spend('b', 40)
  push('a1', 'a2', 'b1')
  t.same(all(), ['b1', 'a1', 'a2'])
})

t.test('a network with little use does not wait for all later networks that used nothing', async (t) => {
  const { spend, push, all } = lanes(16)
  spend('a', 10)
  push('n1', 'a1', 'm1', 'o1')
  t.same(all(), ['n1', 'a1', 'm1', 'o1'])
  push('n1', 'a1', 'a2', 'm1')
  t.same(all(), ['n1', 'm1', 'a1', 'a2'], 'with several it waits')
})

t.test('a body that was begun is read before other bodies of its network', async (t) => {
  const { waiting, push, all } = lanes()
  push('a1', 'b1', 'a2')
  waiting.push('a', 'a0', true)
  t.same(all(), ['a0', 'b1', 'a1', 'a2'])
})

t.test('one pause does not put a network behind those that ask all the time', async (t) => {
  const { use, spend, push, all } = lanes()
  use.add('a', 130)
  spend('b', 20)
  push('b1', 'a1')
  t.same(all(), ['a1', 'b1'])
})

t.test('use is forgotten after half a second', async (t) => {
  const { time, spend, push, all } = lanes()
  spend('a', 20)
  time.nowMs = 300
  push('a1', 'b1')
  t.same(all(), ['b1', 'a1'], 'of the window before')
  time.nowMs = 600
  push('a1', 'b1')
  t.same(all(), ['a1', 'b1'], 'as long as it waits')
  spend('a', 20)
  time.nowMs = 9_000
  push('a1', 'b1')
  t.same(all(), ['a1', 'b1'], 'nothing happened meanwhile')
})
