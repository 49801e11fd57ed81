/** Mails and released references: durable before they happen, and repeated until they have. */
import { silentLog } from '@holdfast/kernel'
import t from 'tap'
import { noMetrics } from '../src/observer.ts'
import { expire, idleMs } from './asks.ts'
import { blob } from './tiny-core.ts'
import { ManualTime, settled, statusOf, World } from './world.ts'

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

function remove(world: World, names: string[], options?: Parameters<World['ask']>[1]) {
  return world.ask(
    {
      $case: 'deleteContents',
      value: { contentIds: names, representation: undefined, heldSeconds: undefined },
    },
    options,
  )
}

const reference = (byte: string) => (key: string) => key.startsWith(`ref/${byte}`)

t.test('finished effects are journaled with the next flush, or alone after a minute', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const time = new ManualTime()
  world.host('one', { clock: time, timers: time, bounds: { idleMs: 3_600_000 } })
  await world.create()
  await world.ask({ $case: 'sendSignIn', value: {} })
  await settled()
  await world.folder('a')
  t.equal(await world.head(), 3)
  await time.advance(300_000)
  t.equal(await world.head(), 3, 'the next flush carried it')
  await world.ask({ $case: 'sendSignIn', value: {} })
  await settled()
  t.equal(await world.head(), 4)
  await time.advance(59_000)
  t.equal(await world.head(), 4)
  await time.advance(2_000)
  t.equal(await world.head(), 5, 'alone when none comes')
  await time.advance(300_000)
  t.equal(await world.head(), 5, 'once')
})

t.test('a crash repeats effects that were done and not journaled, without harm', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  let host = world.host('one')
  const crash = async (next: string) => {
    await settled()
    world.kill(host)
    host = world.host(next)
    world.hostId = next
    await world.names()
    await settled()
  }
  await world.create()
  await addFile(world, 'goes', 1)
  await addFile(world, 'stays', 2)
  await world.ask({ $case: 'sendSignIn', value: {} })
  await crash('two')
  t.equal(world.mails.length, 2)
  t.equal(new Set(world.mails).size, 1, 'the same mail, by its id')

  await remove(world, ['goes'])
  await crash('three')
  t.strictSame(world.released, ['1', '1'])
  t.strictSame(await world.keys('ref/01'), [])
  t.equal((await world.keys('ref/02')).length, 1, 'what is used keeps its reference')
  await addFile(world, 'again', 1)
  await crash('four')
  t.equal((await world.keys('ref/01')).length, 1, 'what is used again keeps it too')
  t.strictSame(await world.names(), ['stays', 'again'])
})

t.test(
  'a refused mail is retried; undone effects survive a crash and continue without a request',
  async (t) => {
    const world = new World()
    t.teardown(() => world.close())
    let refusals = 2
    const accept = world.mailer
    world.mailer = {
      send: async (mail) => {
        if (refusals-- > 0) throw new Error('relay is down')
        await accept.send(mail)
      },
    }
    const time = new ManualTime()
    const host = world.host('one', { clock: time, timers: time })
    await world.create()
    t.equal(
      statusOf(await world.ask({ $case: 'sendSignIn', value: {} })),
      'ok',
      'the answer does not wait for the relay',
    )
    await settled()
    t.strictSame(world.mails, [])
    await time.advance(10_000)
    t.equal(world.mails.length, 1)

    refusals = Number.POSITIVE_INFINITY
    await world.ask({ $case: 'sendSignIn', value: {} })
    world.kill(host)
    refusals = 0
    world.host('two')
    await settled()
    t.equal(world.mails.length, 2, 'woken by the active row')
    t.equal(new Set(world.mails).size, 2)
  },
)

t.test('a mail that will never be accepted is abandoned', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  let sent = 0
  world.mailer = {
    send: () => {
      sent++
      return Promise.reject(Object.assign(new Error('no such mailbox'), { category: 'invalid' }))
    },
  }
  const host = world.host('one')
  await world.create()
  await world.ask({ $case: 'sendSignIn', value: {} })
  await settled()
  t.equal(sent, 1)
  await host.close({ drainMs: 10_000 })
  t.strictSame(await world.keys('active/'), [])
})

t.test('an account that leaves with an effect undone is woken again', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const accept = world.mailer
  let down = true
  world.mailer = { send: (mail) => (down ? Promise.reject(new Error('down')) : accept.send(mail)) }
  const time = new ManualTime()
  const host = world.host('one', { clock: time, timers: time, bounds: { mailAttemptsMax: 1 } })
  await world.create()
  await world.ask({ $case: 'sendSignIn', value: {} })
  await time.advance(idleMs + 3 * 60_000)
  t.equal(host.activeAccounts, 0)
  t.equal((await world.keys('active/')).length, 1)
  down = false
  await time.advance(10 * 60_000)
  t.equal(world.mails.length, 1)
})

t.test('the successor of a dead host does its pending work without a request', async (t) => {
  const world = new World({ exclusive: false })
  t.teardown(() => world.close())
  const accept = world.mailer
  world.mailer = { send: () => Promise.reject(new Error('down')) }
  const time = new ManualTime()
  let owner = 'one'
  const options = { clock: time, timers: time, hostOf: () => owner }
  const one = world.host('one', options)
  const two = world.host('two', options)
  await world.create()
  await world.folder('a')
  await world.ask({ $case: 'sendSignIn', value: {} })
  await expire(world, 'a', Math.floor(time.now() / 1000) + 40)
  world.kill(one)
  owner = 'two'
  world.mailer = accept
  await time.advance(70_000)
  t.equal(world.mails.length, 1, 'the mail')
  world.hostId = 'two'
  t.strictSame(await world.names(), [], 'the timer')
  await time.advance(20 * 60_000)
  t.equal(two.activeAccounts, 0, 'and nothing keeps it in memory')
})

t.test('references are removed after the last use, and the collector learns it', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  world.host('one')
  await world.create()
  await addFile(world, 'f', 1)
  await addFile(world, 'g', 1)
  t.equal((await world.keys('ref/')).length, 1)
  await remove(world, ['f'])
  await settled()
  t.equal((await world.keys('ref/')).length, 1, 'still used')
  world.medium.fail('lookup.write', { code: 'UNAVAILABLE', target: reference('01') })
  await remove(world, ['g'])
  while ((await world.keys('ref/')).length > 0) await settled()
  await settled()
  t.strictSame(world.released, ['1'])
})

for (const [ordered, turnMs] of [
  [true, 8],
  [false, 8],
  [true, 0],
] as const) {
  t.test(
    `a removal never affects the reference of a later use, ordered stores: ${ordered}, turns of ${turnMs} ms`,
    async (t) => {
      const world = new World({ ordered })
      t.teardown(() => world.close())
      world.host('one', { bounds: { turnMs } })
      await world.create()
      await addFile(world, 'f', 1)

      // The removal is running when the blob is used again.
      const removal = world.medium.hold('lookup.write', { target: reference('01') })
      await remove(world, ['f'])
      await removal.reached
      const again = addFile(world, 'again', 1)
      await settled()
      removal.release()
      t.equal(statusOf(await again), 'ok')
      await settled()
      t.equal((await world.keys('ref/01')).length, 1)

      // The release is in the flush in flight when the blob is used again.
      const append = world.medium.hold('append')
      const removed = remove(world, ['again'])
      await append.reached
      const third = addFile(world, 'third', 1)
      await settled()
      append.release()
      await Promise.all([removed, third])
      await settled()
      t.equal((await world.keys('ref/01')).length, 1)

      // Used, released and used again within one flush.
      const busy = world.medium.hold('append')
      const first = world.folder('x')
      await busy.reached
      const inOne = [
        remove(world, ['third']),
        addFile(world, 'fourth', 1),
        remove(world, ['fourth']),
        addFile(world, 'fifth', 1),
      ]
      await settled()
      busy.release()
      await Promise.all([first, ...inOne])
      await settled()
      t.equal((await world.keys('ref/01')).length, 1)
    },
  )
}

t.test('a removal that waits for its retry is withdrawn by a new use', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const time = new ManualTime()
  world.host('one', { clock: time, timers: time })
  await world.create()
  await addFile(world, 'f', 1)
  world.medium.fail('lookup.write', { code: 'UNAVAILABLE', target: reference('01') })
  await remove(world, ['f'])
  await settled()
  await addFile(world, 'again', 1)
  await time.advance(10_000)
  t.equal((await world.keys('ref/01')).length, 1)
})

t.test('a release that becomes durable after a new use was decided is not carried out', async (t) => {
  const world = new World({ ordered: false })
  t.teardown(() => world.close())
  const time = new ManualTime()
  world.host('one', { clock: time, timers: time })
  await world.create()
  await addFile(world, 'f', 1)
  const append = world.medium.hold('append')
  const removed = remove(world, ['f'])
  await append.reached
  const again = addFile(world, 'again', 1)
  await settled()
  world.medium.fail('lookup.write', { code: 'UNAVAILABLE', target: reference('01') })
  append.release()
  await settled()
  for (let tries = 0; tries < 20; tries++) await time.advance(100)
  await Promise.all([removed, again])
  t.equal((await world.keys('ref/01')).length, 1)
})

for (const turnMs of [8, 0])
  t.test(`effects of a change wait until it is durable, turns of ${turnMs} ms`, async (t) => {
    const world = new World()
    t.teardown(() => world.close())
    world.host('one', { bounds: { turnMs } })
    await world.create()
    await addFile(world, 'f', 1)
    await settled()
    const [first, second] = [world.medium.hold('append'), world.medium.hold('append')]
    const before = world.folder('x')
    await first.reached
    const removed = remove(world, ['f'])
    await settled()
    first.release()
    await second.reached
    await before
    await settled()
    t.equal((await world.keys('ref/01')).length, 1, 'the batch before is durable')
    second.release()
    t.equal(statusOf(await removed), 'ok')
    while ((await world.keys('ref/01')).length > 0) await settled()
  })

t.test('effects of a partly applied change are not sent with the batch before it', async (t) => {
  for (let turns = 0; turns < 8; turns++) {
    const world = new World()
    t.teardown(() => world.close())
    // Every change is applied in slices, with the loop turning between them.
    const host = world.host('one', { bounds: { turnMs: 0 } })
    await world.create()
    await addFile(world, 'f', 1)
    await settled()
    const faults: unknown[] = []
    const unanswered = (fault: unknown) => void faults.push(fault)
    const [first, second] = [world.medium.hold('append'), world.medium.hold('append')]
    void world.folder('x').catch(unanswered)
    await first.reached
    void world.folder('y').catch(unanswered)
    await settled()
    void remove(world, ['f']).catch(unanswered)
    for (let turn = 0; turn < turns; turn++) await new Promise(setImmediate)
    first.release()
    await second.reached
    world.medium.hold('append')
    second.release()
    await settled()
    world.kill(host)
    world.host('two')
    world.hostId = 'two'
    for (const fault of faults) t.ok(fault instanceof Error, `its host ended: ${fault}`)
    if ((await world.names()).includes('f')) t.equal((await world.keys('ref/01')).length, 1, `${turns} turns`)
  }
})

t.test('pending releases of an account count as its memory', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const time = new ManualTime()
  let bytes = 0
  const metrics = {
    ...noMetrics,
    memory(figures: { bytes: number }) {
      bytes = figures.bytes
    },
  }
  world.host('one', { clock: time, timers: time, metrics })
  await world.create()
  const names = Array.from({ length: 60 }, (_, at) => `f${at}`)
  for (const [at, name] of names.entries()) await addFile(world, name, at)
  const away = { code: 'UNAVAILABLE' as const, times: Number.POSITIVE_INFINITY }
  const heal = world.medium.fail('lookup.write', { ...away, target: (key) => key.startsWith('ref/') })
  await remove(world, names)
  await time.advance(1_000)
  const owing = bytes
  heal()
  await time.advance(20_000)
  t.strictSame(await world.keys('ref/'), [])
  t.ok(owing - bytes > names.length * 400, `${owing} bytes, and ${bytes} afterwards`)
})

t.test('lines about effects and rows name the requests of clients that caused them', async (t) => {
  const world = new World({ exclusive: false, ordered: false })
  t.teardown(() => world.close())
  const lines: { message: string; fields: Record<string, unknown> }[] = []
  const note = (fields: object, message: string) => void lines.push({ message, fields: { ...fields } })
  const log = { ...silentLog, warn: note, error: note }
  const take = (message: string) => lines.splice(0).filter((line) => line.message === message)
  const time = new ManualTime()
  const host = world.host('one', { clock: time, timers: time, log })
  const as = (clientRequest: string) => ({ clientRequest })
  await world.create(as('maker'))
  await addFile(world, 'a', 1)
  await addFile(world, 'b', 2)
  await addFile(world, 'c', 3)
  await settled()

  const heal = world.medium.fail('lookup.write', {
    code: 'UNAVAILABLE',
    times: Number.POSITIVE_INFINITY,
    target: reference('0'),
  })
  await Promise.all([remove(world, ['a'], as('first')), remove(world, ['b'], as('second'))])
  await remove(world, ['c'])
  await time.advance(10)
  const refused = take('references could not be removed yet')
  t.match(refused.at(-1)?.fields, {
    requestIds: ['first', 'second'],
    references: 3,
    err: { code: 'UNAVAILABLE' },
  })
  heal()
  await time.advance(100)
  t.strictSame(await world.keys('ref/'), [])

  const accept = world.mailer
  world.mailer = { send: () => Promise.reject(new Error('the relay is down')) }
  await world.ask({ $case: 'sendSignIn', value: {} }, as('mailed'))
  await settled()
  t.match(take('a mail was not accepted'), [{ fields: { requestId: 'mailed', attempt: 0 } }])

  world.medium.fail('append', { code: 'UNKNOWN', applied: true })
  await world.folder('d', as('unsure'))
  t.match(take('the outcome of an append is unknown'), [{ fields: { requestIds: ['unsure'] } }])

  world.kill(host)
  world.host('two', { log })
  await settled()
  const [again] = take('a mail was not accepted')
  t.equal(again?.fields.requestId, undefined, 'only memory had it')
  t.ok(again)
  world.mailer = accept
})
