import t from 'tap'
import type { Refusal } from '../src/index.ts'
import { SmallPiecesLane } from '../src/small-pieces-lane.ts'

/** The clock moves when a test says so. */
function lane() {
  let nowMs = 0
  const called: string[] = []
  const small = new SmallPiecesLane({ monotonic: () => nowMs })
  const turnOf = (name: string) => ({
    readOn: () => void called.push(name),
    refuse: (refusal: Refusal) => void called.push(`${name}: ${refusal.status}`),
  })
  const of = (network: string, name = network) => ({
    begin: () => small.begin(network, turnOf(name)),
    wait: (tookMs: number) => {
      if (tookMs > 0) small.took(network, tookMs)
      small.wait(network, turnOf(name))
    },
    enter: () => small.enter(network, () => void called.push(name)),
    isKnown: () => small.isKnown(network),
  })
  /** Goes on until this number were called. */
  const until = async (ms: number, count: number) => {
    nowMs = ms
    while (called.length < count) await new Promise((resolve) => setTimeout(resolve, 1))
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  return { of, called, until }
}

t.test('after a read that took long nothing follows for three times as long', async (t) => {
  const { of, called, until } = lane()
  of('one').wait(10)
  of('two').wait(0)
  await until(29, 0)
  t.same(called, [])
  await until(30, 1)
  t.same(called, ['one'], 'and then one at a time')
  await until(32, 2)
  t.same(called, ['one', 'two'])
})

t.test('networks take turns, and what waits too long is refused', async (t) => {
  const { of, called, until } = lane()
  for (const name of ['one', 'one again', 'one once more']) of('one', name).wait(1)
  of('two').wait(0)
  await until(9, 1)
  await until(11, 2)
  t.same(called, ['one', 'two'])
  await until(2_500, 4)
  t.same(called.slice(2), ['one again: error-rateLimit', 'one once more: error-rateLimit'])
})

t.test('what begins does so one by one, at once where nothing goes on', async (t) => {
  const { of, called, until } = lane()
  t.equal(of('one').begin(), true)
  t.equal(of('two').begin(), false, 'the first one may be of small pieces')
  await until(2, 1)
  t.same(called, ['two'])
})

t.test('no more than 512 wait that may hold bytes', async (t) => {
  const { of, called, until } = lane()
  for (let number = 0; number < 512; number++) of(`network ${number}`).wait(1)
  t.same(called, [])
  of('late').wait(0)
  of('later').enter()
  t.same(called, ['late: error-rateLimit'])
  await until(60_000, 514)
  t.equal(called.at(-1), 'later', 'a connection that was not read waits on')
})

t.test('a network that sent small pieces is known for ten seconds', async (t) => {
  const { of, called, until } = lane()
  t.equal(of('one').isKnown(), false)
  of('one').wait(5)
  t.same([of('one').isKnown(), of('two').isKnown()], [true, false])
  await until(10_001, 1)
  t.equal(of('one').isKnown(), false)
  t.same(called, ['one: error-rateLimit'])
})
