/** Appends that fail, and those whose outcome is unknown. */
import { mintRequestId } from '@holdfast/kernel'
import { AccountReply, AccountRequest } from '@holdfast/wire'
import t from 'tap'
import { open } from './asks.ts'
import { blob } from './tiny-core.ts'
import { statusOf, World } from './world.ts'

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
