/** What an account keeps through crashes, takeovers, checkpoints and passivation. */

import { mintRequestId } from '@holdfast/kernel'
import type { AccountOperation } from '@holdfast/wire'
import t, { type Test } from 'tap'
import { noMetrics } from '../src/observer.ts'
import { systemLoop } from '../src/timers.ts'
import { mortal } from './mortal-stores.ts'
import { blob } from './tiny-core.ts'
import { itemsOf, ManualTime, routeOf, settled, statusOf, World } from './world.ts'

const shared = { ordered: false, exclusive: false }

t.test(
  'a fenced append: no caller gets a success, the state is dropped, the client ends at the right host',
  async (t) => {
    const world = new World(shared)
    t.teardown(() => world.close())
    world.host('one')
    world.host('two')
    world.states.foldersMax = 1
    await world.create()
    const hold = world.medium.hold('append')
    const lost = world.folder('lost')
    const refused = world.folder('refused')
    await hold.reached
    world.hostId = 'two'
    t.equal(statusOf(await world.folder('taken over')), 'ok')
    hold.release()
    t.equal(statusOf(await lost), 'error-limits', 'decided again by the new owner')
    t.equal(statusOf(await refused), 'error-limits')
    t.strictSame(await world.names(), ['taken over'])
    t.ok(world.warnings.includes('an activation was fenced'))
  },
)

t.test('a new host asks the living owner to release the account, and does not fence it', async (t) => {
  const world = new World(shared)
  t.teardown(() => world.close())
  let placed = 'one'
  const hostOf = () => placed
  const one = world.host('one', { hostOf })
  world.host('two', { hostOf, predecessorOf: () => 'one' })
  await world.create()
  t.equal(one.activeAccounts, 1)
  const hold = world.medium.hold('append')
  const late = world.folder('under way')
  await hold.reached
  placed = 'two'
  world.hostId = 'two'
  const next = world.folder('next')
  hold.release()
  t.equal(statusOf(await late), 'ok', 'pending requests end where they are')
  t.equal(statusOf(await next), 'ok')
  t.equal(one.activeAccounts, 0)
  t.strictSame(world.warnings, [])
  t.strictSame((await world.names()).sort(), ['next', 'under way'])
})

t.test('an owner that does not release in time is taken over', async (t) => {
  const world = new World(shared)
  t.teardown(() => world.close())
  world.host('one', { bounds: { releaseWaitMs: 60_000 } })
  world.host('two', { predecessorOf: () => 'one', bounds: { releaseWaitMs: 20 } })
  await world.create()
  world.hostId = 'two'
  t.equal(statusOf(await world.folder('a')), 'ok', 'the owner does not know yet that it was fenced')
  t.strictSame(await world.names(), ['a'])
})

t.test('a stale owner answers no reads', async (t) => {
  const world = new World(shared)
  t.teardown(() => world.close())
  world.host('one')
  world.host('two')
  await world.create()
  await world.folder('a')
  world.hostId = 'two'
  await world.folder('b')
  world.hostId = 'one'
  t.strictSame(await world.names(), ['a', 'b'])
})

/**
 * A host that gathers reads until the test ends that. However slow the machine is, the reads arrive
 * in any number of turns, and each is decided as it arrives.
 */
function gathering(world: World) {
  const turns: (() => void)[] = []
  let held = false
  let arrived = 0
  const turn = () => (held ? new Promise<void>((resolve) => turns.push(resolve)) : systemLoop.turn())
  const metrics = { ...noMetrics, requested: () => void arrived++ }
  world.host('one', { timers: { ...systemLoop, turn }, metrics, bounds: { turnMs: 600_000 } })
  return {
    turns,
    /** Resolves when the host gathers all of them. */
    async reads(count: number): Promise<Promise<string[]>[]> {
      held = true
      arrived = 0
      const reads = Array.from({ length: count }, () => world.names())
      while (arrived < count) await systemLoop.turn()
      return reads
    },
    end() {
      held = false
      for (const resume of turns) resume()
    },
  }
}

t.test('reads that arrive together share one confirmation', async (t) => {
  const world = new World(shared)
  t.teardown(() => world.close())
  const gathers = gathering(world)
  await world.create()
  const { journal } = world
  const head = journal.head.bind(journal)
  let confirmations = 0
  journal.head = (account) => {
    confirmations++
    return head(account)
  }
  const reads = await gathers.reads(32)
  gathers.end()
  await Promise.all(reads)
  t.equal(confirmations, 1)
})

t.test('a read that comes while another is confirmed is not answered by that', async (t) => {
  const world = new World(shared)
  t.teardown(() => world.close())
  world.host('one')
  world.host('two')
  await world.create()
  const confirmed = world.medium.hold('head', { at: 'after' })
  const early = world.names()
  await confirmed.reached
  world.hostId = 'two'
  await world.folder('a')
  world.hostId = 'one'
  const late = world.names()
  await settled()
  confirmed.release()
  t.strictSame(await early, [], 'as of its request')
  t.strictSame(await late, ['a'])
})

t.test('a stale owner answers no read that it gathers while it is taken over', async (t) => {
  const world = new World(shared)
  t.teardown(() => world.close())
  const gathers = gathering(world)
  world.host('two')
  await world.create()
  const reads = await gathers.reads(2)
  t.equal(gathers.turns.length, 1, 'both gather in one turn')
  world.hostId = 'two'
  await world.folder('a')
  gathers.end()
  t.strictSame(await Promise.all(reads), [['a'], ['a']])
})

for (const isLate of [true, false])
  t.test(`a read that came ${isLate ? 'after' : 'before'} the epoch was raised`, async (t) => {
    const world = new World(shared)
    t.teardown(() => world.close())
    const first = world.host('one')
    await world.create()
    await first.close({ drainMs: 10_000 })
    world.host('two')
    world.host('three')
    world.hostId = 'two'
    const rows = world.medium.hold('rows', { at: 'after' })
    const early = world.names()
    await rows.reached
    world.hostId = 'three'
    await world.folder('b')
    world.hostId = 'two'
    const late = isLate ? world.names() : undefined
    await settled()
    rows.release()
    const asOfEarly = await early
    if (isLate) t.strictSame(await late, ['b'], 'is confirmed')
    else t.strictSame(asOfEarly, [], 'needs no more proof: it saw the state after its request')
  })

t.test('an append with an unknown outcome, fenced meanwhile: its request still has one effect', async (t) => {
  for (const applied of [true, false]) {
    const world = new World(shared)
    world.host('one')
    world.host('two')
    await world.create()
    world.medium.fail('append', { code: 'UNKNOWN', applied })
    const head = world.medium.hold('head', { at: 'before' })
    const change = world.folder('a')
    await head.reached
    world.hostId = 'two'
    await world.folder('b')
    head.release()
    t.equal(statusOf(await change), 'ok')
    t.strictSame((await world.names()).sort(), ['a', 'b'])
    await world.close()
  }
})

for (const outcome of ['late', 'lost', 'unanswered'] as const)
  t.test(`two hosts make one account, the first row of one of them is ${outcome}`, async (t) => {
    const world = new World(shared)
    t.teardown(() => world.close())
    world.host('one')
    world.host('two')
    const request = { id: mintRequestId(Date.now()) }
    const create = () =>
      world.ask(
        { $case: 'createAccount', value: { tokenKeyId: 1, email: undefined, isNewId: true } },
        request,
      )
    const append = world.medium.hold('append', { at: outcome === 'unanswered' ? 'after' : 'before' })
    const settling = world.medium.hold('head')
    const slow = create()
    await append.reached
    if (outcome !== 'late') {
      append.release('UNKNOWN')
      await settling.reached
    }
    world.hostId = 'two'
    t.equal(statusOf(await create()), 'ok')
    append.release()
    settling.release()
    t.equal(statusOf(await slow), 'ok')
    world.hostId = 'one'
    t.equal(statusOf(await world.folder('a')), 'ok')
    world.hostId = 'two'
    t.strictSame(await world.names(), ['a'], 'no host continues beside the owner')
    t.ok(world.warnings.includes('an activation was fenced'))
  })

t.test('an account whose creation was refused leaves memory, and no rows', async (t) => {
  const time = new ManualTime()
  const world = new World(shared)
  t.teardown(() => world.close())
  const host = world.host('one', { clock: time, timers: time })
  world.states.refusesAccounts = true
  t.equal(statusOf(await world.create()), 'error-limits')
  t.equal(host.activeAccounts, 1)
  await time.advance(1000)
  t.equal(host.activeAccounts, 0)
  t.equal((await world.journal.head(world.account)).epoch, 0)
  t.strictSame(await world.keys('active/'), [])
  world.states.refusesAccounts = false
  t.equal(statusOf(await world.create()), 'ok')
  t.strictSame(world.warnings, [])
})

t.test('an account is made with its first row; rows of blobs that it uses come before', async (t) => {
  const world = new World(shared)
  t.teardown(() => world.close())
  world.host('one')
  const append = world.medium.hold('append')
  const value = { name: 'f', mimetype: '', blob: blob(1), createAccount: { tokenKeyId: 1 } }
  const made = world.ask({ $case: 'addFile', value } as AccountOperation)
  const large = world.folder('large:270000')
  await append.reached
  t.equal((await world.keys('ref/')).length, 1)
  t.equal(await world.head(), 0)
  t.strictSame(await Array.fromAsync(world.journal.pageNames(world.account)), [], 'no page has a name yet')
  append.release()
  t.equal(statusOf(await made), 'ok')
  t.equal(statusOf(await large), 'ok')
  const next = await world.journal.acquire(world.account, { owner: 'two' })
  t.strictSame([next.epoch, next.head, next.previousOwner], [2, 2, 'one'])
})

t.test('two hosts fight over an account: every request has one effect, in one order', async (t) => {
  const world = new World(shared)
  t.teardown(() => world.close())
  world.host('one', { bounds: { takeoversPerMinuteMax: 10_000 } })
  world.host('two', { bounds: { takeoversPerMinuteMax: 10_000 } })
  await world.create()
  const asked = Array.from({ length: 60 }, async (_, at) => {
    world.hostId = at % 3 === 0 ? 'one' : 'two'
    if (at % 5 === 0) await settled()
    return statusOf(await world.folder(`f${at}`))
  })
  t.ok((await Promise.all(asked)).every((status) => status === 'ok'))
  const names = await world.names()
  t.equal(names.length, 60)
  world.hostId = 'one'
  t.strictSame(await world.names(), names, 'both read the same')
})

t.test('a host that is fenced repeatedly leaves the account alone for a while', async (t) => {
  const world = new World(shared)
  t.teardown(() => world.close())
  world.host('one', { bounds: { takeoversPerMinuteMax: 3 } })
  await world.create()
  for (let takeover = 0; takeover < 3; takeover++) {
    await world.journal.acquire(world.account, { owner: 'rival' })
    await world.names({ timeoutMs: 300 }).catch(() => {})
  }
  await t.rejects(world.names({ timeoutMs: 100 }), { code: 'ACCOUNTS_UNAVAILABLE' })
})

t.test('a host whose own view names another redirects requests there and unloads the account', async (t) => {
  const world = new World(shared)
  t.teardown(() => world.close())
  const time = new ManualTime()
  let owner = 'one'
  const one = world.host('one', { hostOf: () => owner, clock: time, timers: time })
  world.host('two')
  await world.create()
  t.equal(one.activeAccounts, 1)
  owner = 'two'
  t.strictSame(await world.names({ timeoutMs: 1000 }), [], 'moved, and the hint followed')
  await time.advance(1000)
  t.equal(one.activeAccounts, 0)
})

// ---- crashes

/** A client's actions, with what must exist once they were acknowledged. */
const story: { operation: AccountOperation; leaves: { has?: string; hasNot?: string } }[] = [
  {
    operation: { $case: 'createAccount', value: { tokenKeyId: 1, email: undefined, isNewId: true } },
    leaves: {},
  },
  { operation: folder('a'), leaves: { has: 'a' } },
  { operation: file('f', 1), leaves: { has: 'f' } },
  { operation: file('g', 2), leaves: { has: 'g' } },
  { operation: remove('f'), leaves: { hasNot: 'f' } },
  { operation: file('f2', 1), leaves: { has: 'f2' } },
  { operation: report('f2'), leaves: {} },
  { operation: { $case: 'sendSignIn', value: {} }, leaves: {} },
  { operation: remove('g'), leaves: { hasNot: 'g' } },
  { operation: folder('large:270000'), leaves: {} },
  { operation: expiry('a', 4_000_000_000), leaves: {} },
  { operation: folder('z'), leaves: { has: 'z' } },
]

function folder(name: string): AccountOperation {
  return {
    $case: 'createFolder',
    value: { parentFolderId: '', name, isPublic: undefined, modTime: undefined },
  }
}
function file(name: string, byte: number): AccountOperation {
  return {
    $case: 'addFile',
    value: {
      name,
      mimetype: '',
      blob: blob(byte),
      createAccount: undefined,
      folderId: undefined,
      modTime: undefined,
    },
  }
}
function report(name: string): AccountOperation {
  const counts = [{ contentId: name, count: 1 }]
  const source = Buffer.alloc(16, 1)
  return { $case: 'reportDownloads', value: { source, sequence: 1, counts, trafficDirect: 0, trafficWeb: 0 } }
}
function remove(name: string): AccountOperation {
  return {
    $case: 'deleteContents',
    value: { contentIds: [name], representation: undefined, heldSeconds: undefined },
  }
}
function expiry(name: string, due: number): AccountOperation {
  const attribute = { $case: 'expiry' as const, value: { expiry: due, deleteAfterExpiry: false } }
  return { $case: 'updateContent', value: { contentId: name, attribute } }
}

/**
 * Makes these calls on a host that dies, continues with another one, and checks everything.
 * @returns whether it died.
 */
async function playWithDeath(
  t: Test,
  capabilities: { ordered: boolean; exclusive: boolean },
  dies: { at: number; when: 'before' | 'after' },
): Promise<boolean> {
  const world = new World(capabilities)
  const bounds = { checkpointBytesMin: 400, effectsIdleMs: 1, codesDrawn: 64 }
  const dying = mortal(world.journal, world.lookups, dies)
  const first = world.host('one', { journal: dying.journal, lookups: dying.lookups, bounds })
  let died = false
  const death = dying.death.then(() => {
    died = true
  })
  const revive = async () => {
    await death
    world.kill(first)
    // What was issued before the death may still happen; nothing else.
    await settled()
    world.hostId = 'two'
    world.host('two', { bounds })
  }
  const ask = async (operation: AccountOperation) => {
    const id = mintRequestId(Date.now())
    const ended = new AbortController()
    const asked = world.ask(operation, { id, signal: ended.signal }).catch(() => undefined)
    const answered = await Promise.race([asked, death.then(() => undefined)])
    if (answered !== undefined) return answered
    ended.abort()
    if (world.hostId === 'one') await revive()
    return world.ask(operation, { id })
  }
  for (const { operation, leaves } of story) {
    t.equal(statusOf(await ask(operation)), 'ok', `${operation.$case}, death ${dies.when} ${dies.at}`)
    const names = itemsOf(await ask({ $case: 'getAccount', value: {} })).map(({ name }) => name)
    if (leaves.has && !names.includes(leaves.has))
      t.fail(`${leaves.has} is lost, death ${dies.when} ${dies.at}`)
    if (leaves.hasNot && names.includes(leaves.hasNot)) t.fail(`${leaves.hasNot} is back`)
  }
  await settled()
  const label = `death ${dies.when} operation ${dies.at}`
  const items = itemsOf(await ask({ $case: 'getAccount', value: {} }))
  t.strictSame(
    items.map(({ name }) => name.slice(0, 9)).sort(),
    ['a', 'f2', 'xxxxxxxxx', 'z'],
    `${label}: everything once`,
  )
  const downloads = items.find(({ name }) => name === 'f2')?.downloads
  if (downloads !== 1 && !(died && downloads === 0)) t.fail(`${label}: ${downloads} downloads were counted`)
  for (const item of items.filter(({ isFolder }) => isFolder)) {
    const route = await routeOf(world, item.code)
    t.equal(route, world.account, `${label}: the code of ${item.name.slice(0, 9)} leads to it`)
  }
  t.ok(world.mails.length >= 1, `${label}: the mail was sent`)
  t.equal(new Set(world.mails).size, 1, `${label}: repeats of it bear one id`)
  if (world.hostId === 'one') await Promise.race([first.close({ drainMs: 500 }), death])
  if (died && world.hostId === 'one') {
    await revive()
    await world.names()
    await world.hosts.at(-1)?.wakeListed()
  }
  await world.hosts.at(-1)?.close({ drainMs: 10_000 })
  t.strictSame(
    await world.keys('ref/'),
    [`ref/${'01'.repeat(48)}/${'01'.repeat(16)}/${world.account}`],
    `${label}: references`,
  )
  t.strictSame(await world.keys('active/'), [], `${label}: nothing pending`)
  t.equal((await world.keys('wake/')).length, 1, `${label}: the timer`)
  await world.bus.close()
  return died
}

for (const capabilities of [
  { ordered: true, exclusive: true },
  { ordered: false, exclusive: false },
]) {
  for (const when of ['before', 'after'] as const) {
    t.test(`a host may die ${when} any of its operations, ${JSON.stringify(capabilities)}`, async (t) => {
      // Unordered stores have more operations: every other one before, the rest after, is all of
      // them.
      const step = capabilities.ordered ? 1 : 2
      let at = when === 'before' ? 1 : 2
      while (await playWithDeath(t, capabilities, { at, when })) at += step
      t.ok(at > 35, `${at} operations`)
    })
  }
}
