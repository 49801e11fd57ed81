import { randomBytes } from 'node:crypto'
import { get, put } from '@holdfast/blob-store/testing'
import t from 'tap'
import type { Disk, DiskFile } from '../src/disk.ts'
import { InlineHashing } from '../src/hashing.ts'
import { ChunkStore } from '../src/index.ts'
import { crashOptions } from './support/crash-history.ts'
import { CrashMachine, seeded } from './support/crash-machine.ts'

const KiB = 1024
const MiB = 1024 * KiB
const chunk = 64 * KiB
const header = 4 * KiB

/** A disk that tells how many bytes each read asked for. */
function watched(disk: Disk, reads: number[]): Disk {
  const file = (inner: DiskFile): DiskFile => ({
    read(into, position) {
      reads.push(into.length)
      return inner.read(into, position)
    },
    readUncached: (into, position) => inner.readUncached(into, position),
    write: (bytes, position) => inner.write(bytes, position),
    sync: () => inner.sync(),
    resize: (bytes) => inner.resize(bytes),
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
  const facts = await put(store, bytes, { pinMs: 0 })
  const cost = async (start: number, end: number) => {
    reads.length = 0
    t.ok(bytes.subarray(start, end).equals(await get(store, facts, start, end)))
    return reads.reduce((sum, count) => sum + count, 0)
  }
  t.equal(await cost(10 * chunk, 10 * chunk + 1), header + chunk)
  t.equal(await cost(10 * chunk, 10 * chunk + 1), chunk)
  t.equal(await cost(10 * chunk + 5, 11 * chunk + 5), 2 * chunk, 'two chunks for one that lies across')
  t.equal(await cost(MiB - 1, MiB + 1), header + 2 * chunk, 'the next record has its own header')
  t.equal(
    await cost(3 * MiB + 990, 3 * MiB + 1000),
    header + 1000,
    'a short record is read as far as it goes',
  )
})

t.test('a small blob comes in one piece, the second time out of memory', async (t) => {
  const { store, reads } = await openWatched()
  t.teardown(() => store.close())
  const small = randomBytes(4 * KiB)
  const facts = await put(store, small, { pinMs: 0 })
  reads.length = 0
  t.same(await store.readWhole(facts, { start: 0, end: small.length }), small)
  t.same(reads, [4 * KiB])
  t.same(await store.readWhole(facts, { start: 100, end: 200 }), small.subarray(100, 200))
  t.equal(reads.length, 1)
  await t.rejects(store.readWhole(facts, { start: 0, end: 4 * KiB + 1 }), RangeError)
  const gone = { ...facts, incarnation: randomBytes(16) }
  await t.rejects(store.readWhole(gone, { start: 0, end: 1 }), { code: 'NOT_FOUND' })
  t.equal(await store.delete(facts), 'deleted')
  await t.rejects(store.readWhole(facts, { start: 0, end: 1 }), { code: 'NOT_FOUND' })

  const large = await put(store, randomBytes(MiB), { pinMs: 0 })
  t.equal(await store.readWhole(large, { start: 0, end: 10 }), undefined)
})

t.test('readers that go free their claim at once and their buffers for the next', async (t) => {
  const { store } = await openWatched()
  t.teardown(() => store.close())
  const bytes = randomBytes(4 * MiB)
  const facts = await put(store, bytes, { pinMs: 0 })
  const begin = async () => {
    const reader = store.read(facts, { start: 0, end: bytes.length })
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
  t.ok(bytes.equals(await get(store, facts)))
})
