/** Work around the turns: effects, timers, checkpoints, passivation. */
import { CheckpointRoot } from '@holdfast/wire'
import t from 'tap'
import { noMetrics, silentLog } from '../src/observer.ts'
import { blob } from './tiny-core.ts'
import { ManualTime, settled, statusOf, World } from './world.ts'

const idleMs = 60_000

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
function expire(world: World, name: string, due: number) {
  const attribute = { $case: 'expiry' as const, value: { expiry: due, deleteAfterExpiry: false } }
  return world.ask({ $case: 'updateContent', value: { contentId: name, attribute } })
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
  const host = world.host('one', { clock: time, timers: time, bounds: { memoryBytesMax: 30_000 } })
  const accounts = Array.from({ length: 6 }, (_, at) => `1111111${at}-1111-4111-8111-111111111111`)
  for (const account of accounts) await world.create({ account })
  await world.names({ account: accounts[0] as string })
  await time.advance(1000)
  t.ok(host.activeAccounts >= 2 && host.activeAccounts <= 4, `${host.activeAccounts} left`)
  const before = world.medium.operations
  await world.names({ account: accounts[0] as string })
  t.equal(world.medium.operations, before, 'the one just used is still there')
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

async function pageNames(world: World): Promise<string[]> {
  const names: string[] = []
  for await (const name of world.journal.pageNames(world.account)) names.push(name)
  return names
}

async function rootPages(world: World): Promise<string[]> {
  const { root } = await world.journal.acquire(world.account, { owner: 'test' })
  return root === undefined ? [] : CheckpointRoot.decode(root).pages
}

t.test('checkpoints keep the tail short, and only the last one stays', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const time = new ManualTime()
  const host = world.host('one', { clock: time, timers: time, bounds: { tailFlushesMax: 10 } })
  await world.create()
  await world.folder('large:600000')
  t.equal((await pageNames(world)).length, 3, 'the pages of a large change')
  for (let at = 0; at < 60; at++) await world.folder(`f${at}`)
  await settled()
  const names = await world.names()
  const applied = world.states.applied
  world.kill(host)
  world.host('two', { bounds: { tailFlushesMax: 10 } })
  world.hostId = 'two'
  t.strictSame(await world.names(), names)
  t.ok(world.states.applied - applied < 20, `${world.states.applied - applied} changes replayed`)
  await settled()
  t.strictSame(await pageNames(world), (await rootPages(world)).sort(), 'nothing else is kept')
  world.host('three')
  world.hostId = 'three'
  t.strictSame(await world.names(), names)
})

t.test('checkpoints are cut at one row while the account continues', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const bounds = { tailFlushesMax: 3 }
  const host = world.host('one', { bounds })
  await world.create()
  await world.folder('a')
  const append = world.medium.hold('append')
  const asked = [world.folder('b')]
  await append.reached
  asked.push(world.folder('c'))
  await settled()
  const page = world.medium.hold('putPage')
  append.release()
  await page.reached
  asked.push(world.folder('d'), world.folder('e'))
  await settled()
  page.release()
  await Promise.all(asked)
  const names = await world.names()
  world.kill(host)
  world.host('two', { bounds })
  world.hostId = 'two'
  t.strictSame(await world.names(), names)
  t.notOk(world.warnings.includes('an account cannot be read and is quarantined'))
})

t.test('a slow checkpoint is still of one row, and the others wait for it', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const bounds = { tailFlushesMax: 2, turnMs: 0 }
  const host = world.host('one', { bounds })
  await world.create()
  for (let at = 0; at < 5; at++) {
    const asked = Array.from({ length: 8 }, (_, n) => world.folder(`${at}-${n}`))
    await asked[0]
    asked.push(world.folder(`${at}-late`))
    await Promise.all(asked)
  }
  const names = await world.names()
  t.equal(names.length, 45)
  world.kill(host)
  world.host('two', { bounds })
  world.hostId = 'two'
  t.strictSame(await world.names(), names)
  t.strictSame(world.warnings, [])
})

t.test(
  'a checkpoint that cannot be written or set is retried; until then the tail grows to its bound',
  async (t) => {
    const world = new World()
    t.teardown(() => world.close())
    const time = new ManualTime()
    world.host('one', { clock: time, timers: time, bounds: { tailFlushesMax: 5 } })
    await world.create()
    const healPages = world.medium.fail('putPage', { code: 'UNAVAILABLE', times: Number.POSITIVE_INFINITY })
    const asked: Promise<unknown>[] = []
    for (let at = 0; at < 30; at++) {
      asked.push(world.folder(`f${at}`))
      await settled()
    }
    t.ok((await world.head()) <= 11, `${await world.head()} rows`)
    healPages()
    for (const applied of [true, false, true]) world.medium.fail('setRoot', { code: 'UNKNOWN', applied })
    for (let tries = 0; tries < 20; tries++) await time.advance(50)
    await Promise.all(asked)
    t.equal((await world.names()).length, 30)
    world.host('two')
    world.hostId = 'two'
    t.equal((await world.names()).length, 30)
  },
)

t.test('pages that a dead owner left behind are swept', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const host = world.host('one')
  await world.create()
  await world.folder('a')
  world.kill(host)
  await world.journal.putPage(world.account, '1-7-0', Buffer.from('never named'))
  world.host('two')
  world.hostId = 'two'
  await world.names()
  await settled()
  t.strictSame(await pageNames(world), [])
})

t.test('a stale owner that writes a checkpoint late changes nothing', async (t) => {
  const world = new World({ ordered: false, exclusive: false })
  t.teardown(() => world.close())
  world.host('one', { bounds: { checkpointBytesMin: 1 } })
  world.host('two')
  const root = world.medium.hold('setRoot')
  await world.create()
  await root.reached
  const late = world.folder('late')
  world.hostId = 'two'
  await world.folder('b')
  root.release()
  t.equal(statusOf(await late), 'ok', 'by the new owner')
  t.strictSame((await world.names()).sort(), ['b', 'late'])
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

t.test('a checkpoint holds no change that was refused, applied in slices or not', async (t) => {
  for (let round = 0; round < 48; round++) {
    const turns = round >> 1
    const world = new World()
    t.teardown(() => world.close())
    // A checkpoint of every row.
    const bounds = { turnMs: 8 * (round % 2), checkpointBytesMin: 1, tailFlushesMax: 1, effectsIdleMs: 1 }
    const host = world.host('one', { bounds })
    await world.create()
    const acknowledged: string[] = []
    const leaving = new AbortController()
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) {
      const { signal } = leaving
      void world.folder(name, { signal }).then(
        () => acknowledged.push(name),
        () => {},
      )
      if (turns % 3 === 0) await new Promise(setImmediate)
    }
    for (let turn = 0; turn < turns; turn++) await new Promise(setImmediate)
    const heal = world.medium.fail('append', { code: 'UNAVAILABLE', times: Number.POSITIVE_INFINITY })
    await settled()
    leaving.abort()
    world.kill(host)
    await settled()
    heal()
    world.host('two')
    world.hostId = 'two'
    t.strictSame(await world.names(), acknowledged, `${turns} turns of ${bounds.turnMs} ms`)
  }
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
