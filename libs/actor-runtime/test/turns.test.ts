/**
 * What one account promises its callers: order, durability before answers, one effect per request
 * id.
 */
import { AccountsUnavailable } from '@holdfast/accounts'
import { mintRequestId } from '@holdfast/kernel'
import { type AccountRequest, blank, CreateFolder } from '@holdfast/wire'
import t from 'tap'
import { noMetrics } from '../src/observer.ts'
import { open } from './asks.ts'
import { blob } from './tiny-core.ts'
import { itemsOf, ManualTime, routeOf, settled, statusOf, World } from './world.ts'

t.test('an account is made, changed, read, and is the same on another host after a crash', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const host = world.host()
  await world.create()
  await world.folder('first')
  await Promise.all(Array.from({ length: 20 }, (_, at) => world.folder(`f${at}`)))
  const names = await world.names()
  t.equal(names.length, 21)
  world.kill(host)
  world.host('two')
  world.hostId = 'two'
  t.strictSame(await world.names(), names)
})

t.test(
  'while an append is in flight the account continues to decide, and the next append carries all of it',
  async (t) => {
    const world = new World()
    t.teardown(() => world.close())
    world.host()
    await world.create()
    const head = await world.head()
    const hold = world.medium.hold('append')
    const first = world.folder('first')
    await hold.reached
    const rest = Array.from({ length: 50 }, (_, at) => world.folder(`f${at}`))
    await settled()
    t.equal(world.states.decided.filter((what) => what.startsWith('f')).length, 51, 'all are decided')
    t.ok(await open(Promise.race([first, ...rest])), 'none is answered')
    hold.release()
    await Promise.all([first, ...rest])
    t.equal(await world.head(), head + 2, 'two rows')
  },
)

t.test('reads and refusals wait for the flush that holds what they saw', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  world.host()
  world.states.foldersMax = 1
  await world.create()
  const hold = world.medium.hold('append')
  const change = world.folder('one')
  await hold.reached
  const refused = world.folder('two')
  const read = world.names()
  await settled()
  t.ok(await open(refused))
  t.ok(await open(read))
  hold.release()
  t.equal(statusOf(await change), 'ok')
  t.equal(statusOf(await refused), 'error-limits')
  t.strictSame(await read, ['one'])
})

t.test('a command that was refused is not carried out by a copy that comes later', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const host = world.host()
  world.states.foldersMax = 1
  await world.create()
  await world.folder('one')
  const deadlineMs = Date.now() + 10_000
  const request: AccountRequest = {
    accountId: world.account,
    requestId: mintRequestId(Date.now()),
    caller: { who: { $case: 'operator', value: {} } },
    clientNetwork: undefined,
    clientRequest: undefined,
    traceparent: undefined,
    tierNeeded: '',
    operation: {
      $case: 'createFolder',
      value: { parentFolderId: '', name: 'two', isPublic: undefined, modTime: undefined },
    },
    deadlineMs,
  }
  t.equal(statusOf(await host.take(request)), 'error-limits')
  world.states.foldersMax = 9
  t.equal(statusOf(await host.take(request)), 'error-limits', 'the same message')
  t.equal(
    statusOf(await host.take({ ...request, deadlineMs: deadlineMs - 1 })),
    'error-limits',
    'one that was sent before it',
  )
  t.strictSame(await world.names(), ['one'])
  t.equal(statusOf(await host.take({ ...request, deadlineMs: deadlineMs + 1 })), 'ok', 'another attempt')
  t.strictSame(await world.names(), ['one', 'two'])
})

t.test('stored refusals are bounded, and another activation decides again', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const host = world.host('one', { bounds: { refusalsKeptMax: 2 } })
  world.states.foldersMax = 0
  await world.create()
  const asked = Array.from({ length: 3 }, (_, at) => ({
    accountId: world.account,
    requestId: mintRequestId(Date.now()),
    caller: { who: { $case: 'operator' as const, value: {} } },
    clientNetwork: undefined,
    clientRequest: undefined,
    traceparent: undefined,
    tierNeeded: '',
    operation: { $case: 'createFolder' as const, value: { ...blank(CreateFolder), name: `f${at}` } },
    deadlineMs: Date.now() + 10_000,
  }))
  for (const request of asked) t.equal(statusOf(await host.take(request)), 'error-limits')
  world.states.foldersMax = 9
  const again = await Promise.all(asked.map((request) => host.take(request)))
  t.strictSame(again.map(statusOf), ['ok', 'error-limits', 'error-limits'])
  world.kill(host)
  world.hostId = 'two'
  const next = world.host('two')
  t.equal(statusOf(await next.take(asked[2] as AccountRequest)), 'ok')
})

for (const ordered of [true, false]) {
  t.test(
    `routes of codes and references are durable before the answer, ordered stores: ${ordered}`,
    async (t) => {
      const world = new World({ ordered })
      t.teardown(() => world.close())
      world.host()
      await world.create()
      const route = world.medium.hold('lookup.write', { target: (key) => key.startsWith('code/') })
      const before = await world.head()
      const folder = world.folder('a')
      await route.reached
      await settled()
      t.ok(await open(folder), 'no answer before the route')
      t.equal(await world.head(), before, 'and no row')
      route.release()
      const [item] = itemsOf(await folder)
      t.equal(await routeOf(world, item?.code), world.account)
      await world.folder('b')
      t.equal((await world.keys('code/')).length, 1, 'no row for a code')

      const reference = world.medium.hold('lookup.write', { target: (key) => key.startsWith('ref/') })
      const head = await world.head()
      const file = world.ask({
        $case: 'addFile',
        value: {
          name: 'f',
          mimetype: '',
          blob: blob(7),
          createAccount: undefined,
          folderId: undefined,
          modTime: undefined,
        },
      })
      await reference.reached
      await settled()
      t.equal(await world.head(), head, 'no row before the reference')
      reference.release()
      t.equal(statusOf(await file), 'ok')
      t.equal((await world.keys('ref/')).length, 1)
    },
  )
}

t.test('a request id has one effect, also when it is repeated', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  world.host()
  await world.create()
  const id = mintRequestId(Date.now())
  const [first, second] = await Promise.all([world.folder('a', { id }), world.folder('a', { id })])
  t.strictSame(first, second)
  t.strictSame(await world.folder('a', { id }), first)
  t.strictSame(await world.names(), ['a'])
})

t.test('the mailbox is bounded', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  let reported = 0
  world.host('one', {
    bounds: { mailboxMax: 4 },
    metrics: { ...noMetrics, overloaded: () => void reported++ },
  })
  await world.create()
  const hold = world.medium.hold('append')
  const asked = Array.from({ length: 10 }, (_, at) => world.folder(`f${at}`))
  const overloaded = asked.map((ask) =>
    ask.then(
      () => false,
      (error) => error instanceof AccountsUnavailable && error.overloaded,
    ),
  )
  await hold.reached
  await settled()
  hold.release()
  t.equal((await Promise.all(overloaded)).filter(Boolean).length, 6)
  t.equal(reported, 6)
  t.equal((await world.names()).length, 4)
})

t.test('replies held back are bounded by bytes: nothing more is decided', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  world.host('one', { bounds: { heldReplyBytesMax: 100 } })
  await world.create()
  const hold = world.medium.hold('append')
  const asked = Array.from({ length: 20 }, (_, at) => world.folder(`f${at}`))
  await hold.reached
  await settled()
  const decided = world.states.decided.filter((what) => what.startsWith('f')).length
  t.ok(decided >= 1 && decided < 5, `${decided} decided`)
  hold.release()
  await Promise.all(asked)
})

t.test('a request past its deadline is not decided', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const time = new ManualTime()
  world.host('one', { clock: time, timers: time, bounds: { heldReplyBytesMax: 1 } })
  await world.create()
  const hold = world.medium.hold('append')
  const first = world.folder('a')
  await hold.reached
  const late = world.folder('late', { timeoutMs: 300 }).catch((error) => error)
  await settled()
  await time.advance(400)
  hold.release()
  t.equal(statusOf(await first), 'ok')
  t.equal((await late).code, 'ACCOUNTS_UNAVAILABLE')
  t.strictSame(await world.names(), ['a'])
})

t.test(
  'long work runs in slices: the account waits, others do not, no partial state is visible',
  async (t) => {
    const world = new World()
    t.teardown(() => world.close())
    world.host()
    await world.create()
    const other = '11111111-1111-4111-8111-111111111111'
    await world.create({ account: other })
    const long = world.folder('slices:50')
    const read = world.names()
    const elsewhere = world.folder('quick', { account: other })
    await Promise.all([long, read, elsewhere])
    const order = world.states.decided
    t.strictSame(await read, ['slices:50'])
    t.ok(order.indexOf('quick') < order.indexOf('slice 49'), 'the other account came in between')
  },
)

t.test('a decision in slices keeps its turn on a busy account', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  // Between any two decisions the loop turns.
  world.host('one', { bounds: { turnMs: 0 } })
  await world.create()
  await Promise.all(['slices:5', 'slices:50', 'after'].map((name) => world.folder(name)))
  const order = world.states.decided
  t.strictSame(order.slice(order.indexOf('slices:50')), [
    'slices:50',
    ...Array.from({ length: 50 }, (_, step) => `slice ${step}`),
    'after',
  ])
})

t.test('a request for an account that was never made leaves nothing behind', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  world.host()
  await settled()
  const before = world.medium.operations
  for (let at = 0; at < 5; at++)
    t.equal(statusOf(await world.ask({ $case: 'getAccount', value: {} })), 'error-notFound')
  t.equal(world.medium.operations, before + 1, 'one read for all of them')
  t.equal((await world.journal.head(world.account)).epoch, 0)
  await world.create()
  t.strictSame(await world.names(), [], 'not remembered longer than it is true')
})

t.test(
  'a change too large for a row is stored in pages, a request too large for a message is sent in parts',
  async (t) => {
    const world = new World()
    t.teardown(() => world.close())
    const host = world.host()
    await world.create()
    await Promise.all([world.folder('small'), world.folder('large:700000'), world.folder('after')])
    await world.folder('y'.repeat(900_000))
    const names = await world.names()
    t.strictSame(
      names.map(({ length }) => length),
      [5, 700_000, 5, 900_000],
    )
    world.kill(host)
    world.host('two')
    world.hostId = 'two'
    t.strictSame(await world.names(), names)
  },
)
