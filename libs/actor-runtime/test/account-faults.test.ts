/** A fault costs one request or one account, never the host. */
import { lagSubjectOf, quarantineSubjectOf } from '@holdfast/accounts'
import { AccountReply } from '@holdfast/wire'
import t from 'tap'
import { noMetrics } from '../src/observer.ts'
import { ManualTime, settled, statusOf, World } from './world.ts'

t.test(
  'a bug in a decision costs only its request; the account continues with earlier decisions',
  async (t) => {
    const world = new World()
    t.teardown(() => world.close())
    world.host('one', { bounds: { bugsBeforeQuarantine: 100 } })
    await world.create()
    const [before, bug, after] = await Promise.all([
      world.folder('a'),
      world.folder('bug:decide'),
      world.folder('b'),
    ])
    t.equal(statusOf(before), 'ok')
    t.equal(statusOf(bug), 'error-internal')
    t.equal(statusOf(after), 'ok')
    t.strictSame(await world.names(), ['a', 'b'])
  },
)

t.test(
  'a bug while applying leaves no trace in the journal; an account that keeps failing is not opened for a while, others are',
  async (t) => {
    const world = new World()
    t.teardown(() => world.close())
    const time = new ManualTime()
    let reported = -1
    const metrics = {
      ...noMetrics,
      quarantined: ({ accounts }: { accounts: number }) => {
        reported = accounts
      },
    }
    world.host('one', { clock: time, timers: time, metrics })
    await world.create()
    const other = '11111111-1111-4111-8111-111111111111'
    await world.create({ account: other })
    await world.folder('a')
    const head = await world.head()
    for (let bugs = 0; bugs < 3; bugs++) t.equal(statusOf(await world.folder('bug:apply')), 'error-internal')
    t.equal(await world.head(), head)
    await t.rejects(world.names({ timeoutMs: 100 }), { code: 'ACCOUNTS_UNAVAILABLE' }, 'quarantined')
    t.strictSame(await world.names({ account: other }), [])
    await time.advance(1000)
    t.equal(reported, 1)
    await time.advance(1100)
    t.strictSame(await world.names(), ['a'])
  },
)

t.test('a damaged journal stops its account with an error, and no other account', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const host = world.host()
  await world.create()
  await world.folder('a')
  world.kill(host)
  world.journal.damage(world.account, 1, () => undefined)
  world.host('two')
  world.hostId = 'two'
  await t.rejects(world.names({ timeoutMs: 100 }), { code: 'ACCOUNTS_UNAVAILABLE' })
  t.ok(world.warnings.includes('an account cannot be read and is quarantined'))
  const other = '11111111-1111-4111-8111-111111111111'
  await world.create({ account: other })
  t.strictSame(await world.names({ account: other }), [])

  // Processes of two releases ask each other during an upgrade: these members stay as they are.
  const reported = async (subject: string) =>
    JSON.parse(
      Buffer.from(await world.bus.request(subject, new Uint8Array(), { timeoutMs: 1000 })).toString(),
    )
  const [quarantined] = await reported(quarantineSubjectOf('two'))
  t.strictSame(Object.keys(quarantined).sort(), ['account', 'reason', 'since', 'tries'])
  t.match(quarantined, { account: world.account, reason: String, since: Number, tries: Number })
  t.strictSame(await reported(lagSubjectOf('two')), { accounts: 0, ms: 0 })
})

t.test('a malformed message on the bus is answered, and the host goes on', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  world.host()
  for (const message of [Buffer.from('not a request'), Buffer.alloc(0), Buffer.alloc(40, 0xff)]) {
    const reply = AccountReply.decode(await world.bus.request('accounts.one', message, { timeoutMs: 1000 }))
    t.equal(statusOf(reply), 'error-internal')
    const part = AccountReply.decode(
      await world.bus.request('accounts.one.parts', message, { timeoutMs: 1000 }),
    )
    t.equal(part.result?.$case, 'unavailable')
  }
})

t.test('without a host the client gives up at its deadline', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  await t.rejects(world.names({ timeoutMs: 60 }), { code: 'ACCOUNTS_UNAVAILABLE', overloaded: false })
  const host = world.host()
  await world.create()
  const hold = world.medium.hold('append')
  const asked = world.folder('a')
  await hold.reached
  const closing = host.close({ drainMs: 10_000 })
  await settled()
  hold.release()
  t.equal(statusOf(await asked), 'ok', 'a draining host completes its open requests')
  await closing
  t.equal(
    (await world.journal.acquire(world.account, { owner: 'test' })).previousOwner,
    undefined,
    'released',
  )
})

t.test('an account that cannot be read for lack of memory is not reported as damaged', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const host = world.host()
  await world.create()
  await world.folder('a')
  world.kill(host)
  const { acquire } = world.journal
  let left = 3
  world.journal.acquire = (...args) => {
    if (left-- > 0) return Promise.reject(Object.assign(new Error('ENOMEM'), { code: 'ENOMEM' }))
    return acquire.apply(world.journal, args)
  }
  world.host('two')
  world.hostId = 'two'
  while (left > 0) await world.names({ timeoutMs: 100 }).catch(() => {})
  t.strictSame(await world.names(), ['a'])
  t.notOk(world.warnings.includes('an account cannot be read and is quarantined'))
})
