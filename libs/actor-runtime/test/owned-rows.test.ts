/** Rows beside the journal while two hosts believe that they own an account, and after owners that died. */
import t from 'tap'
import { blob } from './tiny-core.ts'
import { settled, statusOf, World } from './world.ts'

const shared = { ordered: false, exclusive: false }

function addFile(world: World, name: string, byte: number) {
  return world.ask({ $case: 'addFile', value: { name, mimetype: '', blob: blob(byte) } })
}
function remove(world: World, ...names: string[]) {
  return world.ask({ $case: 'deleteContents', value: { contentIds: names } })
}
function expire(world: World, name: string, due: number | undefined) {
  const attribute = { $case: 'expiry' as const, value: { expiry: due, deleteAfterExpiry: false } }
  return world.ask({ $case: 'updateContent', value: { contentId: name, attribute } })
}
const reference = (key: string) => key.startsWith('ref/07')

/** The next host takes the account over while the one before does not know of it. */
function takeOver(world: World, hostId: string) {
  const host = world.host(hostId)
  world.hostId = hostId
  return host
}

for (const sentFirst of [true, false])
  t.test(
    `a delete of a stale owner, sent ${sentFirst ? 'before' : 'after'} the fence, does not remove the new owner's reference`,
    async (t) => {
      const world = new World(shared)
      t.teardown(() => world.close())
      world.host('one')
      await world.create()
      await addFile(world, 'a', 7)
      t.equal((await world.keys('ref/07')).length, 1)
      const slow = world.medium.hold('lookup.write', { target: reference })
      await remove(world, 'a')
      await slow.reached
      takeOver(world, 'two')
      t.equal(statusOf(await addFile(world, 'b', 7)), 'ok')
      await settled()
      const again = world.medium.hold('lookup.write', { at: 'after', target: reference })
      // Late, or sent once more by an owner that does not know that it is fenced.
      if (sentFirst) slow.release()
      else {
        slow.release('UNAVAILABLE')
        await again.reached
        again.release()
      }
      await settled()
      t.strictSame(await world.names(), ['b'])
      t.equal((await world.keys('ref/07')).length, 1, 'the file that was acknowledged keeps its bytes')
    },
  )

t.test('a put of a stale owner does not bring back what the new owner removed', async (t) => {
  const world = new World(shared)
  t.teardown(() => world.close())
  world.host('one')
  await world.create()
  const slow = world.medium.hold('lookup.write', { target: reference })
  const late = world.ask(
    { $case: 'addFile', value: { name: 'late', mimetype: '', blob: blob(7) } },
    { timeoutMs: 100 },
  )
  await slow.reached
  await t.rejects(late)
  takeOver(world, 'two')
  await addFile(world, 'a', 7)
  t.equal((await world.keys('ref/07')).length, 1)
  await remove(world, 'a')
  while ((await world.keys('ref/07')).length > 0) await settled()
  slow.release()
  await settled()
  t.strictSame(await world.names(), [])
  t.strictSame(await world.keys('ref/07'), [], 'nobody uses the blob')
})

t.test("a stale host that goes to rest leaves the new owner's timer and active row", async (t) => {
  const world = new World(shared)
  t.teardown(() => world.close())
  const one = world.host('one', { limits: { idleMs: 3_600_000 } })
  await world.create()
  await world.folder('a')
  await world.folder('b')
  const due = Math.floor(Date.now() / 1000) + 3600
  await expire(world, 'a', due)
  const timers = await world.keys('wake/')
  t.equal(timers.length, 1)
  await expire(world, 'a', undefined) // the row stays until passivation
  takeOver(world, 'two')
  t.equal(statusOf(await expire(world, 'b', due)), 'ok')
  t.strictSame(await world.keys('wake/'), timers)
  await one.close({ drainMs: 2000 })
  t.strictSame(await world.keys('wake/'), timers, 'its timer')
  t.equal((await world.keys('active/')).length, 1, 'and its active row')
})

for (const exclusive of [true, false])
  t.test(
    `effects are carried out though the owner before only read and died, exclusive: ${exclusive}`,
    async (t) => {
      const world = new World({ ordered: exclusive, exclusive })
      t.teardown(() => world.close())
      const one = world.host('one')
      await world.create()
      await one.close()
      t.strictSame(await world.keys('active/'), [])
      const two = takeOver(world, 'two')
      await world.names()
      world.kill(two)
      const accept = world.mailer
      world.mailer = { send: () => Promise.reject(new Error('the relay is down')) }
      const three = takeOver(world, 'three')
      t.equal(statusOf(await world.ask({ $case: 'sendSignIn', value: {} })), 'ok')
      t.equal((await world.keys('active/')).length, 1, 'a mail is pending')
      world.kill(three)
      world.mailer = accept
      const four = takeOver(world, 'four')
      while (world.mails.length === 0) await settled()
      t.equal(world.mails.length, 1, 'without anybody asking')
      await four.close()
      t.strictSame(await world.keys('active/'), [])
    },
  )

t.test('an activation whose write times are used up ends, and the next one goes on', async (t) => {
  const world = new World(shared)
  t.teardown(() => world.close())
  world.host('one', { limits: { rowWritesMax: 3 } })
  await world.create()
  for (let byte = 1; byte <= 9; byte++) t.equal(statusOf(await addFile(world, `${byte}`, byte)), 'ok')
  t.equal((await world.keys('ref/')).length, 9)
  const { epoch } = await world.journal.head(world.account)
  t.ok(epoch >= 3, `${epoch} epochs`)
})
