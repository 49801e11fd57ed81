/**
 * Reports of downloads. They are visible at once, need no journal row of their own, and count once.
 * When the owner dies or another host takes over, they do not count.
 */
import { AddFile, blank, Flush } from '@holdfast/wire'
import t, { type Test } from 'tap'
import { defaultRuntimeBounds } from '../src/bounds.ts'
import { blob } from './tiny-core.ts'
import { ManualTime, settled, statusOf, World } from './world.ts'

const embedded = { ordered: true, exclusive: true }
const shared = { ordered: false, exclusive: false }

async function worldWithFile(
  t: Test,
  capabilities: { ordered: boolean; exclusive: boolean },
  options: Parameters<World['host']>[1] = {},
) {
  const world = new World(capabilities)
  t.teardown(() => world.close())
  const host = world.host('one', options)
  await world.create()
  await world.ask({
    $case: 'addFile',
    value: { ...blank(AddFile), name: 'f', blob: blob(1) },
  })
  return { world, host }
}

/** The kinds of events in each row of the journal. */
async function eventsOf(world: World): Promise<string[][]> {
  const ownership = await world.journal.acquire(world.account, { owner: 'reader' })
  const rows: string[][] = []
  for await (const { bytes } of world.journal.rows(ownership, 0))
    rows.push(
      Flush.decode(bytes).changes.flatMap(({ events }) => events.map(({ event }) => event?.$case ?? '')),
    )
  return rows
}

for (const capabilities of [embedded, shared]) {
  const mode = capabilities.exclusive ? 'embedded' : 'shared'

  t.test(`${mode}: reports show at once, and are in the next row before its change`, async (t) => {
    const { world, host } = await worldWithFile(t, capabilities)
    const head = await world.head()
    for (const sequence of [1, 2, 3]) t.equal(statusOf(await world.report('f', sequence)), 'ok')
    t.equal(await world.downloads('f'), 3)
    t.equal(await world.head(), head, 'no row')
    await world.folder('a')
    t.equal(await world.head(), head + 1)
    world.kill(host)
    const rows = await eventsOf(world)
    const report = 'downloadsReported'
    t.strictSame(rows.at(-1), [report, report, report, 'folderAdded'])
    world.host('two')
    world.hostId = 'two'
    t.equal(await world.downloads('f'), 3)
  })

  t.test(`${mode}: a report costs a row after a minute, and not before`, async (t) => {
    const time = new ManualTime()
    const bounds = { idleMs: 10 * defaultRuntimeBounds.waitingMs }
    const { world } = await worldWithFile(t, capabilities, { clock: time, timers: time, bounds })
    const head = await world.head()
    await world.report('f', 1)
    await time.advance(defaultRuntimeBounds.waitingMs / 2)
    await world.report('f', 2)
    await time.advance(defaultRuntimeBounds.waitingMs / 2 - 1)
    t.equal(await world.head(), head)
    await time.advance(1)
    t.equal(await world.head(), head + 1, 'a minute after the first one')
    await time.advance(2 * defaultRuntimeBounds.waitingMs)
    t.equal(await world.head(), head + 1, 'both are in it')
    t.equal(await world.downloads('f'), 2)
  })

  t.test(`${mode}: an account that leaves journals its reports`, async (t) => {
    const { world, host } = await worldWithFile(t, capabilities)
    await world.report('f', 1)
    await host.close({ drainMs: 10_000 })
    world.host('two')
    world.hostId = 'two'
    t.equal(await world.downloads('f'), 1)
  })

  t.test(`${mode}: a crash loses reports that wait; one that is repeated counts once`, async (t) => {
    const { world, host } = await worldWithFile(t, capabilities)
    await world.report('f', 1)
    await world.folder('a')
    await world.report('f', 2)
    await world.report('f', 2)
    t.equal(await world.downloads('f'), 2)
    world.kill(host)
    world.host('two')
    world.hostId = 'two'
    t.equal(await world.downloads('f'), 1)
    for (const sequence of [1, 2, 1, 2]) await world.report('f', sequence)
    t.equal(await world.downloads('f'), 2)
  })

  t.test(`${mode}: a checkpoint holds no report that no row has`, async (t) => {
    const bounds = { checkpointBytesMin: 1 }
    const { world, host } = await worldWithFile(t, capabilities, { bounds })
    await settled()
    const root = async () => (await world.journal.acquire(world.account, { owner: 'one' })).root
    const append = world.medium.hold('append')
    // The checkpoint that is due after it is cut while a report waits.
    const large = world.folder(`large:${200_000}`)
    await append.reached
    t.equal(statusOf(await world.report('f', 1)), 'ok', 'answered while an append is in flight')
    append.release()
    await large
    await settled()
    const before = await world.head()
    await world.folder('a')
    t.equal(await world.head(), before + 1)
    world.kill(host)
    t.ok(await root(), 'a checkpoint was made')
    world.host('two')
    world.hostId = 'two'
    t.equal(await world.downloads('f'), 1, 'neither twice nor lost')
  })
}

t.test('many reports do not wait for a minute', async (t) => {
  const { world } = await worldWithFile(t, embedded, { bounds: { waitingBytesMax: 1_000 } })
  const head = await world.head()
  let reports = 0
  while ((await world.head()) === head && reports < 100) {
    await world.report('f', ++reports)
    await settled()
  }
  t.ok(reports > 2 && reports < 20, `${reports} reports`)
  t.equal(await world.downloads('f'), reports)
})

t.test('a report joins a row that is being gathered, and is answered with it', async (t) => {
  const { world } = await worldWithFile(t, embedded)
  const append = world.medium.hold('append')
  const first = world.folder('first')
  await append.reached
  const second = world.folder('second')
  await settled()
  let answered = false
  const report = world.report('f', 1).then(() => {
    answered = true
  })
  await settled()
  t.notOk(answered)
  append.release()
  await Promise.all([first, second, report])
  t.strictSame((await eventsOf(world)).at(-1), ['folderAdded', 'downloadsReported'])
})

t.test('reports that wait at an owner are not counted after a takeover', async (t) => {
  const time = new ManualTime()
  const { world } = await worldWithFile(t, shared, { clock: time, timers: time })
  await world.report('f', 1)
  world.host('two')
  world.hostId = 'two'
  t.equal(await world.downloads('f'), 0)
  await world.report('f', 1)
  await world.folder('a')
  await time.advance(defaultRuntimeBounds.waitingMs)
  t.ok(world.warnings.includes('an activation was fenced'), 'its row was refused')
  t.equal(await world.downloads('f'), 1)
})
