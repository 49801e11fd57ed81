import { randomBytes } from 'node:crypto'
import { readdirSync, renameSync, rmSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { getSystemErrorName } from 'node:util'
import type { BlobInfo } from '@holdfast/blob-store'
import { get, put } from '@holdfast/blob-store/testing'
import t from 'tap'
import { encodeGroupHeader, HeaderSeal } from '../src/format.ts'
import { InlineHashing } from '../src/hashing/hashing.ts'
import type { ChunkStoreOptions } from '../src/index.ts'
import { ChunkStore } from '../src/index.ts'
import { crashOptions, openOn, realOptions } from './support/crash-history.ts'
import { CrashMachine, type DiskState, seeded } from './support/crash-machine.ts'

const MiB = 1024 * 1024
const enospc = Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
const eio = Object.assign(new Error('input/output error'), { code: 'EIO' })

function machineOn(state?: DiskState): CrashMachine {
  return new CrashMachine(seeded(7), state)
}

function openWith(
  machine: CrashMachine,
  options: Partial<ChunkStoreOptions> = {},
  { background = false }: { background?: boolean } = {},
): Promise<ChunkStore> {
  return ChunkStore.open(
    { ...crashOptions, ...options },
    {
      disk: machine.disk,
      catalogue: async () => machine.catalogue,
      hashing: (memory) => new InlineHashing(memory),
      background,
    },
  )
}

/** Blobs of 1.2 MiB: four are more than an extent. */
async function fill(store: ChunkStore, blobs: number): Promise<BlobInfo[]> {
  const made: BlobInfo[] = []
  for (let n = 0; n < blobs; n++) made.push(await put(store, randomBytes(1.2 * MiB), { pinMs: 0 }))
  return made
}

async function drop(store: ChunkStore, blobs: readonly BlobInfo[]): Promise<void> {
  for (const info of blobs) await store.delete(info)
}

/** Flips one bit of the first place with these bytes on the disk. */
function flipOnDisk(machine: CrashMachine, bytes: Buffer, at = 0): void {
  for (const path of machine.paths()) {
    const file = machine.file(path)
    const found = file.indexOf(bytes.subarray(at, at + 64))
    if (found < 0) continue
    file[found + 32] = (file[found + 32] ?? 0) ^ 0x10
    return
  }
  throw new Error('the bytes are not on the disk')
}

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
  while (writes === before) await setTimeout(50) // the store tries again by itself
  t.match(await store.usage(), { writable: false })
  t.equal(store.failing, undefined, 'a restart would not help')
  machine.fault = () => {}
  while (!(await store.usage()).writable) await setTimeout(50)
  await put(store, randomBytes(1000))
  await store.close()
})

t.test('a refused deletion cannot take effect later, whatever reached the disk', async (t) => {
  for (const catalogueLost of [false, true]) {
    const machine = machineOn()
    const store = await openWith(machine)
    const bytes = randomBytes(1000)
    const info = await put(store, bytes, { pinMs: 0 })
    machine.fault = (operation) => {
      if (operation === 'sync') throw eio // the record is written, only its sync fails
    }
    await t.rejects(store.delete(info), { code: 'IO' })
    machine.fault = () => {}
    const again = await put(store, bytes, { pinMs: 60_000 })
    t.ok(Buffer.from(again.incarnation).equals(info.incarnation), 'another upload was promised the copy')
    const state = machine.now()
    if (catalogueLost) state.rows.clear()
    const revived = await openWith(machineOn(state))
    t.ok(bytes.equals(await get(revived, info)))
    await revived.close()
    await store.close()
  }
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
  for (const fact of infos) t.equal((await get(store, fact)).length, fact.size)
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
  const start = 8192 + 4096 // where the next upload's header comes, for an attacker that knows the store well
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

t.test(
  'content deleted before its extent was emptied stays deleted even when the catalogue is lost',
  async (t) => {
    const machine = machineOn()
    const store = await openWith(machine)
    const early = await fill(store, 3) // extent 0 is full
    const later = await fill(store, 1)
    await drop(store, early) // the records of that are in extent 1
    await store.compact() // 0 is free and waits for reuse, with its old records
    await drop(store, [...later, ...(await fill(store, 2))])
    await fill(store, 2)
    await store.compact() // 1 is emptied; it need not carry deletions for free extents
    const state = machine.now()
    state.rows.clear()
    const revived = await openWith(machineOn(state))
    for (const info of early) t.equal(await revived.stat(info), undefined)
    t.equal((await revived.usage()).blobs, (await store.usage()).blobs)
    await revived.close()
    await store.close()
  },
)

t.test(
  'deleted content stays deleted when a crash comes between the freeing of its extent and its new header, and the catalogue is lost later',
  async (t) => {
    const machine = machineOn()
    const store = await openWith(machine)
    const early = await fill(store, 6) // extents 0 and 1 are full
    const later = await fill(store, 1)
    await drop(store, early) // the records of that are in extent 2
    let state: DiskState | undefined
    machine.fault = (operation, path) => {
      if (operation === 'write' && path.endsWith('/00000001.extent')) state ??= machine.now()
    }
    await store.compact()
    await store.close()
    const crashed = machineOn(state as DiskState)
    const again = await openWith(crashed)
    await drop(again, [...later, ...(await fill(again, 2))])
    await fill(again, 2) // in 0
    await again.compact() // 2 is emptied; it need not carry deletions for free extents
    const lost = crashed.now()
    lost.rows.clear()
    const revived = await openWith(machineOn(lost))
    for (const info of early) t.equal(await revived.stat(info), undefined)
    t.equal((await revived.usage()).blobs, (await again.usage()).blobs)
    await revived.close()
    await again.close()
  },
)

t.test('an extent whose new header cannot be written is removed', async (t) => {
  const machine = machineOn()
  const store = await openWith(machine)
  const early = await fill(store, 3)
  const [stays] = await fill(store, 1)
  await drop(store, early)
  machine.fault = (operation, path) => {
    if (operation === 'write' && path.endsWith('/00000000.extent')) throw eio
  }
  await store.compact()
  t.notOk(machine.paths().includes('/store/extents/00000000.extent'))
  machine.fault = () => {}
  const state = machine.now()
  state.rows.clear()
  const revived = await openWith(machineOn(state))
  t.same(await revived.usage().then(({ blobs }) => blobs), 1)
  t.equal((await get(revived, stays as BlobInfo)).length, (stays as BlobInfo).size)
  await revived.close()
  await store.close()
})

t.test(
  'a copy that was moved and then deleted stays deleted, whichever of its extents is emptied first',
  async (t) => {
    for (const between of ['nothing', 'a restart', 'a lost catalogue']) {
      let machine = machineOn()
      let store = await openWith(machine)
      const stays = randomBytes(1000)
      const moved = await put(store, randomBytes(1000), { pinMs: 0 })
      await put(store, stays, { pinMs: 0 })
      const filler = await fill(store, 4) // extent 0 is full
      const turn = () => {
        flipOnDisk(machine, stays)
        stays[32] = (stays[32] ?? 0) ^ 0x10 // as it is on the disk
      }
      turn() // it cannot be moved, and keeps extent 0
      await drop(store, filler)
      await store.compact() // `moved` is in extent 1 as well
      if (between !== 'nothing') {
        turn()
        await store.close()
        const state = machine.now()
        if (between === 'a lost catalogue') state.rows.clear()
        machine = machineOn(state)
        store = await openWith(machine)
        turn()
      }
      await store.delete(moved)
      await drop(store, await fill(store, 4))
      await fill(store, 1)
      const { freedBytes } = store.counters()
      await store.compact()
      t.ok(store.counters().freedBytes > freedBytes, 'extent 1 is free')
      const state = machine.now()
      state.rows.clear()
      const revived = await openWith(machineOn(state))
      t.equal(await revived.stat(moved), undefined, `${between} between the move and the deletion`)
      await revived.close()
      await store.close()
    }
  },
)

t.test('a copy that was restored under its name outlives the entries of its deletion', async (t) => {
  const machine = machineOn()
  const store = await openWith(machine)
  const bytes = randomBytes(1000)
  const stays = randomBytes(1000)
  const copy = await put(store, bytes, { pinMs: 0 })
  await put(store, stays, { pinMs: 0 })
  const filler = await fill(store, 4)
  flipOnDisk(machine, stays)
  await store.delete(copy)
  const stage = await store.stage({ uploadId: copy.incarnation })
  await stage.write(bytes)
  await stage.commit({ pinMs: 0, asNew: true })
  await drop(store, [...filler, ...(await fill(store, 3))])
  await store.compact()
  await fill(store, 1)
  for (const lost of [false, true]) {
    const state = machine.now()
    if (lost) state.rows.clear()
    const revived = await openWith(machineOn(state))
    t.ok(await revived.stat(copy), `catalogue ${lost ? 'lost' : 'kept'}`)
    await revived.close()
  }
  t.ok(bytes.equals(await get(store, copy)))
  await store.delete(copy)
  await drop(store, await fill(store, 4))
  await store.compact()
  const state = machine.now()
  state.rows.clear()
  const revived = await openWith(machineOn(state))
  t.equal(await revived.stat(copy), undefined)
  await revived.close()
  await store.close()
})

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
  for (let n = 0; n < 4; n++) await put(store, randomBytes(1.2 * MiB), { pinMs: 0 }) // fills extent 0
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

  for (let n = 0; n < 8; n++) await put(store, randomBytes(1.2 * MiB), { pinMs: 0 }) // over the freed places
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

t.test('more slow uploads than there is memory for all complete', async (t) => {
  const machine = machineOn()
  const store = await openWith(machine, { extentBytes: 64 * MiB })
  const uploads = await Promise.all(
    Array.from({ length: 40 }, async () => ({ stage: await store.stage(), bytes: randomBytes(600_000) })),
  )
  // All in small steps, side by side: each holds a partly filled block most of the time.
  for (let at = 0; at < 600_000; at += 30_000)
    await Promise.all(uploads.map(async ({ stage, bytes }) => stage.write(bytes.subarray(at, at + 30_000))))
  const infos = await Promise.all(uploads.map(({ stage }) => stage.commit({ pinMs: 0 })))
  for (const [n, fact] of infos.entries()) t.ok(uploads[n]?.bytes.equals(await get(store, fact)))
  t.match(await store.usage(), { stagedBytes: 0, openStages: 0 })
  await store.close()
})

t.test('too many uploads are refused, silent ones are dropped, busy ones are not', async (t) => {
  let nowMs = 0
  const clock = { now: () => Date.now(), monotonic: () => nowMs }
  const store = await openWith(machineOn(), { stagesMax: 2, stageIdleMs: 1000, clock })
  const silent = await store.stage()
  const busy = await store.stage()
  await silent.write(randomBytes(200_000))
  await t.rejects(store.stage(), { code: 'UNAVAILABLE' })
  nowMs += 900
  await busy.write(randomBytes(10))
  nowMs += 900
  t.equal(store.sweep(), 1)
  await t.rejects(silent.commit({ pinMs: 0 }), { code: 'UNAVAILABLE' })
  t.match(await store.usage(), { openStages: 1, stagedBytes: 10 })
  t.ok(await busy.commit({ pinMs: 0 }))
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
