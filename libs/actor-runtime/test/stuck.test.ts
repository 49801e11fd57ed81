/**
 * Accounts whose checkpoints cannot be written: they are read and made smaller, and continue
 * afterwards.
 */
import { JournalFault, type JournalFaultCode } from '@holdfast/journal'
import t from 'tap'
import { noMetrics } from '../src/observer.ts'
import { ManualTime, settled, statusOf, World } from './world.ts'

const bounds = { checkpointBytesMin: 200, tailBytesMax: 400, tailFlushesMax: 8 }

function remove(world: World, name: string): Promise<string> {
  return world
    .ask(
      {
        $case: 'deleteContents',
        value: { contentIds: [name], representation: undefined, heldSeconds: undefined },
      },
      { timeoutMs: 5_000 },
    )
    .then(statusOf, (error: { code: string }) => error.code)
}

/** Adds until the account refuses. @returns what was made. */
async function fill(world: World): Promise<number> {
  for (let made = 0; made < 60; made++) {
    const status = await world.folder(`f${made}`, { timeoutMs: 300 }).then(statusOf, () => 'unavailable')
    if (status !== 'ok') return made
  }
  throw new Error('it never was full')
}

for (const code of ['TOO_LARGE', 'UNAVAILABLE'] satisfies JournalFaultCode[])
  t.test(`while a checkpoint's root is ${code} the account is read and deleted from`, async (t) => {
    const world = new World({ ordered: false, exclusive: false })
    t.teardown(() => world.close())
    const setRoot = world.journal.setRoot.bind(world.journal)
    world.journal.setRoot = async () => {
      throw new JournalFault(code, 'the root was refused')
    }
    const failed: string[] = []
    const metrics = { checkpointFailed: ({ what }: { what: string }) => void failed.push(what) }
    world.host('one', { bounds, metrics: { ...noMetrics, ...metrics } })
    await world.create()
    const made = await fill(world)
    t.equal(await remove(world, 'f0'), 'ok', 'what makes it smaller')
    t.same((await world.names({ timeoutMs: 5_000 })).length, made - 1, 'a read')
    t.ok(failed.includes(code === 'TOO_LARGE' ? 'too large' : 'root'), 'counted')
    let removed = 1
    for (let status = 'ok'; removed < made && status === 'ok'; removed++)
      status = await remove(world, `f${removed}`)
    t.same((await world.names({ timeoutMs: 5_000 })).length >= 0, true, 'reads need no room')
    world.journal.setRoot = setRoot
    if (code === 'TOO_LARGE') return
    t.equal(statusOf(await world.folder('after')), 'ok', 'and on when the root holds')
  })

t.test('a state that was too large is cut again after a minute', async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const time = new ManualTime()
  const setRoot = world.journal.setRoot.bind(world.journal)
  let refused = 0
  let held = 0
  world.journal.setRoot = async (...root) => {
    if (refused++ === 0) throw new JournalFault('TOO_LARGE', 'the root was refused')
    await setRoot(...root)
    held++
  }
  world.host('one', { bounds, clock: time, timers: time })
  await world.create()
  for (let made = 0; refused === 0; made++) {
    await world.folder(`f${made}`)
    await settled()
  }
  t.equal(await remove(world, 'f0'), 'ok')
  await time.advance(59_000)
  t.equal(refused, 1, 'not at once')
  await time.advance(2_000)
  t.equal(held, 1)
})
