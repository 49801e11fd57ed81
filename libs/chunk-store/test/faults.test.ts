/** The disk or the catalogue refuses writes. */

import { randomBytes } from 'node:crypto'
import { constants } from 'node:os'
import { getSystemErrorName } from 'node:util'
import type { BlobInfo } from '@holdfast/blob-store'
import { get, put } from '@holdfast/blob-store/testing'
import t from 'tap'
import { until } from '../../../test/support/until.ts'
import { openOn } from './support/crash-history.ts'
import { eio, MiB, machineOn, openWith } from './support/faulty-store.ts'

const enospc = Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })

t.test(
  'the disk fills up: uploads are refused, reads and deletions continue, and it recovers by itself',
  async (t) => {
    let nowMs = 0
    const machine = machineOn()
    const clock = { now: () => Date.now(), monotonic: () => nowMs }
    const store = await openWith(machine, { lowWaterBytes: 10 * MiB, clock })
    const bytes = randomBytes(200_000)
    const info = await put(store, bytes, { pinMs: 0 })
    const other = await put(store, randomBytes(300), { pinMs: 0 })
    const open = await store.stage()
    await open.write(randomBytes(100_000))

    machine.freeBytes = 9 * MiB
    nowMs += 1000
    await t.rejects(store.stage(), { code: 'FULL' })
    t.match(await store.usage(), { writable: false, freeBytes: 0 })
    await open.write(randomBytes(100_000))
    machine.freeBytes = 4 * MiB
    await store.usage()
    t.throws(
      () => open.write(randomBytes(10)),
      { code: 'FULL' },
      'below half of the mark an upload under way ends',
    )
    t.match(await store.usage(), { openStages: 0, stagedBytes: 0 })
    t.ok(bytes.equals(await get(store, info)))
    t.equal(await store.delete(other), 'deleted')

    machine.freeBytes = 1000 * MiB
    nowMs += 1000
    await t.rejects(
      store.stage({ expectedBytes: 995 * MiB }),
      { code: 'FULL' },
      'what cannot fit is refused at once',
    )
    const later = await put(store, randomBytes(100))
    t.ok(await store.stat(later))
    await store.close()
  },
)

t.test('the mark of a clean shutdown that cannot be read or opened is no mark', async (t) => {
  for (const code of ['EIO', 'EACCES', 'EISDIR']) {
    const machine = machineOn()
    const store = await openWith(machine)
    const info = await put(store, randomBytes(100_000))
    await store.close()
    const error = Object.assign(new Error(code), { code, path: '/store/orderly-end' })
    machine.fault = (operation, path) => {
      if (operation === 'read' && path.endsWith('orderly-end')) throw error
    }
    const again = await openWith(machine)
    t.equal((await get(again, info)).length, 100_000, code)
    t.ok(await again.stat(await put(again, randomBytes(1000))))
    machine.fault = () => {}
    await again.close()
    t.equal((await get(await openWith(machine), info)).length, 100_000, 'it is written again')
  }
})

t.test('an exceeded quota counts as a full disk', async (t) => {
  const errno = -constants.errno.EDQUOT
  const machine = machineOn()
  const store = await openWith(machine)
  machine.fault = (operation) => {
    if (operation === 'write')
      throw Object.assign(new Error('disk quota exceeded'), { errno, code: getSystemErrorName(errno) })
  }
  await t.rejects(put(store, randomBytes(1000)), { code: 'FULL' })
  machine.fault = () => {}
  await store.close()
})

t.test('ENOSPC in the middle of writes refuses only the waiting requests', async (t) => {
  const machine = machineOn()
  const store = await openWith(machine)
  const kept = await put(store, randomBytes(400_000))
  machine.fault = (operation) => {
    if (operation === 'write') throw enospc
  }
  await t.rejects(put(store, randomBytes(1000)), { code: 'FULL' })
  await t.rejects(put(store, randomBytes(2 * MiB)), { code: 'FULL' })
  await t.rejects(store.delete(kept), { name: 'BlobFault' })
  t.match(await store.usage(), { blobs: 1, openStages: 0, stagedBytes: 0 })
  t.equal((await get(store, kept)).length, 400_000)
  machine.fault = () => {}
  const later = await put(store, randomBytes(2 * MiB))
  t.equal((await get(store, later)).length, 2 * MiB)
  await store.close()
  const again = await openOn(machine)
  t.match(await again.usage(), { blobs: 2, liveBytes: 400_000 + 2 * MiB })
  await again.close()
})

t.test('after a failed sync its extent accepts nothing more, and the sync is not repeated', async (t) => {
  const machine = machineOn()
  const store = await openWith(machine)
  const before = await put(store, randomBytes(1000))
  const staged = await store.stage()
  await staged.write(randomBytes(2 * MiB))
  let syncs = 0
  machine.fault = (operation) => {
    if (operation !== 'sync') return
    syncs++
    throw eio
  }
  const refused = await Promise.allSettled([put(store, randomBytes(10)), put(store, randomBytes(20))])
  t.same(
    refused.map(({ status }) => status),
    ['rejected', 'rejected'],
  )
  t.equal(syncs, 1)
  machine.fault = () => {}
  await t.rejects(staged.commit({ pinMs: 0 }), { code: 'IO' }, 'an upload that had bytes in it is lost')
  t.equal(store.counters().suspectExtents, 1)
  t.equal(store.health.extentFailures, 1)
  const after = await put(store, randomBytes(30))
  t.equal((await get(store, before)).length, 1000)
  t.equal((await get(store, after)).length, 30)
  await store.compact()
  t.equal(store.counters().suspectExtents, 0, 'what lived in it was read back, checked and moved')
  t.equal((await get(store, before)).length, 1000)
  t.match(await store.usage(), { blobs: 2, stagedBytes: 0 })
  await store.close()
})

t.test('a store whose disk takes no write is not writable until it does', async (t) => {
  const machine = machineOn()
  const store = await openWith(machine, {}, { background: true })
  const kept = await put(store, randomBytes(1000))
  let writes = 0
  machine.fault = (operation) => {
    if (operation !== 'write') return
    writes++
    throw eio
  }
  await t.rejects(put(store, randomBytes(1000)), { code: 'IO' })
  t.match(await store.usage(), { writable: true }, 'another extent may work')
  await t.rejects(put(store, randomBytes(1000)), { code: 'IO' })
  t.match(await store.usage(), { writable: false })
  t.equal((await get(store, kept)).length, 1000)
  const before = writes
  await until(() => writes > before) // the store tries again by itself
  t.match(await store.usage(), { writable: false })
  t.equal(store.failing, undefined, 'a restart would not help')
  machine.fault = () => {}
  await until(async () => (await store.usage()).writable)
  await put(store, randomBytes(1000))
  await store.close()
})

t.test('the catalogue refuses batches for a while: commits hold, and it catches up', async (t) => {
  const machine = machineOn()
  const store = await openWith(machine)
  await put(store, randomBytes(10))
  const refused = Promise.withResolvers<void>()
  machine.fault = (operation) => {
    if (operation !== 'batch') return
    refused.resolve()
    throw enospc
  }
  const infos: BlobInfo[] = []
  for (let n = 0; n < 20; n++) infos.push(await put(store, randomBytes(100 + n)))
  await refused.promise
  t.equal((await store.usage()).writable, false)
  for (const copy of infos) t.equal((await get(store, copy)).length, copy.size)
  const crashed = await openWith(machineOn(machine.now()))
  t.equal((await crashed.usage()).blobs, 21, 'a crash now loses nothing')
  await crashed.close()
  machine.fault = () => {}
  await store.close()
  const again = await openOn(machine)
  t.equal((await again.usage()).blobs, 21)
  t.equal(again.recovered.groups, 0, 'nothing had to be scanned')
  await again.close()
})
