/** Share codes for decisions. */
import { mintRequestId } from '@holdfast/kernel'
import { type AccountRequest, blank, CreateFolder } from '@holdfast/wire'
import t from 'tap'
import { open } from './asks.ts'
import { itemsOf, routeOf, settled, statusOf, World } from './world.ts'

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
