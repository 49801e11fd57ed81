import t from 'tap'
import { RoundRobin } from '../src/index.ts'

t.test('lanes take turns, and each is served in its own order', async (t) => {
  const waiting = new RoundRobin<string, string>()
  for (const name of ['a1', 'a2', 'a3', 'b1', 'c1', 'b2']) waiting.push(name.charAt(0), name)
  t.equal(waiting.size, 6)
  const served = Array.from({ length: 4 }, () => waiting.shift())
  t.same(served, ['a1', 'b1', 'c1', 'a2'])
  waiting.push('c', 'c2')
  t.same([waiting.shift(), waiting.shift(), waiting.shift()], ['b2', 'a3', 'c2'])
  t.equal(waiting.shift(), undefined)
  t.equal(waiting.size, 0)
})

t.test('clear returns everything that waits', async (t) => {
  const waiting = new RoundRobin<string, number>()
  for (const [lane, n] of [
    ['a', 1],
    ['b', 2],
    ['a', 3],
  ] as const)
    waiting.push(lane, n)
  t.same(waiting.clear(), [1, 3, 2])
  t.same([waiting.size, waiting.shift()], [0, undefined])
})
