import t from 'tap'
import { FairLanes } from '../src/turns/fair-lanes.ts'
import { RecentUse } from '../src/turns/recent-use.ts'

function lanes() {
  const time = { nowMs: 0 }
  const use = new RecentUse({ monotonic: () => time.nowMs })
  const waiting = new FairLanes<string>(use)
  const push = (...names: string[]) => {
    for (const name of names) waiting.push(name.charAt(0), name)
  }
  const all = () => {
    const served: string[] = []
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) served.push(next.item)
    return served
  }
  return { time, use, waiting, push, all }
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
  const { use, push, all } = lanes()
  use.add('a', 5)
  use.add('b', 1)
  use.add('b', 1)
  push('a1', 'b1', 'c1')
  t.same(all(), ['c1', 'b1', 'a1'])
  push('a1', 'c1')
  t.same(all(), ['c1', 'a1'])
})

t.test('a network for which one waits goes before one with several that used nearly as much', async (t) => {
  const { use, push, all } = lanes()
  use.add('a', 3)
  use.add('b', 4)
  push('a1', 'a2', 'b1')
  t.same(all(), ['b1', 'a1', 'a2'])
})

t.test('what goes on is before the others of its network', async (t) => {
  const { waiting, push, all } = lanes()
  push('a1', 'b1', 'a2')
  waiting.push('a', 'a0', true)
  t.same(all(), ['a0', 'b1', 'a1', 'a2'])
})

t.test('one pause does not put a network behind those that ask all the time', async (t) => {
  const { use, push, all } = lanes()
  use.add('a', 130)
  for (let piece = 0; piece < 5; piece++) use.add('b', 1)
  push('b1', 'a1')
  t.same(all(), ['a1', 'b1'])
})

t.test('use is forgotten after half a second', async (t) => {
  const { time, use, push, all } = lanes()
  use.add('a', 5)
  time.nowMs = 300
  push('a1', 'b1')
  t.same(all(), ['b1', 'a1'], 'of the window before')
  time.nowMs = 600
  push('a1', 'b1')
  t.same(all(), ['a1', 'b1'], 'as long as it waits')
  use.add('a', 5)
  time.nowMs = 9_000
  push('a1', 'b1')
  t.same(all(), ['a1', 'b1'], 'nothing happened meanwhile')
})
