/** Files whose blocks are reserved before anything is written to them. */

import { randomBytes } from 'node:crypto'
import { statSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import type { BlobInfo } from '@holdfast/blob-store'
import { get, put } from '@holdfast/blob-store/testing'
import { alignedBytes } from '@holdfast/kernel'
import t from 'tap'
import { Blocks } from '../src/disk/blocks.ts'
import { NodeDisk } from '../src/disk/node-disk.ts'
import { InlineHashing } from '../src/hashing/hashing.ts'
import { ChunkStore, type ChunkStoreOptions } from '../src/index.ts'
import { crashOptions, realOptions } from './support/crash-history.ts'
import { CrashMachine, type DiskState, seeded } from './support/crash-machine.ts'

const MiB = 1024 * 1024
const { EBADF, EINTR, EIO, ENOSPC, ENOSYS, EOPNOTSUPP } = constants.errno

const occupied = (path: string) => statSync(path).blocks * 512

async function canReserve(directory: string): Promise<boolean> {
  const file = await new NodeDisk().open(join(directory, 'probe'), { create: true })
  try {
    return await file.reserve({ from: 0, to: 4096 })
  } finally {
    await file.close()
  }
}

/** Results of `fallocate`, call by call; the last one repeats. Counts the calls. */
function answering(...errnos: number[]) {
  const calls: { mode: number; from: number; length: number }[] = []
  let errno = 0
  const blocks = new Blocks(
    {
      async(_fd, mode, from, length, done) {
        calls.push({ mode, from, length })
        const answer = (errnos.length > 1 ? errnos.shift() : errnos[0]) ?? 0
        setImmediate(() => {
          errno = answer
          done(null, answer === 0 ? 0 : -1)
          errno = EIO // of a later call on this thread
        })
      },
    },
    () => errno,
  )
  return { blocks, calls }
}

const real = t.testdir()
if (await canReserve(real)) {
  t.test('a reserved range has its blocks, reads as zeros, and returns them', async (t) => {
    const path = join(t.testdir(), 'file')
    const file = await new NodeDisk().open(path, { create: true })
    t.teardown(() => file.close())
    const bytes = alignedBytes(4096).fill(7)
    await file.write(bytes, 0)
    t.equal(await file.reserve({ from: 4096, to: 8 * MiB }), true)
    t.equal(await file.size(), 8 * MiB)
    t.ok(occupied(path) >= 8 * MiB, `${occupied(path)} bytes`)
    const found = Buffer.alloc(8192, 1)
    t.equal(await file.read(found, 0), 8192)
    t.ok(found.subarray(0, 4096).equals(bytes))
    t.ok(found.subarray(4096).equals(Buffer.alloc(4096)))
    t.equal(await file.reserve({ from: 0, to: 4 * MiB }), true)
    t.equal(await file.size(), 8 * MiB, 'a file that is longer stays so')
    await file.discard({ from: 4096, to: 4 * MiB })
    t.equal(await file.size(), 8 * MiB)
    t.ok(occupied(path) < 5 * MiB, `${occupied(path)} bytes`)
    await file.truncate(4096)
    t.equal(await file.size(), 4096)
    t.ok(occupied(path) < MiB)
  })

  t.test('each call has its own error, also with many at once', async (t) => {
    const blocks = Blocks.create() as Blocks
    const calls = Array.from({ length: 32 }, (_, n) =>
      n % 2 === 0 ? blocks.take(-1, { from: 0, to: 1 }) : blocks.take(0, { from: 0, to: -1 }),
    )
    const codes = (await Promise.allSettled(calls)).map((call) => 'reason' in call && call.reason.code)
    t.same(new Set(codes.filter((_, n) => n % 2 === 0)), new Set(['EBADF']))
    t.same(new Set(codes.filter((_, n) => n % 2 === 1)), new Set(['EINVAL']))
  })

  t.test(
    "a store's extent has blocks for all of its file, one that grew after a clean stop too",
    async (t) => {
      const path = t.testdir()
      const extent = join(path, 'extents', '00000000.extent')
      for (const size of [100, 5 * MiB]) {
        const store = await ChunkStore.open({ path, ...realOptions })
        await put(store, randomBytes(size))
        t.ok(occupied(extent) >= statSync(extent).size, `${occupied(extent)} for ${statSync(extent).size}`)
        const { diskBytes } = await store.usage()
        t.ok(diskBytes >= statSync(extent).size, 'usage counts what is taken')
        await store.close()
      }
    },
  )

  t.test('a sparse file gets its blocks at the next start', async (t) => {
    const path = t.testdir()
    const extent = join(path, 'extents', '00000000.extent')
    const { blocks } = answering(ENOSYS)
    const before = await ChunkStore.open({ path, ...realOptions }, { disk: new NodeDisk({ blocks }) })
    const bytes = randomBytes(100)
    const info = await put(before, bytes)
    await before.close()
    t.ok(occupied(extent) < MiB, 'sparse where it cannot be done otherwise')
    t.equal(statSync(extent).size, 4 * MiB)
    const after = await ChunkStore.open({ path, ...realOptions })
    t.ok(occupied(extent) >= 4 * MiB)
    t.ok(bytes.equals(await get(after, info)))
    await after.close()
  })
} else {
  t.pass('the file system of the test directory cannot reserve blocks: only the fallbacks are tested')
}

t.test('an interrupted call is repeated', async (t) => {
  const { blocks, calls } = answering(EINTR, EINTR, 0)
  t.equal(await blocks.take(9, { from: 4096, to: 12288 }), true)
  t.same(calls, Array(3).fill({ mode: 0, from: 4096, length: 8192 }))
})

t.test('where blocks cannot be reserved a file grows sparse, and none are released', async (t) => {
  for (const errno of [EOPNOTSUPP, ENOSYS]) {
    const { blocks } = answering(errno)
    const path = join(t.testdir(), `${errno}`)
    const file = await new NodeDisk({ blocks }).open(path, { create: true })
    t.teardown(() => file.close())
    t.equal(await file.reserve({ from: 0, to: 4 * MiB }), false)
    t.equal(await file.size(), 4 * MiB)
    t.equal(await file.reserve({ from: 0, to: 2 * MiB }), false)
    t.equal(await file.size(), 4 * MiB, 'a file that is longer stays so')
    await file.discard({ from: 0, to: MiB })
    t.equal(await file.size(), 4 * MiB)
  }
})

t.test('a full disk leaves the length of a file unchanged', async (t) => {
  const path = join(t.testdir(), 'file')
  const taken = Blocks.create()
  const short = {
    async take(fd: number, { from, to }: { from: number; to: number }) {
      await taken?.take(fd, { from, to: (from + to) / 2 })
      return answering(ENOSPC).blocks.take(fd, { from, to })
    },
  } as Blocks
  const file = await new NodeDisk({ blocks: short }).open(path, { create: true })
  t.teardown(() => file.close())
  await file.write(alignedBytes(4096), 0)
  await t.rejects(file.reserve({ from: 0, to: 8 * MiB }), { code: 'ENOSPC' })
  t.equal(await file.size(), 4096)
  t.ok(occupied(path) < MiB, 'reserved blocks are released')
  const { blocks } = answering(EBADF)
  await t.rejects(blocks.release(9, { from: 0, to: 1 }), { code: 'EBADF', errno: -EBADF })
})

const enospc = Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })

function openWith(
  machine: CrashMachine,
  options: Partial<ChunkStoreOptions> = {},
  disk = machine.disk,
): Promise<ChunkStore> {
  return ChunkStore.open(
    { ...crashOptions, ...options },
    {
      disk,
      catalogue: async () => machine.catalogue,
      hashing: (memory) => new InlineHashing(memory),
      background: false,
    },
  )
}

function machineOn(state?: DiskState): CrashMachine {
  return new CrashMachine(seeded(7), state)
}

const first = '/store/extents/00000000.extent'

t.test('of a step that does not fit only the needed part is reserved', async (t) => {
  const machine = machineOn()
  let refused = 0
  machine.fault = (operation, _path, bytes) => {
    if (operation !== 'reserve' || bytes % MiB !== 0) return
    refused++
    throw enospc
  }
  const store = await openWith(machine)
  const kept = new Map<BlobInfo, Buffer>()
  for (let n = 0; n < 5; n++) {
    const bytes = randomBytes(n % 2 === 0 ? 1000 : 200_000)
    kept.set(await put(store, bytes), bytes)
  }
  t.ok(refused > 0)
  t.ok(machine.file(first).length < MiB, `${machine.file(first).length} bytes`)
  for (const [info, bytes] of kept) t.ok(bytes.equals(await get(store, info)))
  t.equal(store.counters().failedGroups, 0)
  await store.close()
})

t.test('a step that would use the reserve is not tried', async (t) => {
  const machine = machineOn()
  machine.freeBytes = 20 * MiB
  const store = await openWith(machine, {
    extentBytes: 64 * MiB,
    extentStepBytes: 16 * MiB,
    lowWaterBytes: 8 * MiB,
  })
  await put(store, randomBytes(1000))
  t.ok(machine.file(first).length < MiB, '16 of 20 MiB would go below the mark of 8')
  t.ok((await store.usage()).freeBytes > 11 * MiB)
  machine.freeBytes = 40 * MiB
  await store.usage()
  await put(store, randomBytes(1000))
  t.equal(machine.file(first).length, 16 * MiB)
  machine.freeBytes = 24 * MiB
  const { freeBytes } = await store.usage()
  t.ok(freeBytes > 31 * MiB, `${freeBytes}: reserved and unwritten blocks count as room, as before`)
  await store.close()
})

t.test('a disk without any more room damages no extent, and existing blocks are used', async (t) => {
  const machine = machineOn()
  const store = await openWith(machine, { lowWaterBytes: 1 })
  const kept = await put(store, randomBytes(400_000), { pinMs: 0 })
  const stage = await store.stage()
  const bytes = randomBytes(300_000)
  await stage.write(bytes.subarray(0, 150_000))
  machine.fault = (operation) => {
    if (operation === 'reserve') throw enospc
  }
  await t.rejects(put(store, randomBytes(2 * MiB)), { code: 'FULL' })
  t.equal(store.counters().suspectExtents, 0)
  machine.freeBytes = 1e12
  await store.usage()
  await stage.write(bytes.subarray(150_000))
  const info = await stage.commit({ pinMs: 0 })
  t.ok(bytes.equals(await get(store, info)), 'a running upload continues in the existing blocks')
  t.equal(await store.delete(kept), 'deleted')
  machine.fault = () => {}
  await store.usage()
  await put(store, randomBytes(2 * MiB))
  t.match(store.counters(), { suspectExtents: 0, extents: 1 })
  await store.close()
})

t.test('when nothing more is available an emptied extent is used instead', async (t) => {
  const machine = machineOn()
  const store = await openWith(machine)
  const old = [await put(store, randomBytes(2 * MiB), { pinMs: 0 })]
  old.push(await put(store, randomBytes(1.8 * MiB), { pinMs: 0 }))
  const kept = await put(store, randomBytes(1.5 * MiB), { pinMs: 0 })
  t.equal(store.counters().extents, 2)
  for (const info of old) await store.delete(info)
  await store.compact()
  const [emptied] = machine.paths().filter((path) => machine.file(path).length > 3 * MiB)
  t.equal(emptied, first, 'kept for reuse')
  machine.fault = (operation, path, bytes) => {
    if (operation === 'reserve' && (path !== first || bytes > machine.file(first).length)) throw enospc
  }
  const bytes = randomBytes(1.8 * MiB)
  const info = await put(store, bytes)
  t.ok(bytes.equals(await get(store, info)))
  t.equal((await get(store, kept)).length, 1.5 * MiB)
  t.match(store.counters(), { suspectExtents: 0, extents: 2 })
  await store.close()
})

t.test('holes of an emptied extent are filled only where the disk can spare it', async (t) => {
  for (const [freeBytes, filled] of [
    [1e12, 'all'],
    [3 * MiB, 'what is needed'],
  ] as const) {
    const machine = machineOn()
    const disk = { ...machine.disk, allocatedBytes: async () => 0.5 * MiB }
    const store = await openWith(machine, { lowWaterBytes: 2 * MiB }, disk)
    const old = await put(store, randomBytes(3 * MiB), { pinMs: 0 })
    await put(store, randomBytes(2 * MiB))
    await store.delete(old)
    await store.compact()
    machine.freeBytes = freeBytes
    await store.usage()
    const asked: number[] = []
    machine.fault = (operation, path, bytes) => {
      if (operation === 'reserve' && path === first) asked.push(bytes)
    }
    const bytes = randomBytes(2 * MiB)
    const info = await put(store, bytes)
    t.equal(asked.length, 1, 'it is used again')
    if (filled === 'all') t.ok((asked[0] as number) >= 3 * MiB, `${asked[0]} bytes`)
    else t.ok((asked[0] as number) < 1.1 * MiB, `${asked[0]} bytes`)
    t.ok(bytes.equals(await get(store, info)))
    await store.close()
  }
})

t.test('an extent that is sealed early releases its unused blocks', async (t) => {
  const machine = machineOn()
  const bounds = { extentBytes: 16 * MiB, extentStepBytes: 8 * MiB, lowWaterBytes: MiB }
  const store = await openWith(machine, bounds)
  const dead = await put(store, randomBytes(9 * MiB), { pinMs: 0 })
  const bytes = randomBytes(1000)
  const kept = await put(store, bytes, { pinMs: 0 })
  const reader = store.read(dead, { start: 0, end: 9 * MiB })
  await reader.next()
  t.equal(await store.delete(dead), 'deleted')
  machine.freeBytes = 9 * MiB
  await store.usage()
  await store.compact()
  const { length } = machine.file(first)
  t.ok(length > 9 * MiB && length < 10 * MiB, `${length} bytes of 16 MiB, while a reader keeps the rest`)
  const lost = machine.now()
  lost.rows.clear()
  const rebuilt = await openWith(machineOn(lost), bounds)
  t.ok(bytes.equals(await get(rebuilt, kept)), 'found also where it was cut, without the catalogue')
  t.match(await rebuilt.usage(), { blobs: 1 })
  await rebuilt.close()
  let read = 0
  for await (const piece of reader) read += piece.length
  t.ok(read > 7 * MiB)
  t.ok(bytes.equals(await get(store, kept)))
  await store.compact()
  machine.freeBytes = 1e12
  await store.usage()
  for (let n = 0; n < 5; n++) await put(store, randomBytes(6 * MiB))
  t.equal(machine.file(first).length, 16 * MiB, 'reused, it grows again')
  await store.close()
  for (const catalogueLost of [false, true]) {
    const state = machine.now()
    if (catalogueLost) state.rows.clear()
    const again = await openWith(machineOn(state), bounds)
    t.ok(bytes.equals(await get(again, kept)))
    t.match(await again.usage(), { blobs: 6 })
    await again.close()
  }
})

t.test(
  'unused blocks that a killed process reserved are released, and nothing is written there',
  async (t) => {
    const machine = machineOn()
    const store = await openWith(machine)
    const bytes = randomBytes(100_000)
    const info = await put(store, bytes, { pinMs: 0 })
    const killed = machine.now()
    killed.files.get(first)?.fill(9, 512 * 1024) // leftovers
    const after = machineOn(killed)
    const again = await openWith(after)
    const file = after.file(first)
    t.ok(file.subarray(512 * 1024, MiB).every((byte) => byte === 0))
    await put(again, randomBytes(100))
    t.ok(after.file(first).length > MiB)
    t.ok(
      after
        .file(first)
        .subarray(512 * 1024, MiB)
        .every((byte) => byte === 0),
    )
    t.ok(bytes.equals(await get(again, info)))
    await again.close()
    await store.close()
  },
)
