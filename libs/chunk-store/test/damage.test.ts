/** Bytes that are not what was written: noticed, not served, and replaced. */
import { randomBytes } from 'node:crypto'
import type { BlobInfo } from '@holdfast/blob-store'
import { get, put } from '@holdfast/blob-store/testing'
import t from 'tap'
import { encodeGroupHeader, HeaderSeal } from '../src/format.ts'
import { flipOnDisk, MiB, machineOn, openWith } from './support/faulty-store.ts'

t.test('a flipped bit is noticed before the byte is served, in small blobs and in large ones', async (t) => {
  const machine = machineOn()
  const store = await openWith(machine, { cacheBytes: 0 })
  const small = randomBytes(5000)
  const large = randomBytes(3 * MiB)
  const smallInfo = await put(store, small, { pinMs: 0 })
  const largeInfo = await put(store, large, { pinMs: 0 })
  flipOnDisk(machine, small, 1000)
  flipOnDisk(machine, large, 2 * MiB + 300_000)
  await t.rejects(get(store, smallInfo), { code: 'CORRUPT' })
  t.ok(
    large.subarray(0, 2 * MiB).equals(await get(store, largeInfo, 0, 2 * MiB)),
    'correct content is served',
  )
  await t.rejects(get(store, largeInfo), { code: 'CORRUPT' })
  await t.rejects(get(store, largeInfo, 2 * MiB + 300_010, 2 * MiB + 300_020), { code: 'CORRUPT' })

  const again = await put(store, small, { pinMs: 0 })
  t.ok(
    Buffer.from(again.incarnation).equals(smallInfo.incarnation),
    'an upload of the same bytes replaces the damaged copy',
  )
  t.ok(small.equals(await get(store, again)))
  t.equal(store.counters().damagedReads, 3)
  await store.close()
})

t.test('a flipped bit in a record header is damage too', async (t) => {
  const machine = machineOn()
  const store = await openWith(machine)
  const bytes = randomBytes(2 * MiB)
  const info = await put(store, bytes)
  const file = machine.file('/store/extents/00000000.extent')
  const header = file.indexOf(bytes.subarray(0, 64)) - 4096
  file[header + 100] = (file[header + 100] ?? 0) ^ 1
  await t.rejects(get(store, info), { code: 'CORRUPT' })
  await store.close()
})

t.test(
  'blobs that rotted before the catalogue was lost are damaged, and an upload replaces them',
  async (t) => {
    for (const size of [5000, 3 * MiB]) {
      const machine = machineOn()
      const store = await openWith(machine)
      const bytes = randomBytes(size)
      const info = await put(store, bytes, { pinMs: 0 })
      const moved = await put(store, randomBytes(700), { pinMs: 0 })
      const deleted = await put(store, randomBytes(size + 1), { pinMs: 0 })
      await store.delete(deleted)
      const last = await put(store, randomBytes(900), { pinMs: 0 })
      await store.close()
      flipOnDisk(machine, bytes, size - 1000)
      const state = machine.now()
      state.rows.clear()
      const rebuiltOn = machineOn(state)
      const rebuilt = await openWith(rebuiltOn)
      t.match(rebuilt.recovered, { damaged: 1, dropped: 0 })
      t.match(await rebuilt.usage(), { blobs: 3 })
      for (const whole of [moved, last]) t.equal((await get(rebuilt, whole)).length, whole.size)
      t.equal(await rebuilt.stat(deleted), undefined)
      t.match(await rebuilt.stat(info), { damaged: true })
      if (size > 2 * MiB)
        t.ok(
          bytes.subarray(0, 2 * MiB).equals(await get(rebuilt, info, 0, 2 * MiB)),
          'correct parts are served',
        )
      await t.rejects(get(rebuilt, info), { code: 'CORRUPT' })
      await put(rebuilt, bytes, { pinMs: 0 })
      t.ok(bytes.equals(await get(rebuilt, info)), 'the old name has the bytes of the upload')
      await rebuilt.close()
    }
  },
)

t.test('the last group of a killed store may be torn: it was not acknowledged', async (t) => {
  const machine = machineOn()
  const store = await openWith(machine)
  const kept = await put(store, randomBytes(400), { pinMs: 0 })
  const bytes = randomBytes(5000)
  const torn = await put(store, bytes, { pinMs: 0 })
  flipOnDisk(machine, bytes, 1000)
  const state = machine.now()
  state.rows.clear()
  const again = await openWith(machineOn(state))
  t.match(again.recovered, { damaged: 0, dropped: 1 })
  t.equal(await again.stat(torn), undefined)
  t.equal((await get(again, kept)).length, 400)
  await again.close()
  await store.close()
})

t.test('blobs of an extent whose file is gone are damaged, and can be replaced', async (t) => {
  const machine = machineOn()
  const store = await openWith(machine)
  const blobs = new Map<BlobInfo, Buffer>()
  for (const size of [5000, 2 * MiB]) {
    const bytes = randomBytes(size)
    blobs.set(await put(store, bytes, { pinMs: 0 }), bytes)
  }
  await store.close()
  const state = machine.now()
  t.ok(state.files.delete('/store/extents/00000000.extent'))
  const again = await openWith(machineOn(state))
  for (const [info, bytes] of blobs) {
    await t.rejects(get(again, info), { code: 'CORRUPT' })
    t.match(await again.stat(info), { damaged: true })
    const stage = await again.stage({ uploadId: info.incarnation })
    for (let at = 0; at < bytes.length; at += MiB) await stage.write(bytes.subarray(at, at + MiB))
    await stage.commit({ pinMs: 0, asNew: true })
    t.ok(bytes.equals(await get(again, info)))
  }
  t.match(await again.usage(), { blobs: 2, liveBytes: 2 * MiB + 5000 })
  await again.close()
})

t.test('records inside uploaded bytes are not accepted after a crash', async (t) => {
  const machine = machineOn()
  const store = await openWith(machine)
  const victim = await put(store, randomBytes(3000), { pinMs: 0 })
  await put(store, randomBytes(1.5 * MiB), { pinMs: 0 })
  // Real records of this very store, with seals, at every 4 KiB of an upload.
  const loot = Buffer.from(machine.file('/store/extents/00000000.extent').subarray(0, 3 * MiB))
  const stage = await store.stage()
  for (let at = 0; at < loot.length; at += 64 * 1024) await stage.write(loot.subarray(at, at + 64 * 1024))
  t.equal(await store.delete(victim), 'deleted')
  const state = machine.now()
  // The headers before the payloads are removed, so that the scan walks through the payloads.
  for (const bytes of state.files.values())
    for (let at = 0; at + 8192 < bytes.length; at += 4096)
      if (bytes.subarray(at + 4096, at + 4200).equals(loot.subarray(0, 104)) && at > 8192)
        bytes.fill(0, at, at + 4096)
  for (const lost of [false, true]) {
    const rows = lost ? new Map<string, Buffer>() : state.rows
    const revived = await openWith(machineOn({ files: state.files, rows }))
    t.equal(await revived.stat(victim), undefined)
    t.equal((await revived.usage()).blobs, 1)
    await revived.close()
  }
  await stage.abort()
  await store.close()
})

t.test('records made for the right place, but without the secret, are not accepted', async (t) => {
  const machine = machineOn()
  const store = await openWith(machine)
  await put(store, randomBytes(10)) // the extent's first records
  // Where the next upload's header comes, for an attacker that knows the store well.
  const start = 8192 + 4096
  const forger = new HeaderSeal(randomBytes(32))
  const forged = Buffer.alloc(512 * 1024)
  const id = randomBytes(48)
  for (let at = 0; at < forged.length; at += 4096) {
    const entry = {
      kind: 'inline' as const,
      id,
      incarnation: randomBytes(16),
      size: 0,
      crc32: 0,
      createdMs: 1,
      placementGroup: 0,
      payloadOffset: 200,
    }
    const place = { extent: 0, generation: 1, offset: start + 4096 + at }
    encodeGroupHeader(
      { ...place, sequence: 1000, entries: [entry], payloadBytes: 0 },
      forger,
      forged.subarray(at),
    )
  }
  const info = await put(store, forged)
  const state = machine.now()
  const file = state.files.get('/store/extents/00000000.extent') as Buffer
  t.ok(file.subarray(start + 4096, start + 8192).equals(forged.subarray(0, 4096)), 'they are where they say')
  file.fill(0, start, start + 4096)
  state.rows.clear()
  const revived = await openWith(machineOn(state))
  t.match(await revived.usage(), { blobs: 1 })
  t.equal(await revived.stat(info), undefined)
  await revived.close()
  await store.close()
})
