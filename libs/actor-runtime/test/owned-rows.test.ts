/**
 * Rows beside the journal while two hosts act as owner of an account, and after an owner crashed.
 */
import { MemoryBus } from '@holdfast/bus'
import t from 'tap'
import { type HostMetrics, noMetrics } from '../src/observer.ts'
import { blob } from './tiny-core.ts'
import { ManualTime, settled, statusOf, World } from './world.ts'

const shared = { ordered: false, exclusive: false }

function addFile(world: World, name: string, byte: number) {
  return world.ask({
    $case: 'addFile',
    value: {
      name,
      mimetype: '',
      blob: blob(byte),
      createAccount: undefined,
      folderId: undefined,
      modTime: undefined,
    },
  })
}
function remove(world: World, ...names: string[]) {
  return world.ask({
    $case: 'deleteContents',
    value: { contentIds: names, representation: undefined, heldSeconds: undefined },
  })
}
function expire(world: World, name: string, due: number | undefined) {
  const attribute = { $case: 'expiry' as const, value: { expiry: due, deleteAfterExpiry: false } }
  return world.ask({ $case: 'updateContent', value: { contentId: name, attribute } })
}
const reference = (key: string) => key.startsWith('ref/07')

/** The next host takes the account over while the previous one does not know of it. */
function takeOver(world: World, hostId: string) {
  const host = world.host(hostId)
  world.hostId = hostId
  return host
}

for (const sentFirst of [true, false])
  t.test(
    `a delete of a stale owner, sent ${sentFirst ? 'before' : 'after'} the fence, does not remove the new owner's reference`,
    async (t) => {
      const world = new World(shared)
      t.teardown(() => world.close())
      world.host('one')
      await world.create()
      await addFile(world, 'a', 7)
      t.equal((await world.keys('ref/07')).length, 1)
      const slow = world.medium.hold('lookup.write', { target: reference })
      await remove(world, 'a')
      await slow.reached
      takeOver(world, 'two')
      t.equal(statusOf(await addFile(world, 'b', 7)), 'ok')
      await settled()
      const again = world.medium.hold('lookup.write', { at: 'after', target: reference })
      // Late, or sent once more by an owner that does not know that it is fenced.
      if (sentFirst) slow.release()
      else {
        slow.release('UNAVAILABLE')
        await again.reached
        again.release()
      }
      await settled()
      t.strictSame(await world.names(), ['b'])
      t.equal((await world.keys('ref/07')).length, 1, 'the file that was acknowledged keeps its bytes')
    },
  )

t.test('a put of a stale owner does not bring back what the new owner removed', async (t) => {
  const world = new World(shared)
  t.teardown(() => world.close())
  world.host('one')
  await world.create()
  const slow = world.medium.hold('lookup.write', { target: reference })
  const late = world.ask(
    {
      $case: 'addFile',
      value: {
        name: 'late',
        mimetype: '',
        blob: blob(7),
        createAccount: undefined,
        folderId: undefined,
        modTime: undefined,
      },
    },
    { timeoutMs: 100 },
  )
  await slow.reached
  await t.rejects(late)
  takeOver(world, 'two')
  await addFile(world, 'a', 7)
  t.equal((await world.keys('ref/07')).length, 1)
  await remove(world, 'a')
  while ((await world.keys('ref/07')).length > 0) await settled()
  slow.release()
  await settled()
  t.strictSame(await world.names(), [])
  t.strictSame(await world.keys('ref/07'), [], 'the blob is not in use')
})

t.test("a stale host that passivates leaves the new owner's timer and active row", async (t) => {
  const world = new World(shared)
  t.teardown(() => world.close())
  const one = world.host('one', { bounds: { idleMs: 3_600_000 } })
  await world.create()
  await world.folder('a')
  await world.folder('b')
  const due = Math.floor(Date.now() / 1000) + 3600
  await expire(world, 'a', due)
  const timers = await world.keys('wake/')
  t.equal(timers.length, 1)
  await expire(world, 'a', undefined) // the row stays until passivation
  takeOver(world, 'two')
  t.equal(statusOf(await expire(world, 'b', due)), 'ok')
  t.strictSame(await world.keys('wake/'), timers)
  await one.close({ drainMs: 2000 })
  t.strictSame(await world.keys('wake/'), timers, 'its timer')
  t.equal((await world.keys('active/')).length, 1, 'and its active row')
})

for (const exclusive of [true, false])
  t.test(
    `effects are carried out although the previous owner only read and died, exclusive: ${exclusive}`,
    async (t) => {
      const world = new World({ ordered: exclusive, exclusive })
      t.teardown(() => world.close())
      const one = world.host('one')
      await world.create()
      await one.close({ drainMs: 10_000 })
      t.strictSame(await world.keys('active/'), [])
      const two = takeOver(world, 'two')
      await world.names()
      world.kill(two)
      const accept = world.mailer
      world.mailer = { send: () => Promise.reject(new Error('the relay is down')) }
      const three = takeOver(world, 'three')
      t.equal(statusOf(await world.ask({ $case: 'sendSignIn', value: {} })), 'ok')
      t.equal((await world.keys('active/')).length, 1, 'a mail is pending')
      world.kill(three)
      world.mailer = accept
      const four = takeOver(world, 'four')
      while (world.mails.length === 0) await settled()
      t.equal(world.mails.length, 1, 'without a request')
      await four.close({ drainMs: 10_000 })
      t.strictSame(await world.keys('active/'), [])
    },
  )

t.test('an activation whose write times are used up ends, and the next one continues', async (t) => {
  const world = new World(shared)
  t.teardown(() => world.close())
  world.host('one', { bounds: { rowWritesMax: 3 } })
  await world.create()
  for (let byte = 1; byte <= 9; byte++) t.equal(statusOf(await addFile(world, `${byte}`, byte)), 'ok')
  t.equal((await world.keys('ref/')).length, 9)
  const { epoch } = await world.journal.head(world.account)
  t.ok(epoch >= 3, `${epoch} epochs`)
})

/** Counts activations. */
function counting() {
  const counts = { activated: 0 }
  const metrics = new Proxy(noMetrics, {
    get: (_, name) =>
      name === 'activated' ? () => void counts.activated++ : noMetrics[name as keyof HostMetrics],
  })
  return { counts, metrics }
}

t.test('an active row without pending work wakes its account once, and is removed', async (t) => {
  const world = new World(shared)
  t.teardown(() => world.close())
  const one = world.host('one')
  await world.create()
  await one.close({ drainMs: 10_000 })
  const row = `active/home/gone/1/${world.account}`
  await world.lookups.write([
    { put: row, value: new Uint8Array() },
    { put: 'hosts/home/gone', value: Buffer.from(JSON.stringify({ from: 1, to: 3 })) },
  ])
  const { counts, metrics } = counting()
  const time = new ManualTime()
  const two = world.host('two', { clock: time, timers: time, metrics })
  await time.advance(10 * 60_000)
  t.strictSame(await world.keys('active/'), [])
  t.equal(counts.activated, 1)
  t.equal(two.activeAccounts, 0, 'and it is not kept in memory')
})

t.test('rows of a living host are not touched, and are found when it is gone', async (t) => {
  const world = new World(shared)
  t.teardown(() => world.close())
  const time = new ManualTime()
  let owner = 'one'
  const options = { clock: time, timers: time, hostOf: () => owner }
  const one = world.host('one', options)
  await world.create()
  const accept = world.mailer
  world.mailer = { send: () => Promise.reject(new Error('the relay is down')) }
  await world.ask({ $case: 'sendSignIn', value: {} })
  const { counts, metrics } = counting()
  const two = world.host('two', { ...options, metrics })
  owner = 'two'
  await time.advance(30_000)
  t.equal(counts.activated, 0, 'it is not gone')
  owner = 'one'
  world.kill(one)
  await time.advance(61_000)
  t.equal(counts.activated, 0, 'it is placed elsewhere')
  world.mailer = accept
  owner = 'two'
  await time.advance(61_000)
  t.equal(world.mails.length, 1)
  await time.advance(10 * 60_000)
  t.equal(two.activeAccounts, 0)
  t.strictSame(await world.keys('active/'), [])
})

t.test('an account that left with an effect undone and moved is woken at its new host', async (t) => {
  const world = new World(shared)
  t.teardown(() => world.close())
  const accept = world.mailer
  world.mailer = { send: () => Promise.reject(new Error('down')) }
  const time = new ManualTime()
  let owner = 'one'
  const options = { clock: time, timers: time, hostOf: () => owner, bounds: { mailAttemptsMax: 1 } }
  const one = world.host('one', options)
  world.host('two', options)
  await world.create()
  await world.ask({ $case: 'sendSignIn', value: {} })
  await time.advance(4 * 60_000)
  t.equal(one.activeAccounts, 0)
  world.mailer = accept
  owner = 'two'
  await time.advance(12 * 60_000)
  t.equal(world.mails.length, 1)
  t.strictSame(await world.keys('active/'), [])
})

t.test('a restarted host finds what it has left, in its own segments', async (t) => {
  const world = new World(shared)
  t.teardown(() => world.close())
  const time = new ManualTime()
  const options = { clock: time, timers: time, bounds: { activeRowsPerSegment: 2, activeSegmentsBack: 2 } }
  const first = world.host('one', options)
  const accept = world.mailer
  world.mailer = { send: () => Promise.reject(new Error('down')) }
  const accounts = Array.from({ length: 9 }, (_, at) => `1111111${at}-1111-4111-8111-111111111111`)
  for (const account of accounts) {
    await world.create({ account })
    await world.ask({ $case: 'sendSignIn', value: {} }, { account })
  }
  const segments = (await world.keys('active/')).map((key) => Number(key.split('/')[3]))
  const firstSegment = segments[0] as number
  t.same(
    segments.map((segment) => segment - firstSegment),
    [0, 0, 1, 1, 2, 2, 3, 3, 4],
  )
  await world.folder('moves along', { account: accounts[0] as string })
  await settled()
  t.ok((await world.keys('active/')).includes(`active/home/one/${firstSegment + 4}/${accounts[0]}`))
  t.equal((await world.keys('active/')).length, 9)
  world.kill(first)
  world.mailer = accept
  const again = world.host('one', options)
  await time.advance(30_000)
  t.equal(world.mails.length, 9, 'without a request')
  await time.advance(10 * 60_000)
  t.equal(again.activeAccounts, 0)
  t.strictSame(await world.keys('active/'), [])
})

const minuteMs = 60_000
const goneBounds = { goneHostSeconds: 5 * 60 }

t.test('the row of a host that never returns is removed some time after its last sign of life', async (t) => {
  const world = new World(shared)
  t.teardown(() => world.close())
  const time = new ManualTime()
  const timed = { clock: time, timers: time, bounds: { ...goneBounds, effectsWakeMs: minuteMs } }
  const accept = world.mailer
  world.mailer = { send: () => Promise.reject(new Error('down')) }
  const one = world.host('one', timed)
  await world.create()
  await world.ask({ $case: 'sendSignIn', value: {} })
  world.kill(one)
  world.host('two', timed)
  await settled()
  t.strictSame(await world.keys('hosts/'), ['hosts/home/one', 'hosts/home/two'], 'it has left a row')
  world.mailer = accept
  await time.advance(4 * minuteMs)
  t.equal(world.mails.length, 1)
  t.strictSame(await world.keys('hosts/'), ['hosts/home/one', 'hosts/home/two'], 'it may return')
  world.kill(world.host('one', timed))
  await time.advance(4 * minuteMs)
  t.strictSame(await world.keys('hosts/'), ['hosts/home/one', 'hosts/home/two'], 'it has returned')
  await time.advance(4 * minuteMs)
  t.strictSame(await world.keys('hosts/'), ['hosts/home/two'])
})

t.test('a host whose clock is off removes no row of another host', async (t) => {
  const world = new World(shared)
  t.teardown(() => world.close())
  const time = new ManualTime()
  const timed = { clock: time, timers: time, bounds: goneBounds }
  world.kill(world.host('one', timed))
  const ahead = { now: () => time.now() + 86_400_000, monotonic: () => time.monotonic() }
  let isOff = true
  world.host('two', { ...timed, clock: ahead, isClockOff: () => isOff })
  await time.advance(8 * minuteMs)
  t.strictSame(await world.keys('hosts/'), ['hosts/home/one', 'hosts/home/two'], 'it may return')
  isOff = false
  await time.advance(8 * minuteMs)
  t.strictSame(await world.keys('hosts/'), ['hosts/home/two'])
})

t.test('a host whose clock is far behind notes segments above those of its removed row', async (t) => {
  const world = new World(shared)
  t.teardown(() => world.close())
  const time = new ManualTime()
  const timed = { clock: time, timers: time, bounds: goneBounds }
  world.kill(world.host('one', timed))
  world.host('two', timed)
  await time.advance(8 * minuteMs)
  t.strictSame(await world.keys('hosts/'), ['hosts/home/two'])
  const daysMs = 3 * 86_400_000
  const behind = { now: () => time.now() - daysMs, monotonic: () => time.monotonic() }
  world.host('one', { ...timed, clock: behind })
  await settled()
  t.strictSame(await world.keys('hosts/'), ['hosts/home/one', 'hosts/home/two'])
})

for (const paused of ['before it takes a place', 'while it puts an active row'] as const) {
  t.test(`a host whose row was removed while it was paused is still found: ${paused}`, async (t) => {
    const world = new World(shared)
    t.teardown(() => world.close())
    const time = new ManualTime()
    const stopped = new ManualTime()
    let pausedMs = 0
    const clock = {
      now: () => stopped.now() + pausedMs,
      monotonic: () => stopped.monotonic(),
    }
    let owner = 'one'
    const options = { hostOf: () => owner, bounds: goneBounds }
    const one = world.host('one', { ...options, clock, timers: stopped })
    await settled()
    // By its clock requests are old.
    const timeoutMs = 60 * minuteMs
    const create = () =>
      world.ask(
        { $case: 'createAccount', value: { tokenKeyId: 1, email: undefined, isNewId: true } },
        { timeoutMs },
      )
    const isPutting = paused === 'while it puts an active row'
    const isActive = (key: string) => key.startsWith('active/')
    const held = isPutting ? world.medium.hold('lookup.write', { target: isActive }) : undefined
    const early = isPutting ? create() : undefined
    await held?.reached
    // It does not hear the other one.
    world.host('two', { ...options, clock: time, timers: time, bus: new MemoryBus() })
    await time.advance(8 * minuteMs)
    t.strictSame(await world.keys('hosts/'), ['hosts/home/two'])
    pausedMs = 20 * minuteMs
    const accept = world.mailer
    world.mailer = { send: () => Promise.reject(new Error('down')) }
    held?.release()
    await (early ?? create())
    t.strictSame(await world.keys('hosts/'), ['hosts/home/one', 'hosts/home/two'], 'before it relies on it')
    await world.ask({ $case: 'sendSignIn', value: {} }, { timeoutMs })
    world.kill(one)
    world.mailer = accept
    owner = 'two'
    await time.advance(2 * minuteMs)
    t.equal(world.mails.length, 1, 'what it owed')
  })
}

t.test('rows that could not be removed are removed later, also more than are remembered', async (t) => {
  const world = new World(shared)
  t.teardown(() => world.close())
  const time = new ManualTime()
  const host = world.host('one', { clock: time, timers: time, bounds: { failingAccountsMax: 1 } })
  const accounts = Array.from({ length: 5 }, (_, at) => `1111111${at}-1111-4111-8111-111111111111`)
  for (const account of accounts) await world.create({ account })
  const isRow = (key: string) => key.startsWith('active/')
  world.medium.fail('lookup.write', { code: 'UNAVAILABLE', times: 5, target: isRow })
  await time.advance(65_000)
  t.equal(host.activeAccounts, 0)
  t.equal((await world.keys('active/')).length, 5)
  await time.advance(20 * 60_000)
  t.strictSame(await world.keys('active/'), [])
})

t.test('a fenced owner does not count a row as removed', async (t) => {
  const world = new World(shared)
  t.teardown(() => world.close())
  const time = new ManualTime()
  const timed = { clock: time, timers: time, bounds: { relistMs: 3_600_000 } }
  const one = world.host('one', timed)
  await world.create()
  const two = world.host('two', timed)
  world.hostId = 'two'
  await world.folder('a')
  const [row = ''] = (await world.keys('active/')).filter((key) => key.includes('/two/'))
  world.kill(two)
  const clear = async () => {
    const answer = world.bus.request('accounts.one.clear', Buffer.from(row), { timeoutMs: 5000 })
    await time.advance(500)
    return answer
  }
  t.equal(String(await clear()), '', 'one does not know yet that it was fenced')
  t.ok((await world.keys('active/')).includes(row))
  t.equal(String(await clear()), 'cleared', 'now it owns the account again')
  t.notOk((await world.keys('active/')).includes(row))
  t.equal(one.activeAccounts, 1)
})
