/** When checkpoints are written, of which row, and what a fault leaves. */
import { CheckpointRoot } from '@holdfast/wire'
import t from 'tap'
import { ManualTime, settled, statusOf, World } from './world.ts'

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
