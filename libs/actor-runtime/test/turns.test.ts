/**
 * What one account promises its callers: order, durability before answers, one effect per request
 * id.
 */

import { AccountsUnavailable, lagSubjectOf, quarantineSubjectOf } from '@holdfast/accounts'
import { mintRequestId } from '@holdfast/kernel'
import { AccountReply, AccountRequest, blank, CreateFolder, type PasswordVerifier } from '@holdfast/wire'
import t from 'tap'
import { blob } from './tiny-core.ts'
import { itemsOf, ManualTime, routeOf, settled, statusOf, World } from './world.ts'

/** Whether a promise is still open when everything that can happen has happened. */
async function open(promise: Promise<unknown>): Promise<boolean> {
  let done = false
  const note = () => {
    done = true
  }
  promise.then(note, note)
  await settled()
  return !done
}

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

t.test('an append with an unknown outcome is settled by the serial head', async (t) => {
  for (const applied of [true, false]) {
    const world = new World()
    world.host()
    await world.create()
    const head = await world.head()
    world.medium.fail('append', { code: 'UNKNOWN', applied })
    t.equal(statusOf(await world.folder('a')), 'ok')
    t.equal(await world.head(), head + 1, applied ? 'it was in' : 'it was not, and was issued again')
    t.equal(statusOf(await world.folder('b')), 'ok')
    await world.close()
  }
})

t.test('while an outcome is unknown new work is refused, and waiting requests learn it later', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  world.host()
  await world.create()
  world.medium.fail('append', { code: 'UNKNOWN', applied: true })
  const head = world.medium.hold('head')
  const change = world.folder('a')
  await head.reached
  const request: AccountRequest = {
    accountId: world.account,
    requestId: mintRequestId(Date.now()),
    deadlineMs: Date.now() + 10_000,
    caller: undefined,
    clientNetwork: undefined,
    clientRequest: undefined,
    traceparent: undefined,
    tierNeeded: '',
    operation: { $case: 'getAccount', value: {} },
  }
  const raw = await world.bus.request('accounts.one', AccountRequest.encode(request).finish(), {
    timeoutMs: 1000,
  })
  t.equal(AccountReply.decode(raw).result?.$case, 'unavailable')
  t.ok(await open(change))
  head.release('UNAVAILABLE')
  t.equal(statusOf(await change), 'ok', 'settled at the next try')
  t.strictSame(await world.names(), ['a'])
})

t.test(
  'an append that is certainly not written is issued again, with its rows, and finally abandoned',
  async (t) => {
    const world = new World()
    t.teardown(() => world.close())
    const host = world.host('one', { bounds: { appendAttemptsMax: 3 } })
    await world.create()
    world.medium.fail('append', { code: 'UNAVAILABLE', times: 2 })
    t.equal(statusOf(await world.folder('a')), 'ok')
    const heal = world.medium.fail('append', { code: 'UNAVAILABLE', times: Number.POSITIVE_INFINITY })
    // The host itself answers when the activation is abandoned; a client would ask the next one.
    const value = { parentFolderId: '', name: 'b', isPublic: undefined, modTime: undefined }
    const { result } = await host.take({
      accountId: world.account,
      requestId: mintRequestId(Date.now()),
      deadlineMs: Date.now() + 60_000,
      caller: { who: { $case: 'operator', value: {} } },
      clientNetwork: undefined,
      clientRequest: undefined,
      traceparent: undefined,
      tierNeeded: '',
      operation: { $case: 'createFolder', value },
    })
    t.equal(result?.$case, 'unavailable')
    heal()
    t.strictSame(await world.names(), ['a'], 'the tentative change is gone')
  },
)

t.test('a lost reference row blocks its append', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  world.host()
  await world.create()
  world.medium.fail('lookup.write', {
    code: 'UNAVAILABLE',
    times: 3,
    target: (key) => key.startsWith('ref/'),
  })
  const added = await world.ask({
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
  t.equal(statusOf(added), 'ok')
  t.equal((await world.keys('ref/')).length, 1)
})

t.test('the mailbox is bounded', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  world.host('one', { bounds: { mailboxMax: 4 } })
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

t.test('decisions get unique codes, many when they request many', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  world.host('one', { bounds: { codesDrawn: 128 } })
  await world.create()
  await Promise.all(
    ['many:3', 'a', 'many:130', 'b', 'c', 'many:80', 'd', 'e', 'f', 'g', 'h'].map((name) =>
      world.folder(name),
    ),
  )
  const items = itemsOf(await world.ask({ $case: 'getAccount', value: {} }))
  t.equal(items.length, 3 + 130 + 80 + 8)
  t.equal(new Set(items.map(({ code }) => code)).size, items.length)
  for (const { code } of items) t.equal(await routeOf(world, code), world.account)
})

t.test('a command that needs too many codes is refused, and so are its copies', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const bounds = { codesDrawn: 64, codesPerRequestMax: 64 }
  const host = world.host('one', { bounds })
  await world.create()
  const request: AccountRequest = {
    accountId: world.account,
    requestId: mintRequestId(Date.now()),
    caller: { who: { $case: 'operator', value: {} } },
    clientNetwork: undefined,
    clientRequest: undefined,
    traceparent: undefined,
    tierNeeded: '',
    operation: { $case: 'createFolder', value: { ...blank(CreateFolder), name: 'many:1000' } },
    deadlineMs: Date.now() + 10_000,
  }
  const hold = world.medium.hold('append')
  const change = world.folder('a')
  await hold.reached
  const refused = host.take(request)
  await settled()
  t.ok(await open(refused), 'it waits for what it saw')
  hold.release()
  await change
  t.equal(statusOf(await refused), 'error-limits')
  world.states.foldersMax = 0
  const decided = world.states.decided.length
  t.equal(statusOf(await host.take(request)), 'error-limits')
  t.equal(world.states.decided.length, decided, 'a copy is not decided again')
  t.strictSame(await world.names(), ['a'])
})

t.test('without codes the request is unavailable, later it works', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const heal = world.medium.fail('lookup.take', { code: 'UNAVAILABLE', times: Number.POSITIVE_INFINITY })
  world.host()
  await world.create()
  await t.rejects(world.folder('a', { timeoutMs: 100 }), { code: 'ACCOUNTS_UNAVAILABLE' })
  heal()
  t.equal(statusOf(await world.folder('a')), 'ok')
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

const verifier = (byte: number): PasswordVerifier => ({
  salt: Buffer.alloc(16, byte),
  hash: Buffer.alloc(32, byte),
  cost: 4,
})

function protect(world: World, password: PasswordVerifier) {
  const attribute = { $case: 'password' as const, value: { verifier: password } }
  return world.ask({ $case: 'updateContent', value: { contentId: '', attribute } })
}

function read(world: World, password: string) {
  const page = {
    page: 1,
    pageSize: 1,
    sortField: 0 as const,
    ascending: false,
    contentFilter: '',
    maxDepth: 1,
  }
  return world.ask({
    $case: 'readContent',
    value: { contentName: undefined, columns: undefined, contentId: '', password, ...page },
  })
}

t.test('a slow password check does not block the account, and its verdict is kept', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const checks: ((verdict: boolean) => void)[] = []
  world.host('one', { checkPassword: () => new Promise((resolve) => checks.push(resolve)) })
  await world.create()
  await protect(world, verifier(1))
  const reading = read(world, 'right')
  await settled()
  t.equal(statusOf(await world.folder('meanwhile')), 'ok')
  t.ok(await open(reading))
  checks[0]?.(true)
  t.equal(itemsOf(await reading).length, 1)
  t.equal(statusOf(await read(world, 'right')), 'ok')
  t.equal(checks.length, 1, 'asked once')

  const overtaken = read(world, 'other')
  await settled()
  await protect(world, verifier(2))
  checks[1]?.(true)
  await settled()
  t.equal(checks.length, 3, 'the verdict on the old password says nothing about the new one')
  checks[2]?.(false)
  t.equal(statusOf(await overtaken), 'error-passwordWrong')
})

t.test('password checks are bounded: too many waiting are refused', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const checks: ((verdict: boolean) => void)[] = []
  world.host('one', {
    checkPassword: () => new Promise((resolve) => checks.push(resolve)),
    bounds: { passwordChecksQueuedMax: 3 },
  })
  await world.create()
  await protect(world, verifier(1))
  const readings = Array.from({ length: 8 }, (_, at) => read(world, `guess ${at}`))
  await settled()
  t.equal(checks.length, 2, 'two at one time')
  for (let at = 0; at < 5; at++) {
    checks[at]?.(false)
    await settled()
  }
  const statuses = (await Promise.all(readings)).map(statusOf)
  t.equal(statuses.filter((status) => status === 'error-passwordWrong').length, 5)
  t.equal(statuses.filter((status) => status === 'error-rateLimit').length, 3)
})

t.test('scrypt over the lower-case hex opens, in any case; a plain text never does', async (t) => {
  const { scryptSync } = await import('node:crypto')
  const world = new World()
  t.teardown(() => world.close())
  world.host()
  await world.create()
  const hex = 'ab'.repeat(32)
  const salt = Buffer.alloc(16, 9)
  await protect(world, { salt, hash: scryptSync(hex, salt, 32, { N: 16, r: 8, p: 1 }), cost: 4 })
  t.equal(statusOf(await read(world, hex.toUpperCase())), 'ok')
  t.equal(statusOf(await read(world, 'cd'.repeat(32))), 'error-passwordWrong')
  t.equal(statusOf(await read(world, 'plain')), 'error-passwordWrong')
})

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
    world.host('one', { clock: time, timers: time })
    await world.create()
    const other = '11111111-1111-4111-8111-111111111111'
    await world.create({ account: other })
    await world.folder('a')
    const head = await world.head()
    for (let bugs = 0; bugs < 3; bugs++) t.equal(statusOf(await world.folder('bug:apply')), 'error-internal')
    t.equal(await world.head(), head)
    await t.rejects(world.names({ timeoutMs: 100 }), { code: 'ACCOUNTS_UNAVAILABLE' }, 'quarantined')
    t.strictSame(await world.names({ account: other }), [])
    await time.advance(1100)
    t.strictSame(await world.names(), ['a'])
  },
)

t.test('a damaged journal stops its account loudly, and no other', async (t) => {
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
  const told = async (subject: string) =>
    JSON.parse(
      Buffer.from(await world.bus.request(subject, new Uint8Array(), { timeoutMs: 1000 })).toString(),
    )
  const [quarantined] = await told(quarantineSubjectOf('two'))
  t.strictSame(Object.keys(quarantined).sort(), ['account', 'reason', 'since', 'tries'])
  t.match(quarantined, { account: world.account, reason: String, since: Number, tries: Number })
  t.strictSame(await told(lagSubjectOf('two')), { accounts: 0, ms: 0 })
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

t.test('garbage on the bus is answered, not fatal', async (t) => {
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
