/**
 * A real file system that becomes full: by uploads, and to the last byte by other programs during
 * operations.
 */

import { randomBytes } from 'node:crypto'
import { readFile, rm, stat, statfs, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { BlobFault, type BlobInfo } from '@holdfast/blob-store'
import { get, put } from '@holdfast/blob-store/testing'
import t, { type Test } from 'tap'
import { sizeOf } from '../../../test/forms.ts'
import { Filler, onSmallDisk } from '../../../test/support/small-disk.ts'
import { engineNames } from '../src/catalogue/engines/engine.ts'
import { ThreadedCatalogue } from '../src/catalogue/threaded-catalogue.ts'
import { ChunkStore } from '../src/index.ts'
import { testChunkStore } from '../src/testing.ts'

const MiB = 1024 * 1024
const options = {
  extentBytes: 16 * MiB,
  extentStepBytes: 4 * MiB,
  uploadMemoryBytes: 8 * MiB,
  lowWaterBytes: 24 * MiB,
  ballastBytes: 8 * MiB,
}

const disk = await onSmallDisk(t, { file: import.meta.url, bytes: 224 * MiB })
if (disk !== undefined) {
  const filler = new Filler(disk)
  let stores = 0
  const world = async (t: { teardown(undo: () => unknown): void }, bounds = options) => {
    const path = join(disk, `store-${stores++}`)
    const store = await ChunkStore.open({ ...testChunkStore, path, ...bounds })
    t.teardown(async () => {
      await filler.empty()
      await store.close()
      await rm(path, { recursive: true })
    })
    return { path, store, kept: new Map<BlobInfo, Buffer>() }
  }

  t.test(
    'uploads fill it: they are refused, reads and deletions continue, and deletions make room',
    async (t) => {
      const { path, store, kept } = await world(t)
      await fill(store, kept)
      t.ok((await store.usage()).freeBytes < 2 * MiB)
      t.equal(store.counters().failedGroups, 0, 'refused before the disk did it')
      for (const [info, bytes] of kept) t.ok(bytes.equals(await get(store, info)))
      const gone = [...kept.keys()].filter((_, n) => n % 3 !== 0)
      for (const info of gone) {
        t.equal(await store.delete(info), 'deleted')
        kept.delete(info)
      }
      const wanted = kept.size + gone.length / 2
      await eventually(async () => {
        await fill(store, kept)
        if (kept.size < wanted) throw new BlobFault('FULL', `${kept.size} of ${wanted} uploads fit`)
      })
      await store.close()
      await isAllThere(t, path, kept)
    },
  )

  t.test('with steps that are large for the disk, uploads use all space but the reserve', async (t) => {
    const large = { ...options, extentBytes: 128 * MiB, extentStepBytes: 64 * MiB }
    const { path, store, kept } = await world(t, large)
    await fill(store, kept)
    let bytes = 0
    for (const info of kept.keys()) bytes += info.size
    const { bavail, bsize } = await statfs(disk)
    t.ok(bavail * bsize > 20 * MiB, `${bavail * bsize} bytes are free, the mark is at ${large.lowWaterBytes}`)
    t.ok(bytes > 170 * MiB, `${bytes} bytes are kept`)
    t.equal(store.counters().failedGroups, 0)
    await store.close()
    await isAllThere(t, path, kept)
  })

  // Extents so large that the disk has no room to move the live data of one.
  const tight = {
    ...options,
    extentBytes: 64 * MiB,
    extentStepBytes: 8 * MiB,
    lowWaterBytes: 12 * MiB,
    ballastBytes: 2 * MiB,
  }
  const shapes = [
    ['large blobs, two of five deleted, started again', 1_500_000, (n: number) => n % 5 < 2, true],
    ['small blobs, two of five deleted', 30_000, (n: number) => (n * 7919) % 5 < 2, false],
    ['blobs of all sizes, a third deleted', 0, (n: number) => n % 3 === 0, false],
    ['large blobs, two of five deleted', 1_500_000, (n: number) => n % 5 < 2, false],
    ['small blobs, two of five deleted, started again', 20_000, (n: number) => (n * 7919) % 5 < 2, true],
    ['large blobs, the first extent deleted', 1_000_000, (n: number) => n < 60, false],
  ] as const
  for (const [what, size, gone, restarts] of shapes.slice(0, sizeOf('fullDisks')))
    t.test(`full to the mark, ${what}: deletions return room`, async (t) => {
      const { path, store, kept } = await world(t, tight)
      const sizes = [2_000, 40_000, 900_000, 5_000_000]
      await fill(store, kept, (n) => size || (sizes[n % sizes.length] as number))
      let deletedBytes = 0
      for (const [n, info] of [...kept.keys()].entries()) {
        if (!gone(n)) continue
        if ((await store.delete(info)) !== 'deleted') t.fail('it was not deleted')
        kept.delete(info)
        deletedBytes += info.size
      }
      const now = restarts ? await reopened(t, store, path, tight) : store
      let bytes = 0
      await eventually(async () => {
        const more = new Map<BlobInfo, Buffer>()
        await fill(now, more, () => 200_000)
        for (const [info, content] of more) kept.set(info, content)
        bytes += 200_000 * more.size
        if (bytes < 0.5 * deletedBytes)
          throw new BlobFault('FULL', `${bytes} of ${deletedBytes} bytes were returned`)
      })
      t.ok(bytes >= 0.5 * deletedBytes, `${bytes} of ${deletedBytes} bytes`)
      t.equal(now.counters().failedGroups, 0)
      await now.close()
      await isAllThere(t, path, kept)
    })

  t.test(
    'a reader of deleted content reads it to its end, while its neighbours release their blocks',
    async (t) => {
      const { path, store, kept } = await world(t, tight)
      await fill(store, kept, () => 3_000_000)
      const all = [...kept]
      const [read, bytes] = all[1] as [BlobInfo, Buffer]
      const reader = store.read(read, { start: 0, end: read.size })
      const pieces = [(await reader.next()).value as Uint8Array].map((piece) => Buffer.from(piece))
      const before = (await store.usage()).diskBytes
      for (const [info] of all.slice(0, 12)) {
        await store.delete(info)
        kept.delete(info)
      }
      await store.compact()
      t.ok((await store.usage()).diskBytes < before - 10 * 2_900_000, 'the others were deleted')
      for await (const piece of reader) pieces.push(Buffer.from(piece))
      t.ok(bytes.equals(Buffer.concat(pieces)))
      await store.compact()
      await store.close()
      await isAllThere(t, path, kept)
    },
  )

  t.test(
    'other programs take the last byte: uploads are refused, reads and deletions continue, and uploads recover by themselves',
    async (t) => {
      const { path, store, kept } = await world(t)
      for (let n = 0; n < 60; n++) {
        const bytes = randomBytes(n % 2 === 0 ? 2_000 : 300_000)
        kept.set(await put(store, bytes, { pinMs: 0 }), bytes)
      }
      for (let round = 0; round < 3; round++) {
        // In the middle of uploads, so that the disk refuses writes of all kinds.
        const uploads = Array.from({ length: 8 }, () => uploadInSteps(store, kept))
        await filler.fill()
        await Promise.all(uploads)
        await t.rejects(put(store, randomBytes(1000)), { code: 'FULL' })
        for (const [info, bytes] of kept) if (!bytes.equals(await get(store, info))) t.fail('another byte')
        const gone = [...kept.keys()].slice(0, 10)
        for (const info of gone) {
          t.equal(await store.delete(info), 'deleted', 'also with no byte left')
          kept.delete(info)
        }
        t.equal(await store.stat(gone[0] as BlobInfo), undefined)
        await filler.empty()
        await eventually(async () => {
          const bytes = randomBytes(MiB)
          kept.set(await put(store, bytes, { pinMs: 0 }), bytes)
        })
        await eventually(async () => {
          await store.usage() // reads the disk's state, as metrics do
          const { size } = await stat(join(path, 'ballast')).catch(() => ({ size: 0 }))
          if (size < options.ballastBytes) throw new BlobFault('FULL', `the ballast is ${size} bytes`)
        })
      }
      await store.close()
      await isAllThere(t, path, kept)
    },
  )

  for (const engine of engineNames)
    t.test(`a catalogue in ${engine} that cannot be reopened refuses until it can`, async (t) => {
      const path = join(disk, 'catalogue')
      const catalogue = await ThreadedCatalogue.open(path, engine, { info() {}, warn() {}, error() {} })
      t.teardown(async () => {
        await filler.empty()
        await catalogue.close()
        await rm(path, { recursive: true })
      })
      const row = (key: string, bytes: number) => ({ key: Buffer.from(key), value: randomBytes(bytes) })
      await catalogue.apply([row('a', 10)], { sync: true })
      await filler.fill()
      const more = async () => {
        for (let n = 0; n < 100; n++) await catalogue.apply([row(`b${n}`, MiB)], { sync: true })
      }
      await t.rejects(more(), { code: 'FULL' }, 'its log has some room of its own')
      t.equal((await catalogue.get([Buffer.from('a')]))[0]?.length, 10, 'it can be read')
      await filler.empty()
      const current = join(path, 'CURRENT')
      const right = await readFile(current)
      await writeFile(current, 'nothing that is known\n')
      await t.rejects(catalogue.apply([row('c', 10)], { sync: true }))
      await t.rejects(catalogue.get([Buffer.from('a')]), { name: 'BlobFault' })
      await t.rejects(catalogue.scan(Buffer.alloc(0), { limit: 1 }), { name: 'BlobFault' })
      await writeFile(current, right)
      for (let tries = 100; ; tries--) {
        const found = await catalogue.get([Buffer.from('a')]).catch(() => undefined)
        if (found === undefined && tries > 0) await new Promise((later) => setTimeout(later, 50))
        else {
          t.equal(found?.[0]?.length, 10)
          break
        }
      }
      await catalogue.apply([row('c', 10)], { sync: true })
    })

  t.test('a start on a full disk serves existing content, and accepts deletions', async (t) => {
    const { path, store, kept } = await world(t)
    for (let n = 0; n < 20; n++) {
      const bytes = randomBytes(100_000)
      kept.set(await put(store, bytes, { pinMs: 0 }), bytes)
    }
    await store.close()
    await filler.fill()
    const again = await ChunkStore.open({ ...testChunkStore, path, ...options })
    t.teardown(() => again.close())
    for (const [info, bytes] of kept) t.ok(bytes.equals(await get(again, info)))
    await t.rejects(put(again, randomBytes(1000)), { code: 'FULL' })
    const [first] = kept.keys()
    t.equal(await again.delete(first as BlobInfo), 'deleted')
    await filler.empty()
    await eventually(() => put(again, randomBytes(1000)))
  })
}

async function reopened(
  t: Test,
  store: ChunkStore,
  path: string,
  bounds: typeof options,
): Promise<ChunkStore> {
  await store.close()
  const again = await ChunkStore.open({ ...testChunkStore, path, ...bounds })
  t.teardown(() => again.close())
  return again
}

/** Uploads until the store refuses. */
async function fill(
  store: ChunkStore,
  kept: Map<BlobInfo, Buffer>,
  sizeOf: (n: number) => number = () => 700_000,
): Promise<void> {
  try {
    for (let n = 0; ; n++) {
      const bytes = randomBytes(sizeOf(n))
      kept.set(await put(store, bytes, { pinMs: 0 }), bytes)
    }
  } catch (error) {
    if ((error as BlobFault).code !== 'FULL') throw error
  }
}

/** Uploads until the first refusal; acknowledged ones are recorded. */
async function uploadInSteps(store: ChunkStore, kept: Map<BlobInfo, Buffer>): Promise<void> {
  try {
    for (;;) {
      const bytes = randomBytes(400_000)
      const stage = await store.stage()
      for (let at = 0; at < bytes.length; at += 50_000) {
        await stage.write(bytes.subarray(at, at + 50_000))
        await new Promise(setImmediate)
      }
      kept.set(await stage.commit({ pinMs: 0 }), bytes)
    }
  } catch (error) {
    if ((error as BlobFault).code !== 'FULL') throw error
  }
}

async function isAllThere(t: Test, path: string, kept: ReadonlyMap<BlobInfo, Buffer>): Promise<void> {
  const store = await ChunkStore.open({ ...testChunkStore, path, ...options })
  try {
    for (const [info, bytes] of kept) if (!bytes.equals(await get(store, info))) t.fail('something is lost')
    t.ok((await store.usage()).blobs >= kept.size, `${kept.size} blobs, all of them whole`)
  } finally {
    await store.close()
  }
}

/** Retries what is refused as FULL until it succeeds; only time passes. */
async function eventually(work: () => Promise<unknown>): Promise<void> {
  const deadline = performance.now() + 90_000
  for (;;) {
    try {
      await work()
      return
    } catch (error) {
      if ((error as BlobFault).code !== 'FULL' || performance.now() > deadline) throw error
    }
    await new Promise((later) => setTimeout(later, 50))
  }
}
