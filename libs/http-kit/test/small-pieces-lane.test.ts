import t, { type Test } from 'tap'
import type { RefusalError } from '../src/index.ts'
import { type LaneBody, SmallPiecesLane } from '../src/reading/small-pieces-lane.ts'

/** The clock moves when a test says so. */
function lane(t: Test) {
  let nowMs = 0
  const bodies: LaneBody[] = []
  // What still waits is served, and nothing keeps the process.
  t.teardown(() => {
    nowMs = 1_000_000
    for (const body of bodies) body.leave()
  })
  const called: string[] = []
  const small = new SmallPiecesLane({ monotonic: () => nowMs })
  const turnOf = (name: string, isOpen = true) => ({
    readOn: () => {
      called.push(name)
      return isOpen
    },
    refuse: (refusal: RefusalError) => void called.push(`${name}: ${refusal.status}`),
  })
  const of = (network: string, name = network) => ({
    begin: (isOpen = true) => small.begin(network, turnOf(name, isOpen)),
    enter: (isOpen = true) => small.enter(network, turnOf(name, isOpen)),
    body: () => {
      const pause = () => void called.push(`${name} waits`)
      const body = small.beginBody(network, { ...turnOf(name), pause })
      bodies.push(body)
      return body
    },
    isKnown: () => small.isKnown(network),
  })
  /** The time passes to `ms`. Resolves when this number of turns were called in all. */
  const passTo = async (ms: number, count: number) => {
    nowMs = ms
    while (called.length < count) await new Promise((resolve) => setTimeout(resolve, 1))
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  return { of, called, passTo }
}

/** Reads of small pieces, after which the lane rests for this time. */
function restFor(body: LaneBody, ms: number): void {
  for (let restedMs = 0; restedMs < ms; restedMs += 240) body.took(80)
}

t.test('two bodies are read at a time, and start at once while nothing else waits', async (t) => {
  const { of, called, passTo } = lane(t)
  const one = of('one').body()
  of('two').body()
  of('three').body()
  t.same(called, ['one', 'two', 'three waits'])
  one.leave()
  await passTo(1, 4)
  t.same(called.slice(3), ['three'])
})

t.test('a body is read for ten milliseconds while others wait', async (t) => {
  const { of, called, passTo } = lane(t)
  for (const name of ['one', 'two', 'three', 'four']) of(name).body()
  await passTo(9, 4)
  t.same(called, ['one', 'two', 'three waits', 'four waits'])
  await passTo(10, 8)
  t.same(called.slice(4).sort(), ['four', 'one waits', 'three', 'two waits'])
})

t.test('after a read of small pieces nothing is read for three times as long', async (t) => {
  const { of, called, passTo } = lane(t)
  const one = of('one').body()
  one.took(10)
  of('two').body()
  t.same(called, ['one', 'one waits', 'two waits'])
  await passTo(29, 3)
  t.equal(called.length, 3)
  await passTo(30, 5)
  t.same(called.slice(3), ['one', 'two'])
})

t.test('the last read of a body counts, too', async (t) => {
  const { of, called, passTo } = lane(t)
  const one = of('one').body()
  one.leave()
  one.took(10)
  of('two').body()
  t.same(called, ['one', 'two waits'])
  await passTo(30, 3)
  t.same(called.slice(2), ['two'])
})

t.test('networks take turns, and a request that waits too long is refused', async (t) => {
  const { of, called, passTo } = lane(t)
  const one = of('one').body()
  one.took(80)
  for (const name of ['one again', 'one once more']) of('one', name).begin()
  of('two').begin()
  t.same(called, ['one', 'one waits'])
  await passTo(240, 4)
  t.same(called.slice(2), ['one', 'two'], 'first bytes are parsed one by one')
  restFor(one, 2_000)
  await passTo(2_410, 8)
  t.same(called.slice(4), [
    'one waits',
    'one again: error-rateLimit',
    'one once more: error-rateLimit',
    'one',
  ])
})

t.test('requests that waited because the process stalled are not refused', async (t) => {
  const { of, called, passTo } = lane(t)
  const one = of('one').body()
  const two = of('two').body()
  of('three').body()
  one.leave()
  two.leave()
  await passTo(60_000, 4)
  t.same(called.slice(3), ['three'])
})

t.test('a body that begins right after a stall does not hide the stall', async (t) => {
  const { of, called, passTo } = lane(t)
  for (const name of ['one', 'two', 'three']) of(name).body()
  void passTo(60_000, 0)
  of('four').body()
  await passTo(60_010, 6)
  t.notMatch(called.join(), 'error-rateLimit')
})

t.test('no more than 1,024 wait that may hold bytes', async (t) => {
  const { of, called, passTo } = lane(t)
  const one = of('one').body()
  one.took(80)
  for (let number = 1; number < 1_024; number++) of(`network ${number}`).begin()
  t.equal(called.length, 2)
  of('late').begin()
  of('later').enter()
  t.same(called.slice(2), ['late: error-rateLimit'])
  restFor(one, 10_000)
  await passTo(10_330, 3 + 1_024 + 1)
  t.equal(called.at(-1), 'later', 'a connection that was not read waits on')
})

t.test('closed connections take no turn', async (t) => {
  const { of, called, passTo } = lane(t)
  of('one').body().took(10)
  for (let number = 0; number < 1_000; number++) of('two', 'closed').enter(false)
  of('two', 'open').enter()
  of('two', 'next').enter()
  await passTo(30, 1_004)
  t.equal(called.at(-1), 'open')
  await passTo(32, 1_005)
  t.equal(called.at(-1), 'next')
})

t.test('no more than 8,192 wait unread', async (t) => {
  const { of, called, passTo } = lane(t)
  of('one').body().took(10)
  for (let number = 1; number < 8_192; number++) of('one').enter(false)
  of('one', 'late').enter()
  t.same(called.slice(2), ['late: error-rateLimit'])
  await passTo(30, 3 + 8_192)
})

t.test('a network that sent small pieces is known for ten seconds', async (t) => {
  const { of, passTo } = lane(t)
  t.equal(of('one').isKnown(), false)
  of('one').body().took(5)
  t.same([of('one').isKnown(), of('two').isKnown()], [true, false])
  await passTo(10_001, 3)
  t.equal(of('one').isKnown(), false)
})
