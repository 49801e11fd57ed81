/** References compared with accounts: differences are found and repaired, during any other work. */
import { referenceKey } from '@holdfast/journal'
import { IdCodec, mintRequestId, silentLog, systemTimers } from '@holdfast/kernel'
import type { ReconcileView } from '@holdfast/wire'
import t, { type Test } from 'tap'
import { Reconciler, type ReconcilerOptions } from '../src/index.ts'
import { plainReconciler } from '../src/testing.ts'
import { blob } from './tiny-core.ts'
import { settled, statusOf, World } from './world.ts'

const shared = { ordered: false, exclusive: false }
const ids = new IdCodec({ contentKey: Buffer.alloc(32, 1), accountKey: Buffer.alloc(32, 2) })
const file = (byte: number) => blob(byte)
const nameOf = (byte: number) => Buffer.alloc(64, byte)

function add(world: World, byte: number, options?: Parameters<World['ask']>[1]) {
  const name = `f${byte}`
  return world.ask(
    {
      $case: 'addFile',
      value: {
        name,
        mimetype: '',
        blob: file(byte),
        createAccount: undefined,
        folderId: undefined,
        modTime: undefined,
      },
    },
    options,
  )
}

function remove(world: World, byte: number) {
  return world.ask({
    $case: 'deleteContents',
    value: { contentIds: [`f${byte}`], representation: undefined, heldSeconds: undefined },
  })
}

function reconciler(world: World, options: Partial<ReconcilerOptions> = {}) {
  let noted: Uint8Array | undefined
  const one = new Reconciler({
    ...plainReconciler,
    accounts: world.client,
    listAccounts: (after) => world.journal.accounts(after === undefined ? {} : { after }),
    listReferences: (after) => world.lookups.walk('ref', after === undefined ? {} : { after }),
    notes: {
      read: async () => noted,
      write: async (bytes) => {
        noted = bytes
      },
    },
    perSecond: 1_000_000,
    everyMs: 3_600_000,
    wantedMs: 1_000,
    clock: world.clock,
    timers: systemTimers,
    log: { ...silentLog, warn: (_, message) => void world.warnings.push(message) },
    ...options,
  })
  return one
}

async function ask(
  world: World,
  question: { uses?: boolean; suspects?: number[]; dryRun?: boolean },
): Promise<ReconcileView> {
  const { uses = false, suspects = [], dryRun = false } = question
  const reply = await world.client.call(
    {
      accountId: world.account,
      requestId: mintRequestId(Date.now()),
      caller: { who: { $case: 'system', value: {} } },
      clientNetwork: undefined,
      clientRequest: undefined,
      traceparent: undefined,
      tierNeeded: '',
      operation: {
        $case: 'reconcile',
        value: {
          dryRun,
          uses: uses ? { epoch: 0, row: 0, content: 0 } : undefined,
          suspects: suspects.map(nameOf),
        },
      },
    },
    { timeoutMs: 10_000 },
  )
  if (reply.result?.$case !== 'reconcile') throw new Error(`answered ${reply.result?.$case}`)
  return reply.result.value
}

function started(t: Test, capabilities: ConstructorParameters<typeof World>[0] = shared): World {
  const world = new World(capabilities)
  t.teardown(() => world.close())
  world.host('one')
  return world
}

const plant = (world: World, byte: number, account: string = world.account) =>
  world.lookups.write([{ put: referenceKey(file(byte), account), value: Buffer.alloc(0) }])
const lose = (world: World, byte: number, account: string = world.account) =>
  world.lookups.write([{ delete: referenceKey(file(byte), account) }])
const has = async (world: World, byte: number, account: string = world.account) =>
  (await world.lookups.get(referenceKey(file(byte), account))) !== undefined

t.test(
  'a round restores missing references and removes unclaimed ones; a dry run only reports',
  async (t) => {
    const world = started(t)
    const other = ids.account('eu-par')
    const unknown = ids.account('eu-par')
    await world.create()
    await world.create({ account: other })
    for (const byte of [1, 2, 3, 4, 5]) await add(world, byte)
    await add(world, 1, { account: other })
    await lose(world, 1)
    await lose(world, 4)
    await lose(world, 1, other)
    await plant(world, 9)
    await plant(world, 2, other)
    await plant(world, 8, unknown)
    const before = await world.keys('ref/')
    const round = reconciler(world)
    const figures = { accounts: 2, used: 6, missing: 3, orphaned: 3, failed: 0 }
    t.match(await round.reconcile({ dryRun: true }), { ...figures, references: 6, mended: 0, dryRun: true })
    t.same(await world.keys('ref/'), before, 'a dry run changes nothing')
    t.equal(await round.confirmedMs(), undefined)
    const reported = await round.reconcile({ dryRun: false })
    t.match(reported, { ...figures, mended: 6, dryRun: false, endedMs: Number }, 'the same is mended')
    t.equal(await round.confirmedMs(), reported.beganMs)
    const used = [1, 2, 3, 4, 5].map((byte) => referenceKey(file(byte), world.account))
    t.same(await world.keys('ref/'), [...used, referenceKey(file(1), other)].sort())
    t.match(await round.reconcile({ dryRun: false }), { missing: 0, orphaned: 0, mended: 0 })
  },
)

t.test('a place that a store reads twice is counted once', async (t) => {
  const world = started(t)
  const unknown = ids.account('eu-par')
  const count = 2_100
  const strays = Array.from({ length: count }, (_, at) => {
    const blob = { id: Buffer.alloc(48, `${at}.`), incarnation: Buffer.alloc(16, 1) }
    return { put: referenceKey(blob, unknown), value: Buffer.alloc(0) }
  })
  await world.lookups.write(strays)
  // As Cassandra does: a walk continues with the place itself.
  async function* inclusive(after: string | undefined) {
    for await (const one of world.lookups.walk('ref'))
      if (after === undefined || one.place >= after) yield one
  }
  const round = reconciler(world, { listReferences: inclusive })
  t.match(await round.reconcile({ dryRun: false }), { references: count, orphaned: count, mended: count })
})

t.test('a round restores missing routes of codes and addresses; a dry run only reports', async (t) => {
  const world = started(t)
  const other = ids.account('eu-par')
  await world.create()
  await world.create({ account: other })
  for (let at = 0; at < 5; at++) await world.folder(`f${at}`)
  await world.folder('many:200')
  world.states.emails.set(world.account, 'One@example.org').set(other, 'two@example.org')
  await world.lookups.claim('email/two@example.org', Buffer.from('somebody'))
  const routes = await Array.fromAsync(world.lookups.scan('code/'))
  t.ok(routes.length > 3, 'more than one look')
  await world.lookups.write(routes.slice(1).map(({ key }) => ({ delete: key })))
  const round = reconciler(world)
  const found = { failed: 0, missing: 0 }
  const dry = await round.reconcile({ dryRun: true })
  t.match(dry, { ...found, mended: 0 })
  t.ok(dry.missingRoutes >= routes.length, 'all but one, and an address')
  t.equal((await world.keys('code/')).length, 1)
  t.equal(await world.lookups.get('email/one@example.org'), undefined)
  const reported = await round.reconcile({ dryRun: false })
  t.match(reported, { ...found, missingRoutes: routes.length, mended: routes.length })
  t.strictSame(await Array.fromAsync(world.lookups.scan('code/')), routes)
  t.equal(String(await world.lookups.get('email/one@example.org')), world.account)
  t.equal(String(await world.lookups.get('email/two@example.org')), 'somebody', 'it was claimed')
  t.match(await round.reconcile({ dryRun: false }), { missingRoutes: 0, mended: 0 })
})

t.test('routes that cannot be read do not keep references from being restored', async (t) => {
  const world = started(t)
  await world.create()
  await add(world, 1)
  await world.folder('f')
  await lose(world, 1)
  world.states.emails.set(world.account, 'one@example.org')
  const isRoute = (key: string) => /^(code|email)\//.test(key)
  const heal = world.medium.fail('lookup.get', {
    code: 'UNAVAILABLE',
    times: Number.POSITIVE_INFINITY,
    target: isRoute,
  })
  const round = reconciler(world)
  t.match(await round.reconcile({ dryRun: false }), { failed: 0, missing: 1, mended: 1, routes: 0 })
  t.ok(await has(world, 1))
  t.ok(await round.confirmedMs())
  heal()
  t.match(await round.reconcile({ dryRun: false }), { missing: 0, missingRoutes: 1, mended: 1 })
})

t.test('an address that another account claimed during the comparison stays with that one', async (t) => {
  const world = started(t)
  await world.create()
  world.states.emails.set(world.account, 'one@example.org')
  const claim = world.medium.hold('lookup.claim', { target: 'email/one@example.org' })
  const round = reconciler(world).reconcile({ dryRun: false })
  await claim.reached
  const write = world.lookups.write([{ put: 'email/one@example.org', value: Buffer.from('somebody') }])
  await write
  claim.release()
  t.match(await round, { missingRoutes: 1, mended: 0 })
  t.equal(String(await world.lookups.get('email/one@example.org')), 'somebody')
  t.ok(world.warnings.includes('the address of an account leads to another account'))
})

t.test('an unclaimed blob that is used during the comparison keeps its reference', async (t) => {
  for (const capabilities of [shared, {}]) {
    const world = started(t, capabilities)
    await world.create()
    await plant(world, 7)
    const look = world.medium.hold('lookup.get', { target: referenceKey(file(7), world.account) })
    const asked = ask(world, { suspects: [7] })
    await look.reached
    t.equal(statusOf(await add(world, 7)), 'ok')
    look.release()
    t.match(await asked, { mended: 0 })
    t.ok(await has(world, 7))
  }
})

t.test(
  'an unclaimed blob that is used while its reference is deleted gets the reference back first',
  async (t) => {
    const world = started(t)
    await world.create()
    await plant(world, 7)
    const key = referenceKey(file(7), world.account)
    const deleting = world.medium.hold('lookup.write', { target: key })
    const asked = ask(world, { suspects: [7] })
    await deleting.reached
    const added = add(world, 7)
    await settled()
    deleting.release()
    t.equal(statusOf(await added), 'ok')
    await asked
    t.ok(await has(world, 7), 'the reference was put behind the delete')
  },
)

t.test('a blob that is released while its missing reference is restored has none in the end', async (t) => {
  const world = started(t)
  await world.create()
  await add(world, 3)
  await lose(world, 3)
  const look = world.medium.hold('lookup.get', { target: referenceKey(file(3), world.account) })
  const asked = ask(world, { uses: true })
  await look.reached
  t.equal(statusOf(await remove(world, 3)), 'ok')
  await settled()
  t.same(world.released, [], 'no reference is deleted during the look')
  look.release()
  t.match(await asked, { looked: 1, missing: 1, mended: 1 })
  while (world.released.length === 0) await settled()
  t.notOk(await has(world, 3))
})

t.test('a running delete is no orphan, and neither is what a pending change starts to use', async (t) => {
  const world = started(t)
  await world.create()
  await add(world, 3)
  const deleting = world.medium.hold('lookup.write', { target: referenceKey(file(3), world.account) })
  await remove(world, 3)
  await deleting.reached
  t.match(await ask(world, { suspects: [3] }), { orphaned: 0, mended: 0 })
  deleting.release()
  while (world.released.length === 0) await settled()

  const append = world.medium.hold('append')
  const copied = add(world, 4)
  await append.reached
  t.ok(await has(world, 4), 'the reference is there before the change')
  let answered = false
  const asked = ask(world, { uses: true, suspects: [4] }).finally(() => {
    answered = true
  })
  await settled()
  t.notOk(answered, 'the state it saw is not durable yet')
  append.release()
  t.equal(statusOf(await copied), 'ok')
  t.match(await asked, { looked: 1, missing: 0, orphaned: 0 })
  t.ok(await has(world, 4))
})

t.test(
  'a release that fails leaves its reference: a comparison waits for the state that it read',
  async (t) => {
    const world = started(t)
    world.host('two')
    await world.create()
    await add(world, 3)
    const append = world.medium.hold('append')
    const removed = remove(world, 3).catch(() => {})
    await append.reached
    const asked = ask(world, { suspects: [3] }).catch(() => {})
    await settled()
    world.hostId = 'two'
    t.equal(statusOf(await world.folder('taken over')), 'ok')
    t.ok(await has(world, 3))
    append.release()
    await Promise.all([removed, asked])
  },
)

t.test('references of an account that was never made are removed, and do not block its making', async (t) => {
  const world = started(t)
  await plant(world, 5)
  t.match(await ask(world, { suspects: [5] }), { orphaned: 1, mended: 1 })
  t.notOk(await has(world, 5))
  await plant(world, 5)
  const [, made] = await Promise.all([ask(world, { suspects: [5] }), world.create()])
  t.equal(statusOf(made), 'ok')
  t.equal(statusOf(await add(world, 5)), 'ok')
  t.ok(await has(world, 5))
})

t.test('an account that was loaded for its references leaves again soon', async (t) => {
  const world = new World(shared)
  t.teardown(() => world.close())
  const one = world.host('one', { bounds: { idleMs: 3_600_000, lookedAfterMs: 0 } })
  await world.create()
  await plant(world, 5, ids.account('eu-par'))
  await reconciler(world).reconcile({ dryRun: false })
  while (one.activeAccounts > 1) await new Promise((resolve) => setTimeout(resolve, 50))
  t.equal(one.activeAccounts, 1, 'the one that was used stays')
})

t.test('a round continues where it was ended, also in another process', async (t) => {
  const world = started(t)
  const accounts = Array.from({ length: 200 }, () => ids.account('eu-par') as string).sort()
  for (const account of accounts) {
    await world.create({ account })
    await add(world, 1, { account })
    await lose(world, 1, account)
  }
  let noted: Uint8Array | undefined
  const notes = {
    read: async () => noted,
    write: async (bytes: Uint8Array) => {
      noted = bytes
    },
  }
  // Each read of the clock takes long enough that every place is recorded.
  let ms = 0
  const clock = { now: () => world.clock.now(), monotonic: () => (ms += 10_000) }
  const end = new AbortController()
  let asked = 0
  const accountsOf = (count: number) => ({
    call: (...question: Parameters<typeof world.client.call>) => {
      if (++asked === count) end.abort()
      return world.client.call(...question)
    },
  })
  const first = reconciler(world, { notes, clock, accounts: accountsOf(150) })
  const ended = await first.reconcile({ dryRun: false, signal: end.signal })
  t.equal(ended.endedMs, undefined)
  t.equal(await first.confirmedMs(), undefined)
  const before = asked
  const second = reconciler(world, { notes, accounts: accountsOf(-1) })
  t.teardown(() => second.close())
  second.start()
  while (second.rounds.last === undefined) await new Promise((resolve) => setTimeout(resolve, 20))
  t.match(second.rounds.last, { beganMs: ended.beganMs, failed: 0 })
  t.equal((await world.keys('ref/')).length, 200)
  t.ok(asked - before < 400, 'those of the first pages were not asked for their uses again')
  t.equal(await second.confirmedMs(), ended.beganMs)
})

t.test('a round in which an account gave no answer confirms nothing and names it', async (t) => {
  const world = started(t)
  await world.create()
  await add(world, 1)
  const accounts = {
    call: () => Promise.reject(new Error('no answer')),
  }
  const round = reconciler(world, { accounts })
  const reported = await round.reconcile({ dryRun: false })
  t.match(reported, { failed: 2, failures: [world.account], mended: 0, endedMs: Number })
  t.equal(await round.confirmedMs(), undefined)
  t.ok(world.warnings.includes('an account could not be asked for its references'))
})

t.test('a round begins when it is due, or earlier on request; no other process makes one', async (t) => {
  const world = started(t)
  await world.create()
  let leads = false
  const round = reconciler(world, { leads: () => leads, everyMs: 3_600_000, wantedMs: 0 })
  t.teardown(() => round.close())
  round.start()
  await new Promise((resolve) => setTimeout(resolve, 1_500))
  t.equal(round.rounds.last, undefined)
  leads = true
  while (round.rounds.last === undefined) await new Promise((resolve) => setTimeout(resolve, 20))
  const { beganMs } = round.rounds.last
  round.wanted()
  while (round.rounds.last?.beganMs === beganMs) await new Promise((resolve) => setTimeout(resolve, 20))
  t.pass()
})

t.test('only the process that makes the rounds shows the last one', async (t) => {
  const world = started(t)
  await world.create()
  let noted: Uint8Array | undefined
  const notes = {
    read: async () => noted,
    write: async (bytes: Uint8Array) => {
      noted = bytes
    },
  }
  let leader = 1
  const [first, second] = [1, 2].map((number) =>
    reconciler(world, { notes, leads: () => leader === number, everyMs: 3_600_000 }),
  ) as [Reconciler, Reconciler]
  const { beganMs } = await first.reconcile({ dryRun: false })
  t.match(first.rounds.last, { beganMs })
  leader = 2
  t.equal(first.rounds.last, undefined, 'it led once')
  t.teardown(() => second.close())
  second.start()
  while (second.rounds.last === undefined) await new Promise((resolve) => setTimeout(resolve, 20))
  t.match(second.rounds.last, { beganMs })
})

t.test('after a loss a round begins at once, and only one', async (t) => {
  const world = started(t)
  await world.create()
  let losses = 1
  const never = Number.MAX_SAFE_INTEGER
  const round = reconciler(world, { losses: () => losses, everyMs: never, wantedMs: never })
  t.teardown(() => round.close())
  round.start()
  const rounds = new Set<number>()
  const until = async (count: number) => {
    while (rounds.size < count) {
      if (round.rounds.last !== undefined) rounds.add(round.rounds.last.beganMs)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
  await until(1)
  await new Promise((resolve) => setTimeout(resolve, 2_500))
  await until(1)
  t.equal(rounds.size, 1, 'the same loss needs no second one')
  losses = 2
  await until(2)
  t.equal(round.rounds.last?.losses, 2)
  losses = 1
  await until(3)
  t.equal(round.rounds.last?.losses, 1, 'a smaller number is another loss')
})
