/** Space is freed and extents are emptied while others read and write. */
import { randomBytes } from 'node:crypto'
import { readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { get, put } from '@holdfast/blob-store/testing'
import t from 'tap'
import { ChunkStore } from '../src/index.ts'
import { openOn, realOptions } from './support/crash-history.ts'
import { MiB, machineOn, openWith } from './support/faulty-store.ts'

t.test('compaction frees dead data, moves live data, and waits for slow readers', async (t) => {
  const machine = machineOn()
  const store = await openWith(machine, { cacheBytes: 0 })
  const slow = randomBytes(1.4 * MiB)
  const slowInfo = await put(store, slow, { pinMs: 0 })
  const goneInfo = await put(store, randomBytes(1.1 * MiB), { pinMs: 0 })
  const small = randomBytes(20_000)
  const smallInfo = await put(store, small, { pinMs: 0 })
  const first = Buffer.from(machine.file('/store/extents/00000000.extent').subarray(0, 8192))

  // One reader of content that will be moved, one of content that will be deleted; both have begun
  // and are idle.
  const moved = store.read(slowInfo, { start: 0, end: slow.length })[Symbol.asyncIterator]()
  const dead = store.read(goneInfo, { start: 0, end: goneInfo.size })[Symbol.asyncIterator]()
  const movedParts = [Buffer.from((await moved.next()).value ?? [])]
  const deadBefore = Buffer.from((await dead.next()).value ?? [])
  // Fills extent 0.
  for (let n = 0; n < 4; n++) await put(store, randomBytes(1.2 * MiB), { pinMs: 0 })
  for await (const info of store.inventory())
    if (info.size === Math.floor(1.2 * MiB)) await store.delete(info)
  await store.delete(goneInfo)
  const { movedBytes } = await store.compact()
  t.ok(movedBytes >= slow.length + small.length)
  t.ok(small.equals(await get(store, smallInfo)))
  t.same(machine.file('/store/extents/00000000.extent').subarray(0, 8192), first, 'a reader holds the extent')

  for (;;) {
    const { done, value } = await moved.next()
    if (done) break
    movedParts.push(Buffer.from(value))
  }
  t.ok(slow.equals(Buffer.concat(movedParts)))
  const deadParts = [deadBefore]
  for (;;) {
    const { done, value } = await dead.next()
    if (done) break
    deadParts.push(Buffer.from(value))
  }
  t.equal(
    Buffer.concat(deadParts).length,
    goneInfo.size,
    'a deleted blob is read to its end by readers that had begun',
  )
  const { freedBytes } = await store.compact()
  t.ok(freedBytes > 0, 'and its space is returned once they have ended')
  t.notSame(machine.file('/store/extents/00000000.extent').subarray(0, 8192), first)

  // Over the freed places.
  for (let n = 0; n < 8; n++) await put(store, randomBytes(1.2 * MiB), { pinMs: 0 })
  t.ok(slow.equals(await get(store, slowInfo)))
  t.ok(small.equals(await get(store, smallInfo)))
  await store.close()
  const again = await openOn(machine)
  t.ok(slow.equals(await get(again, slowInfo)))
  await again.close()
})

t.test('the space of aborted and deleted uploads is returned', async (t) => {
  const machine = machineOn()
  const store = await openWith(machine)
  let highest = 0
  for (let round = 0; round < 12; round++) {
    const stage = await store.stage()
    for (let n = 0; n < 3; n++) await stage.write(randomBytes(MiB))
    await stage.abort()
    await store.delete(await put(store, randomBytes(1.5 * MiB), { pinMs: 0 }))
    await store.compact()
    highest = Math.max(highest, (await store.usage()).diskBytes)
  }
  t.ok(highest <= 24 * MiB, `at most ${highest} bytes for nothing`)
  t.match(await store.usage(), { blobs: 0, liveBytes: 0, stagedBytes: 0 })
  await store.close()
})

t.test('what lies in an extent is moved away when its file is removed', async (t) => {
  const path = t.testdir()
  const store = await ChunkStore.open({ path, ...realOptions }, { background: false })
  const blobs = [await put(store, randomBytes(1000)), await put(store, randomBytes(3 * MiB))]
  const before = await Promise.all(blobs.map((blob) => get(store, blob)))
  const files = join(path, 'extents')
  const [file = '', ...others] = readdirSync(files)
  t.same(others, [])
  rmSync(join(files, file))
  await store.findRemoved()
  t.match([store.health.extentFailures, store.counters().suspectExtents], [1, 1])
  for (const [at, blob] of blobs.entries()) t.ok((await get(store, blob)).equals(before[at] as Buffer))
  await store.compact()
  t.equal(store.counters().suspectExtents, 0)
  await store.findRemoved()
  t.equal(store.health.extentFailures, 1, 'once')
  await store.close()
  const later = await ChunkStore.open({ path, ...realOptions })
  t.match(later.health, { quarantined: [] })
  for (const [at, blob] of blobs.entries()) t.ok((await get(later, blob)).equals(before[at] as Buffer))
  await later.close()
})

t.test('no extent fails while the whole directory is away', async (t) => {
  const path = t.testdir()
  const store = await ChunkStore.open({ path, ...realOptions }, { background: false })
  const blob = await put(store, randomBytes(1000))
  renameSync(join(path, 'extents'), join(path, 'away'))
  await store.findRemoved()
  renameSync(join(path, 'away'), join(path, 'extents'))
  t.equal((await get(store, blob)).length, 1000)
  t.equal(store.health.extentFailures, 0)
  await store.close()
})
