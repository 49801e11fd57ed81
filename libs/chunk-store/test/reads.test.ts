import { randomBytes, randomFillSync } from 'node:crypto'
import { join } from 'node:path'
import { get, put } from '@holdfast/blob-store/testing'
import { alignedBytes } from '@holdfast/kernel'
import t from 'tap'
import type { Disk, DiskFile } from '../src/disk/disk.ts'
import { NodeDisk } from '../src/disk/node-disk.ts'
import { cachedRead } from '../src/disk/page-cache.ts'
import { InlineHashing } from '../src/hashing/hashing.ts'
import { ChunkStore } from '../src/index.ts'
import { crashOptions } from './support/crash-history.ts'
import { CrashMachine, seeded } from './support/crash-machine.ts'

const KiB = 1024
const MiB = 1024 * KiB
const chunk = 64 * KiB
const header = 4 * KiB

/** A disk that records how many bytes each read requested. */
function watched(disk: Disk, reads: number[]): Disk {
  const file = (inner: DiskFile): DiskFile => ({
    read(into, position) {
      reads.push(into.length)
      return inner.read(into, position)
    },
    readUncached: (into, position) => inner.readUncached(into, position),
    write: (bytes, position) => inner.write(bytes, position),
    sync: () => inner.sync(),
    reserve: (range) => inner.reserve(range),
    discard: (range) => inner.discard(range),
    truncate: (bytes) => inner.truncate(bytes),
    size: () => inner.size(),
    close: () => inner.close(),
  })
  return {
    makeDirectory: (path) => disk.makeDirectory(path),
    list: (path) => disk.list(path),
    open: async (path, options) => file(await disk.open(path, options)),
    remove: (path) => disk.remove(path),
    allocatedBytes: (path) => disk.allocatedBytes(path),
    syncDirectory: (path) => disk.syncDirectory(path),
    space: (path) => disk.space(path),
  }
}

async function openWatched(): Promise<{ store: ChunkStore; reads: number[]; machine: CrashMachine }> {
  const machine = new CrashMachine(seeded(7))
  const reads: number[] = []
  const store = await ChunkStore.open(crashOptions, {
    disk: watched(machine.disk, reads),
    catalogue: async () => machine.catalogue,
    hashing: (memory) => new InlineHashing(memory),
    background: false,
  })
  return { store, reads, machine }
}

t.test('a range reads the chunks it touches, and the header of a record once', async (t) => {
  const { store, reads } = await openWatched()
  t.teardown(() => store.close())
  const bytes = randomBytes(3 * MiB + 1000)
  const info = await put(store, bytes, { pinMs: 0 })
  const cost = async (start: number, end: number) => {
    reads.length = 0
    t.ok(bytes.subarray(start, end).equals(await get(store, info, start, end)))
    return reads.reduce((sum, count) => sum + count, 0)
  }
  t.equal(await cost(10 * chunk, 10 * chunk + 1), header + chunk)
  t.equal(await cost(10 * chunk, 10 * chunk + 1), chunk)
  t.equal(await cost(10 * chunk + 5, 11 * chunk + 5), 2 * chunk, 'two chunks for one that lies across')
  t.equal(await cost(MiB - 1, MiB + 1), header + 2 * chunk, 'the next record has its own header')
  t.equal(await cost(3 * MiB + 990, 3 * MiB + 1000), header + 1000, 'a short record is read to its end')
})

t.test('a small blob comes in one piece, the second time from memory', async (t) => {
  const { store, reads } = await openWatched()
  t.teardown(() => store.close())
  const small = randomBytes(4 * KiB)
  const info = await put(store, small, { pinMs: 0 })
  reads.length = 0
  t.same((await store.readWhole(info, { start: 0, end: small.length }))?.bytes, small)
  t.same(reads, [4 * KiB])
  t.same((await store.readWhole(info, { start: 100, end: 200 }))?.bytes, small.subarray(100, 200))
  t.equal(reads.length, 1)
  await t.rejects(store.readWhole(info, { start: 0, end: 4 * KiB + 1 }), RangeError)
  const gone = { ...info, incarnation: randomBytes(16) }
  await t.rejects(store.readWhole(gone, { start: 0, end: 1 }), { code: 'NOT_FOUND' })
  t.equal(await store.delete(info), 'deleted')
  await t.rejects(store.readWhole(info, { start: 0, end: 1 }), { code: 'NOT_FOUND' })

  const large = await put(store, randomBytes(MiB), { pinMs: 0 })
  t.equal(await store.readWhole(large, { start: 0, end: 10 }), undefined)
})

t.test('readers that end free their claim at once and their buffers for the next', async (t) => {
  const { store } = await openWatched()
  t.teardown(() => store.close())
  const bytes = randomBytes(4 * MiB)
  const info = await put(store, bytes, { pinMs: 0 })
  const begin = async () => {
    const reader = store.read(info, { start: 0, end: bytes.length })
    return { reader, first: await reader.next() }
  }
  const memory = async (rounds: number) => {
    for (let round = 0; round < rounds; round++) {
      const begun = await Promise.all(Array.from({ length: 12 }, begin))
      t.equal(store.counters().activeReaders, 12)
      await Promise.all(begun.map(({ reader }) => reader.return()))
      t.equal(store.counters().activeReaders, 0)
    }
    return process.memoryUsage().arrayBuffers
  }
  const before = await memory(1)
  const after = await memory(8)
  t.ok(after - before < 4 * MiB, `${after - before} bytes more`)
  t.ok(bytes.equals(await get(store, info)))
})

/** A disk of which `view` shows what is in memory: undefined where the device would be needed. */
async function openCached(view: (bytes: Buffer, position: number) => Buffer | undefined) {
  const machine = new CrashMachine(seeded(7))
  const reads: number[] = []
  const disk = watched(machine.disk, reads)
  const store = await ChunkStore.open(crashOptions, {
    disk: {
      ...disk,
      async open(path, options) {
        const file = await disk.open(path, options)
        file.readCached = (into, position) =>
          view(machine.file(path).subarray(position, position + into.length), position)?.copy(into) ?? 0
        return file
      },
    },
    catalogue: async () => machine.catalogue,
    hashing: (memory) => new InlineHashing(memory),
    background: false,
  })
  return { store, reads }
}

t.test('bytes in memory are read at once and checked, the rest from the device', async (t) => {
  let view = (bytes: Buffer, _position: number): Buffer | undefined => bytes
  const { store, reads } = await openCached((bytes, position) => view(bytes, position))
  t.teardown(() => store.close())
  const bytes = randomBytes(3 * MiB + 1000)
  const info = await put(store, bytes, { pinMs: 0 })
  const whole = async (start: number, end: number) => {
    const found = await store.readWhole(info, { start, end })
    return found && bytes.subarray(start, end).equals(found.bytes)
  }
  reads.length = 0
  t.ok(bytes.equals(await get(store, info)))
  t.ok(await whole(10 * chunk + 5, 11 * chunk + 5))
  t.ok(await whole(3 * MiB + 1, 3 * MiB + 1000))
  t.same(reads, [], 'the device was not used')
  t.equal(await whole(MiB - 1, MiB + 1), undefined, 'two records')
  t.equal(await whole(0, MiB), undefined, 'more than one piece')

  view = () => undefined
  t.equal(await whole(0, 10), undefined)
  t.ok(bytes.equals(await get(store, info)))
  t.ok(reads.length > 0)
  view = (there, position) => (position > 2 * MiB ? undefined : there)
  t.ok(bytes.equals(await get(store, info)), 'some of it')
  view = (there) => there.subarray(0, there.length - 1)
  t.equal(await whole(0, 10), undefined, 'less than was requested')
  t.ok(bytes.equals(await get(store, info)))
  view = (there) => {
    const damaged = Buffer.from(there)
    damaged[100] = (damaged[100] ?? 0) ^ 1
    return damaged
  }
  t.equal(await whole(0, 10), undefined, 'damaged in memory')
  t.ok(bytes.equals(await get(store, info)), 'and right on the device')
  t.equal(store.counters().damagedReads, 0)
})

t.test('released memory is used again, once', async (t) => {
  const { store } = await openCached((bytes) => bytes)
  t.teardown(() => store.close())
  const bytes = randomBytes(MiB)
  const info = await put(store, bytes, { pinMs: 0 })
  const read = async (start: number) => {
    const found = await store.readWhole(info, { start, end: start + chunk })
    if (found === undefined) throw new Error('not in memory')
    return { ...found, isRight: () => bytes.subarray(start, start + chunk).equals(found.bytes) }
  }
  const first = await read(0)
  const second = await read(chunk)
  t.ok(first.isRight() && second.isRight())
  first.release()
  first.release()
  const third = await read(2 * chunk)
  const fourth = await read(3 * chunk)
  t.equal(third.bytes.buffer, first.bytes.buffer)
  t.ok(second.isRight() && third.isRight() && fourth.isRight())
})

t.test('a reader that never waits lets others have their turn', async (t) => {
  const { store } = await openCached((bytes) => bytes)
  t.teardown(() => store.close())
  const bytes = randomBytes(6 * MiB)
  const info = await put(store, bytes, { pinMs: 0 })
  let turns = 0
  const turn = () => {
    turns++
    next = setImmediate(turn)
  }
  let next = setImmediate(turn)
  t.ok(bytes.equals(await get(store, info)))
  clearImmediate(next)
  t.ok(turns >= 4, `${turns} turns`)
})

// Everything else here holds without that call, too: then the thread pool reads everything.
const skip = cachedRead === undefined && 'this system has no preadv2 for us'
t.test('the page cache of a real file', { skip }, async (t) => {
  const disk = new NodeDisk()
  const file = await disk.open(join(t.testdir(), 'file'), { create: true })
  t.teardown(() => file.close())
  const bytes = alignedBytes(64 * KiB)
  randomFillSync(bytes)
  await file.write(bytes, 0)
  const into = Buffer.alloc(bytes.length)
  await file.read(into, 0)
  into.fill(0)
  t.equal(file.readCached?.(into, 0), bytes.length)
  t.ok(into.equals(bytes))
  t.equal(file.readCached?.(into, bytes.length - 10), 10, 'as far as the file goes')
  t.equal(file.readCached?.(into, -2), 0, 'a failure')
})
