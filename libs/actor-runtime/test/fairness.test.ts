/**
 * The order of turns: owners before visitors, visitors' networks in turn, password checks by
 * network and folder.
 */
import { mintRequestId } from '@holdfast/kernel'
import {
  type AccountOperation,
  type AccountReply,
  type AccountRequest,
  type Caller,
  SortField,
} from '@holdfast/wire'
import t, { type Test } from 'tap'
import { Visitors } from '../src/host/visitors.ts'
import type { AccountHost } from '../src/index.ts'
import { FairSemaphore } from '../src/queues/fair-semaphore.ts'
import { settled, statusOf, World } from './world.ts'

const operator: Caller['who'] = { $case: 'operator', value: {} }
const visitor: Caller['who'] = { $case: 'visitor', value: { accountId: '' } }
/**
 * A visitor's read of the tiny core. In `decided` its name differs from that of the owner's read.
 */
const look: AccountOperation = { $case: 'getAccount', value: {} }
const folder = (name: string): AccountOperation => ({
  $case: 'createFolder',
  value: { parentFolderId: '', name, isPublic: undefined, modTime: undefined },
})

function request(
  world: World,
  operation: AccountOperation,
  { who = visitor, network }: { who?: Caller['who']; network?: string } = {},
): AccountRequest {
  return {
    accountId: world.account,
    requestId: mintRequestId(Date.now()),
    deadlineMs: Date.now() + 60_000,
    caller: { who },
    tierNeeded: '',
    clientNetwork: network,
    clientRequest: undefined,
    traceparent: undefined,
    operation,
  }
}

/** A host that decides one request, and then lets the loop turn. */
async function slowWorld(t: Test, bounds: object = {}): Promise<{ world: World; host: AccountHost }> {
  const world = new World()
  t.teardown(() => world.close())
  const host = world.host('one', { bounds: { turnMs: 0, ...bounds } })
  await world.create()
  world.states.decided.length = 0
  return { world, host }
}

const isOverloaded = ({ result }: AccountReply) => result?.$case === 'unavailable' && result.value.overloaded

t.test("an owner's command comes before 4,000 earlier reads of visitors", async (t) => {
  const { world, host } = await slowWorld(t)
  const reads = Array.from({ length: 4_000 }, (_, at) =>
    host.take(request(world, look, { network: `n${at % 10}` })),
  )
  const made = await host.take(request(world, folder('mine'), { who: operator }))
  t.equal(statusOf(made), 'ok')
  t.ok(world.states.decided.indexOf('mine') <= 1, `turn ${world.states.decided.indexOf('mine')}`)
  const refused = (await Promise.all(reads)).filter(isOverloaded)
  // The first is decided as it comes.
  t.equal(refused.length, 4_000 - 513, 'requests beyond the bound of visitors are refused at once')
  t.equal(world.states.decided.length, 514, 'the others are all decided')
})

t.test(
  "visitors do not starve behind an owner that sends without end, and the owner's order is kept",
  async (t) => {
    const { world, host } = await slowWorld(t)
    const names = Array.from({ length: 200 }, (_, at) => `f${at}`)
    const made = names.map((name) => host.take(request(world, folder(name), { who: operator })))
    const read = host.take(request(world, look))
    await Promise.all([...made, read])
    const { decided } = world.states
    t.ok(decided.findIndex((what) => !what.startsWith('f')) <= 18, 'the visitor has a turn')
    t.same(
      decided.filter((what) => what.startsWith('f')),
      names,
    )
  },
)

t.test('networks of visitors take turns', async (t) => {
  const { world, host } = await slowWorld(t)
  const order: string[] = []
  const ask = (network: string) =>
    host.take(request(world, look, { network })).then(() => void order.push(network))
  await Promise.all([...Array.from({ length: 200 }, () => ask('many')), ask('one')])
  t.ok(order.indexOf('one') <= 3, `place ${order.indexOf('one')}`)
})

t.test("a network's pending requests are bounded over all accounts, also over the bus", async (t) => {
  const { world } = await slowWorld(t, { visitorsPerNetworkMax: 2 })
  const { deadlineMs: _, ...crowd } = request(world, look, { network: 'crowd' })
  const hold = world.medium.hold('append')
  const change = world.folder('held')
  await hold.reached
  const asked = Array.from({ length: 3 }, () =>
    world.client.call({ ...crowd, requestId: mintRequestId(Date.now()) }),
  )
  const other = world.client.call({ ...crowd, clientNetwork: 'other' })
  const [, , third] = await Promise.allSettled([hold.reached, hold.reached, asked[2]])
  t.match(third, { status: 'rejected', reason: { overloaded: true } })
  hold.release()
  t.ok(await Promise.all([change, asked[0], asked[1], other]))
  t.ok(await world.client.call({ ...crowd, requestId: mintRequestId(Date.now()) }), 'there is room again')
})

t.test('counts of visitors end with their requests', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const visitors = new Visitors({ visitorsMax: 3, visitorsPerAccountMax: 2, visitorsPerNetworkMax: 2 })
  const [one, far] = [
    request(world, look, { network: 'a' }),
    request(world, look, { network: 'b'.repeat(33) }),
  ]
  t.same([visitors.enter(one), visitors.enter(one), visitors.enter(one)], [true, true, false])
  visitors.left(one)
  t.ok(visitors.enter(far), 'a name beyond its length is no name')
  t.notOk(visitors.enter({ ...far, accountId: world.account }))
  t.ok(visitors.enter({ ...far, accountId: 'other' }))
  t.notOk(visitors.enter({ ...far, accountId: 'third' }), 'of all accounts')
})

const verifier = (first: number) => ({ salt: Buffer.alloc(16, first), hash: Buffer.alloc(32, 1), cost: 1 })

function read(world: World, password: string, network: string): AccountRequest {
  const value = {
    contentId: '',
    password,
    page: 1,
    pageSize: 1,
    sortField: SortField.CREATE_TIME,
    ascending: false,
    contentFilter: '',
    contentName: undefined,
    columns: undefined,
    maxDepth: 1,
  }
  return request(world, { $case: 'readContent', value }, { network })
}

t.test('the right password of an ordinary visitor is checked among guesses from 90 networks', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  let checked = 0
  const host = world.host('one', {
    checkPassword: async (_, password) => {
      checked++
      await settled()
      return password === 'right'
    },
  })
  await world.create()
  const attribute = { $case: 'password' as const, value: { verifier: verifier(1) } }
  await world.ask({ $case: 'updateContent', value: { contentId: '', attribute } })
  const guesses = Array.from({ length: 270 }, (_, at) => host.take(read(world, `guess ${at}`, `n${at % 90}`)))
  const right = await host.take(read(world, 'right', 'ordinary'))
  t.equal(statusOf(right), 'ok')
  t.ok(checked <= 100, `${checked} checks came before`)
  const statuses = (await Promise.all(guesses)).map(statusOf)
  t.ok(statuses.includes('error-rateLimit'), 'those with most waiting are refused')
})

t.test('many networks at one folder do not block the readers of another', async (t) => {
  const semaphore = new FairSemaphore({ atOnceMax: 1, waitingMax: 50 })
  const order: string[] = []
  const run = (network: string, folder: string) =>
    semaphore.run({ network, folder }, async () => {
      order.push(network)
      await settled()
      return true
    })
  const crowd = Array.from({ length: 200 }, (_, at) => run(`n${at}`, 'attacked'))
  const reader = run('reader', 'quiet')
  t.equal(await reader, true)
  t.ok(order.indexOf('reader') <= 3, `place ${order.indexOf('reader')}`)
  const outcomes = await Promise.all(crowd)
  t.equal(outcomes.filter((outcome) => outcome === true).length, 50, 'one running, 49 beside the reader')
})
