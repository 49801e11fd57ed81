/** Timers of an account, and hosts whose clock is wrong. */
import t from 'tap'
import { expire } from './asks.ts'
import { ManualTime, settled, World } from './world.ts'

t.test(
  'a timer is durable before the answer, fires in time, also after a crash, and its row is removed',
  async (t) => {
    const world = new World()
    t.teardown(() => world.close())
    const time = new ManualTime()
    const host = world.host('one', { clock: time, timers: time })
    await settled()
    await world.create()
    await world.folder('short')
    await world.folder('long')
    const soon = Math.floor(time.now() / 1000) + 100
    const row = world.medium.hold('lookup.write', { target: (key) => key.startsWith('wake/') })
    let answered = false
    const setting = expire(world, 'short', soon).then(() => {
      answered = true
    })
    await row.reached
    await settled()
    t.notOk(answered)
    row.release()
    await setting
    await expire(world, 'long', soon + 1000)
    const [timer = ''] = await world.keys('wake/')
    t.equal(String(await world.lookups.get(timer)), String(soon))
    await time.advance(98_000)
    t.strictSame((await world.names()).sort(), ['long', 'short'])
    await time.advance(4000)
    t.strictSame(await world.names(), ['long'])

    world.kill(host)
    world.hostId = 'two'
    const later = new ManualTime()
    const two = world.host('two', { clock: later, timers: later })
    await settled()
    await later.advance(2_000_000)
    t.equal(two.activeAccounts, 0, 'fired and out of memory')
    t.strictSame(await world.names(), [])
    t.strictSame(await world.keys('wake/'), [])
  },
)

t.test('a timer that cannot be fired is retried', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const time = new ManualTime()
  const host = world.host('one', { clock: time, timers: time })
  await world.create()
  await world.folder('a')
  await expire(world, 'a', Math.floor(time.now() / 1000) + 10)
  await time.advance(1000)
  await host.close({ drainMs: 10_000 })
  const next = new ManualTime()
  const heal = world.medium.fail('acquire', { code: 'UNAVAILABLE', times: Number.POSITIVE_INFINITY })
  world.host('two', { clock: next, timers: next })
  world.hostId = 'two'
  await settled()
  await next.advance(30_000)
  heal()
  await next.advance(10_000)
  t.strictSame(await world.names(), [])
})

t.test('while the clock is off no timer fires, and all due ones do once it is right', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const time = new ManualTime()
  let aheadMs = 0
  const clock = { now: () => time.now() + aheadMs, monotonic: () => time.monotonic() }
  world.host('one', { clock, timers: time, isClockOff: () => aheadMs !== 0 })
  await world.create()
  for (const name of ['soon', 'later']) await world.folder(name)
  await expire(world, 'soon', Math.floor(time.now() / 1000) + 40)
  await expire(world, 'later', Math.floor(time.now() / 1000) + 3_000)
  aheadMs = 3_600_000
  await time.advance(50_000)
  t.strictSame((await world.names()).sort(), ['later', 'soon'])
  t.match(world.warnings, [/^the wall clock is far from where it should be/], 'said once')
  aheadMs = 0
  await time.advance(4_000)
  t.strictSame(await world.names(), ['later'])
})

t.test('a host whose clock is off closes no hours', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  world.host('one')
  await world.create()
  await world.folder('later')
  await expire(world, 'later', Math.floor(Date.now() / 1000) + 7_200)
  const time = new ManualTime()
  const clock = { now: () => Date.now() + 100 * 3_600_000, monotonic: () => time.monotonic() }
  const bounds = { relistMs: 5_000 }
  world.host('ahead', { clock, timers: time, isClockOff: () => true, hostOf: () => 'one', bounds })
  await time.advance(20_000)
  const cursors = await world.keys('hours/')
  t.ok(cursors.length > 0)
  for (const key of cursors) {
    const hour = Number(Buffer.from((await world.lookups.get(key)) ?? []).toString())
    t.ok(hour <= Date.now() / 3_600_000 + 1, `${key} is ${hour}`)
  }
})
