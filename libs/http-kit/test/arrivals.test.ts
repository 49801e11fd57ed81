import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { Arrivals } from '../src/arrivals.ts'

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(1)
}

t.test('new connections are read one after the other, and networks take turns', async (t) => {
  const arrivals = new Arrivals()
  const read: string[] = []
  for (const network of ['many', 'many', 'many', 'many', 'two', 'three'])
    arrivals.enter(network, () => read.push(network) > 0)
  t.same(read, ['many'], 'at once')
  await until(() => read.length === 6)
  t.same(read, ['many', 'many', 'two', 'three', 'many', 'many'])
})

for (const { tookMs, restMs } of [
  { tookMs: 8, restMs: 8 },
  { tookMs: 500, restMs: 100 },
])
  t.test(`after ${tookMs} ms the loop reads no new connection for ${restMs} ms`, async (t) => {
    let nowMs = 0
    const arrivals = new Arrivals({ monotonic: () => nowMs })
    const readAt: number[] = []
    const enter = (ms: number) =>
      arrivals.enter('one', () => {
        readAt.push(performance.now())
        nowMs += ms
        return true
      })
    enter(tookMs)
    enter(0)
    await until(() => readAt.length === 2)
    const [first = 0, second = 0] = readAt
    t.ok(second - first >= restMs - 1, 'a timer may be a fraction early')
  })

t.test('short reads share a rest', async (t) => {
  let nowMs = 0
  const arrivals = new Arrivals({ monotonic: () => nowMs })
  let read = 0
  let timers = 0
  const { setTimeout: original } = globalThis
  t.teardown(() => {
    globalThis.setTimeout = original
  })
  globalThis.setTimeout = ((...args: Parameters<typeof original>) => {
    timers++
    return original(...args)
  }) as typeof original
  for (let number = 0; number < 8; number++)
    arrivals.enter('one', () => {
      read++
      nowMs += 0.5
      return true
    })
  while (read < 8) await new Promise((resolve) => setImmediate(resolve))
  t.equal(timers, 1)
})

t.test("closed connections take no other's turn", async (t) => {
  const arrivals = new Arrivals()
  const asked: number[] = []
  arrivals.enter('one', () => true)
  for (let number = 0; number < 1_000; number++) arrivals.enter('one', () => asked.push(number) < 0)
  arrivals.enter('two', () => asked.push(1_000) > 0)
  await until(() => asked.length > 1)
  t.same(asked.slice(0, 2), [0, 1_000], 'the first of one network, then the other one’s')
})
