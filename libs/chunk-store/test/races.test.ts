/**
 * Pins, deletions, uploads of the same content, and compaction: each race in its order, controlled
 * by the disk.
 */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { get, put } from '@holdfast/blob-store/testing'
import t, { type Test as Tap } from 'tap'
import { ChunkStore } from '../src/index.ts'
import { openOn, realOptions } from './support/crash-history.ts'
import { CrashMachine, seeded } from './support/crash-machine.ts'

const MiB = 1024 * 1024
const eio = Object.assign(new Error('input/output error'), { code: 'EIO' })
const firstExtent = '/store/extents/00000000.extent'

async function world(t: Tap): Promise<{ machine: CrashMachine; store: ChunkStore }> {
  const machine = new CrashMachine(seeded(7))
  const store = await openOn(machine)
  t.teardown(() => store.close())
  return { machine, store }
}

/**
 * Holds the next operation of this kind. @returns when it is reached, and a function that releases
 * it.
 */
function holdNext(machine: CrashMachine, kind: 'sync' | 'batch') {
  const reached = Promise.withResolvers<void>()
  const gate = Promise.withResolvers<void>()
  machine.hold = (operation) => {
    if (operation !== kind) return undefined
    machine.hold = () => undefined
    reached.resolve()
    return gate.promise
  }
  return { reached: reached.promise, letGo: () => gate.resolve() }
}

/** Everything that can happen without the held operation has happened. */
async function settled(): Promise<void> {
  for (let turns = 0; turns < 50; turns++) await new Promise(setImmediate)
}

async function isPending(promise: Promise<unknown>): Promise<boolean> {
  await settled()
  return (await Promise.race([promise, Promise.resolve('pending')])) === 'pending'
}

t.test('a store whose uploaders outlive it pins every copy for a while after each start', async (t) => {
  const time = { ms: 1_000 }
  const clock = { now: () => time.ms, monotonic: () => time.ms }
  const path = mkdtempSync(join(tmpdir(), 'holdfast-pins-'))
  t.teardown(() => rmSync(path, { recursive: true, force: true }))
  const open = () => ChunkStore.open({ path, ...realOptions, clock, pinnedAtFirstMs: 600_000 })
  const first = await open()
  const copy = await put(first, randomBytes(100), { pinMs: 600_000 })
  await first.close()
  const second = await open()
  t.teardown(() => second.close())
  time.ms += 599_999
  t.equal(await second.delete(copy), 'pinned')
  time.ms += 1
  t.equal(await second.delete(copy), 'deleted')
})

t.test('a pin during a deletion is refused; a pin before it refuses the deletion', async (t) => {
  const { machine, store } = await world(t)
  const pinned = await put(store, randomBytes(500), { pinMs: 0 })
  const [pin, refused] = await Promise.all([store.pin(pinned, { ttlMs: 60_000 }), store.delete(pinned)])
  t.strictSame([pin, refused], [true, 'pinned'])

  const gone = await put(store, randomBytes(500), { pinMs: 0 })
  const held = holdNext(machine, 'sync')
  const deleting = store.delete(gone)
  await held.reached
  t.equal((await store.find(gone.id)).length, 0, 'a copy that is being deleted cannot be found')
  const late = store.pin(gone, { ttlMs: 60_000 })
  held.letGo()
  t.strictSame([await deleting, await late], ['deleted', false])
})

t.test(
  'known content that is being deleted is uploaded as a separate copy, which the deletion does not touch',
  async (t) => {
    for (const size of [500, 300_000]) {
      const { machine, store } = await world(t)
      const bytes = randomBytes(size)
      const old = await put(store, bytes, { pinMs: 0 })
      const stage = await store.stage()
      await stage.write(bytes)
      await stage.seal()
      const held = holdNext(machine, 'sync')
      const deleting = store.delete(old)
      await held.reached
      const committing = stage.commit({ pinMs: 0 })
      t.ok(await isPending(committing))
      held.letGo()
      t.equal(await deleting, 'deleted')
      const fresh = await committing
      t.notSame(fresh.incarnation, old.incarnation)
      t.equal(await store.stat(old), undefined)
      t.equal(await store.delete(old), 'deleted', 'once more, and late')
      t.ok(bytes.equals(await get(store, fresh)))
    }
  },
)

t.test(
  'a deletion that fails leaves the copy whole, and requests that came meanwhile get the state after it',
  async (t) => {
    const { machine, store } = await world(t)
    const bytes = randomBytes(500)
    const copy = await put(store, bytes, { pinMs: 0 })
    const held = holdNext(machine, 'sync')
    const deleting = store.delete(copy)
    await held.reached
    const again = put(store, bytes, { pinMs: 60_000 })
    machine.fault = (operation) => {
      if (operation === 'sync') throw eio
    }
    held.letGo()
    // The held sync succeeds; the next deletion meets the fault.
    t.equal(await deleting, 'deleted')
    await t.rejects(again, { code: 'IO' })
    machine.fault = () => {}
    const fresh = await put(store, bytes, { pinMs: 0 })
    machine.fault = (operation) => {
      if (operation === 'sync') throw eio
    }
    await t.rejects(store.delete(fresh), { code: 'IO' })
    machine.fault = () => {}
    t.ok(await store.pin(fresh, { ttlMs: 60_000 }), 'refused, so it is here and can be pinned')
    t.equal(await store.delete(fresh), 'pinned')
    t.ok(bytes.equals(await get(store, fresh)))
  },
)

t.test(
  'a copy fetched under its name while that name is being deleted waits, and is a copy again',
  async (t) => {
    const { machine, store } = await world(t)
    const bytes = randomBytes(500)
    const copy = await put(store, bytes, { pinMs: 0 })
    const held = holdNext(machine, 'sync')
    const deleting = store.delete(copy)
    await held.reached
    const stage = await store.stage({ uploadId: copy.incarnation })
    await stage.write(bytes)
    const committing = stage.commit({ pinMs: 60_000, asNew: true })
    t.ok(await isPending(committing))
    held.letGo()
    t.equal(await deleting, 'deleted')
    t.same((await committing).incarnation, copy.incarnation)
    t.equal(await store.delete(copy), 'pinned')
    t.ok(bytes.equals(await get(store, copy)))
  },
)

t.test('a copy that is deleted while compaction moves it is deleted at its new place too', async (t) => {
  const { machine, store } = await world(t)
  const small = await put(store, randomBytes(20_000), { pinMs: 0 })
  const dead = []
  // Fills the first extent.
  for (let n = 0; n < 4; n++) dead.push(await put(store, randomBytes(1.2 * MiB), { pinMs: 0 }))
  for (const info of dead) await store.delete(info)
  let deleting: Promise<unknown> | undefined
  // The move is written and not yet synced: the deletion must wait for the place that it names.
  machine.hold = (operation, path) => {
    if (operation !== 'sync' || path === firstExtent || deleting !== undefined) return undefined
    deleting = store.delete(small)
    return settled()
  }
  await store.compact()
  t.equal(await deleting, 'deleted')
  machine.hold = () => undefined
  t.equal(await store.stat(small), undefined)
  await store.close()
  const again = await openOn(machine)
  t.equal(await again.stat(small), undefined)
  t.match(await again.usage(), { blobs: 0, liveBytes: 0 })
  await again.close()
})

t.test('an emptied extent is not written before the batch that says so is synced', async (t) => {
  const { machine, store } = await world(t)
  const kept = randomBytes(20_000)
  const info = await put(store, kept, { pinMs: 0 })
  const dead = []
  for (let n = 0; n < 4; n++) dead.push(await put(store, randomBytes(1.2 * MiB), { pinMs: 0 }))
  for (const copy of dead) await store.delete(copy)
  const before = Buffer.from(machine.file(firstExtent))
  machine.fault = (operation) => {
    if (operation === 'batch') throw eio
  }
  await store.compact()
  await settled()
  t.ok(before.equals(machine.file(firstExtent)), 'the catalogue accepted nothing, so nothing is free')
  machine.fault = () => {}
  machine.events += 10_000 // its clock: a failed part is not tried for some seconds

  const held = holdNext(machine, 'batch')
  const compacting = store.compact()
  await held.reached
  await settled()
  t.ok(before.equals(machine.file(firstExtent)), 'nor while the batch is on its way')
  held.letGo()
  await compacting
  t.ok(kept.equals(await get(store, info)))
})
