/** Accounts leave memory when they are idle or memory is short. */
import t from 'tap'
import { idleMs } from './asks.ts'
import { ManualTime, settled, statusOf, World } from './world.ts'

t.test('an idle account leaves: released, nothing pending, and nothing is lost', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const time = new ManualTime()
  const host = world.host('one', { clock: time, timers: time })
  await world.create()
  await world.folder('a')
  t.equal((await world.keys('active/')).length, 1)
  await time.advance(idleMs - 2000)
  t.equal(host.activeAccounts, 1)
  await time.advance(4000)
  t.equal(host.activeAccounts, 0)
  t.strictSame(await world.keys('active/'), [])
  t.strictSame(await world.names(), ['a'])
  await time.advance(idleMs + 2000)
  t.equal((await world.journal.acquire(world.account, { owner: 'test' })).previousOwner, undefined)
})

t.test('an account that was only read leaves no rows', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const host = world.host('one')
  await world.create()
  await host.close({ drainMs: 10_000 })
  const time = new ManualTime()
  world.host('two', { clock: time, timers: time })
  world.hostId = 'two'
  const head = await world.head()
  await world.names()
  await time.advance(idleMs + 2000)
  t.equal(await world.head(), head)
  t.strictSame(await world.keys('active/'), [])
})

t.test('accounts leave when memory is short, the least recently used first', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const time = new ManualTime()
  const host = world.host('one', { clock: time, timers: time, bounds: { memoryBytesMax: 105_000 } })
  const accounts = Array.from({ length: 6 }, (_, at) => `1111111${at}-1111-4111-8111-111111111111`)
  for (const account of accounts) await world.create({ account })
  await world.names({ account: accounts[0] as string })
  await time.advance(1000)
  t.ok(host.activeAccounts >= 2 && host.activeAccounts <= 4, `${host.activeAccounts} left`)
  const before = world.medium.operations
  await world.names({ account: accounts[0] as string })
  t.equal(world.medium.operations, before, 'the one just used is still there')
})

t.test('accounts leave until memory suffices, also when very many were made', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const time = new ManualTime()
  const bounds = { memoryBytesMax: 105_000, passivationsAtOnceMax: 4 }
  const host = world.host('one', { clock: time, timers: time, bounds })
  for (let made = 0; made < 40; made++) {
    const account = `111111${10 + made}-1111-4111-8111-111111111111`
    await world.create({ account })
  }
  t.equal(host.activeAccounts, 40)
  await time.advance(1000)
  await settled()
  t.ok(host.activeAccounts <= 4, `${host.activeAccounts} are still there after one look`)
})

t.test('while memory is short an account is loaded when an idle one has left', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const time = new ManualTime()
  const bounds = { memoryBytesMax: 105_000, passivationsAtOnceMax: 1 }
  const host = world.host('one', { clock: time, timers: time, bounds })
  const accounts = Array.from({ length: 5 }, (_, at) => `1111111${at}-1111-4111-8111-111111111111`)
  for (const account of accounts) await world.create({ account })
  t.equal(host.activeAccounts, 5, 'none of them had rested, so none waits')
  await time.advance(300)
  const release = world.medium.hold('release')
  let came = false
  const coming = world.create({ account: world.account }).then(() => {
    came = true
  })
  await release.reached
  await settled()
  t.notOk(came, 'it waits until they have left')
  release.release()
  await coming
  t.ok(host.activeAccounts <= 4, `${host.activeAccounts} are there, before any look at all of them`)
})

t.test('an account requested while it leaves comes back', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const time = new ManualTime()
  world.host('one', { clock: time, timers: time })
  await world.create()
  const release = world.medium.hold('release')
  const leaving = time.advance(idleMs + 2000)
  await release.reached
  const change = world.folder('meanwhile')
  await settled()
  release.release()
  t.equal(statusOf(await change), 'ok')
  await leaving
  t.strictSame(await world.names(), ['meanwhile'])
})
