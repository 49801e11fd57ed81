/**
 * The chunk store as a node's store: uploads by id, groups, the replication log, and what a killed
 * process leaves of them.
 */

import { randomBytes } from 'node:crypto'
import { open, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type BlobInfo, type LogPosition, tombstoneRetentionMsDefault } from '@holdfast/blob-store'
import { get, nodeStoreContract, put } from '@holdfast/blob-store/testing'
import t, { type Test } from 'tap'
import { MemoryCatalogue } from '../src/catalogue/catalogue.ts'
import { ChunkStore } from '../src/index.ts'
import { testChunkStore, withoutHashThreads } from '../src/testing.ts'
import { rotOnDisk } from './support/rot.ts'

const MiB = 1024 * 1024
const small = {
  extentBytes: 16 * MiB,
  extentStepBytes: 4 * MiB,
  lowWaterBytes: MiB,
  uploadMemoryBytes: 8 * MiB,
}

t.test('with RocksDB', async (t) => {
  nodeStoreContract<Test>({
    test: (name, body) => t.test(name, body),
    passed: (t, name) => void t.pass(name),
    open: (t) => ChunkStore.open({ ...testChunkStore, path: t.testdir(), ...small }, withoutHashThreads),
    rot: async (t, store, blob) => {
      const bytes = await get(store, blob)
      await store.close() // forgets what was verified
      if (rotOnDisk(t.testdirName, bytes) === 0) throw new Error('the bytes are not there')
      return ChunkStore.open({ ...testChunkStore, path: t.testdirName, ...small }, withoutHashThreads)
    },
  })
})

/**
 * A catalogue whose rows outlive the store that has it open, so that a store can be opened as if
 * the previous one had been killed.
 */
class Rows {
  synced = new Map<string, Buffer>()
  readonly #stores: ChunkStore[] = []

  async open(path: string): Promise<ChunkStore> {
    const rows = new Map(this.synced)
    const catalogue = new (class extends MemoryCatalogue {})(rows)
    const { apply } = catalogue
    catalogue.apply = async (changes, options) => {
      await apply.call(catalogue, changes, options)
      if (options.sync) this.synced = new Map(rows)
    }
    const store = await ChunkStore.open(
      { ...testChunkStore, path, ...small },
      { ...withoutHashThreads, catalogue: async () => catalogue },
    )
    this.#stores.push(store)
    return store
  }

  /** Those that were "killed" too: nothing reads what they write. */
  async close(): Promise<void> {
    for (const store of this.#stores) await store.close()
  }
}

t.test('with rows that outlive the process', async (t) => {
  const worlds = new Map<string, Rows>()
  nodeStoreContract<Test>({
    test: (name, body) => t.test(name, body),
    passed: (t, name) => void t.pass(name),
    open: async (t) => {
      const path = t.testdir()
      const rows = new Rows()
      worlds.set(path, rows)
      t.teardown(() => rows.close())
      return rows.open(path)
    },
    reopen: async (t, store, how) => {
      if (how === 'closed') await store.close()
      return (worlds.get(t.testdirName) as Rows).open(t.testdirName)
    },
  })
})

t.test('a store whose catalogue is lost keeps groups, begins a new life, and forgets notes', async (t) => {
  const path = t.testdir()
  const rows = new Rows()
  t.teardown(() => rows.close())
  const store = await rows.open(path)
  const stage = await store.stage({ placement: { group: 9, version: 1 } })
  await stage.write(randomBytes(2 * MiB))
  const info = await stage.commit({ pinMs: 0, asNew: true, createdMs: 99 })
  const small = await put(store, randomBytes(100))
  await store.setNote('mark', Buffer.from('x'))
  const before = await startOf(store)
  await store.close()
  rows.synced = new Map()
  const again = await rows.open(path)
  t.same(await again.stat(info), info)
  t.same(await again.committed(small.incarnation), small)
  t.equal(await again.note('mark'), undefined)
  t.notSame((await startOf(again)).store, before.store)
})

t.test('entries that were not synced are not returned', async (t) => {
  const rows = new Rows()
  t.teardown(() => rows.close())
  const path = t.testdir()
  const store = await rows.open(path)
  const start = await startOf(store)
  for (let n = 0; n < 20; n++) await put(store, randomBytes(100 + n))
  const pulled = await store.pull({ after: start, limit: 100 })
  t.match(pulled, { kind: 'entries', entries: { length: 20 } })
  const logged = [...rows.synced.keys()].filter((key) => key.startsWith('l'))
  t.equal(logged.length, 20, 'all of them survive any crash')
})

t.test('a damaged copy is replaced under its name, and its space is returned', async (t) => {
  const path = t.testdir()
  const store = await ChunkStore.open({ ...testChunkStore, path, ...small })
  for (const size of [50_000, 3 * MiB + 5]) {
    const bytes = randomBytes(size)
    const info = await put(store, bytes, { pinMs: 0 })
    await rot(bytes.subarray(40_000, 40_032))
    await t.rejects(readFresh(store, info), { code: 'CORRUPT' }, `${size}`)
    t.match(await store.stat(info), { damaged: true })
    t.same(await store.find(info.id), [])
    const stage = await store.stage({ uploadId: info.incarnation })
    for (let at = 0; at < size; at += MiB) await stage.write(bytes.subarray(at, at + MiB))
    const replaced = await stage.commit({ pinMs: 0, asNew: true, createdMs: 1 })
    t.same(replaced, await store.stat(info))
    t.notOk(replaced.damaged)
    t.ok(bytes.equals(await readFresh(store, info)))
  }
  const usage = await store.usage()
  t.same([usage.blobs, usage.liveBytes], [2, 50_000 + 3 * MiB + 5])
  await store.close()

  /** Flips bits in all places with these bytes in the extents. */
  async function rot(found: Buffer): Promise<void> {
    for (const name of await readdir(join(path, 'extents'))) {
      const file = await open(join(path, 'extents', name), 'r+')
      const bytes = await file.readFile()
      const at = bytes.indexOf(found)
      if (at >= 0) await file.write(Buffer.from([(bytes[at] as number) ^ 1]), 0, 1, at)
      await file.sync()
      await file.close()
    }
  }
})

t.test('old entries and tombstones are dropped, and their positions are unknown then', async (t) => {
  let nowMs = 1_700_000_000_000
  const clock = { now: () => nowMs, monotonic: () => performance.now() }
  const store = await ChunkStore.open({ ...testChunkStore, path: t.testdir(), ...small, clock })
  const start = await startOf(store)
  const old = await put(store, randomBytes(100), { pinMs: 0 })
  await store.delete(old)
  nowMs += tombstoneRetentionMsDefault / 2
  await put(store, randomBytes(100))
  const middle = await store.pull({ after: start, limit: 2 })
  t.match(middle, { kind: 'entries', behind: 1 })
  const through = middle.kind === 'entries' ? middle.through : start
  nowMs += tombstoneRetentionMsDefault / 2 + 1
  t.equal(await store.deletedMs(old), undefined)
  await store.trimHistory()
  t.equal((await store.pull({ after: start, limit: 10 })).kind, 'unknown position')
  t.match(await store.pull({ after: through, limit: 10 }), { kind: 'entries', entries: { length: 1 } })
  await store.close()
})

async function startOf(store: ChunkStore): Promise<LogPosition> {
  const pulled = await store.pull({ limit: 1 })
  if (pulled.kind !== 'unknown position') throw new Error('a position that was never issued is known')
  return pulled.now
}

function readFresh(store: ChunkStore, info: BlobInfo): Promise<Buffer> {
  return get(store, info, 0, info.size)
}
