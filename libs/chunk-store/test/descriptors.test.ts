/**
 * Many extents and few descriptors: all are read, none stays open, and no read meets a descriptor
 * that was closed.
 */

import { createHash, randomBytes } from 'node:crypto'
import { readdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import type { BlobInfo } from '@holdfast/blob-store'
import { put } from '@holdfast/blob-store/testing'
import t from 'tap'
import type { Disk } from '../src/disk/disk.ts'
import { NodeDisk } from '../src/disk/node-disk.ts'
import { Extent } from '../src/extents/extent.ts'
import { ExtentFiles, openExtentsMaxLeast } from '../src/extents/extent-files.ts'
import { InlineHashing } from '../src/hashing/hashing.ts'
import { ChunkStore } from '../src/index.ts'
import { testChunkStore } from '../src/testing.ts'

const MiB = 1024 * 1024
const small = {
  extentBytes: 4 * MiB,
  extentStepBytes: MiB,
  uploadMemoryBytes: 8 * MiB,
  lowWaterBytes: MiB,
  ballastBytes: 0,
}

/**
 * The real disk without the page cache: each read waits for the device, and so for a descriptor.
 */
function coldDisk(disk: Disk): Disk {
  return {
    makeDirectory: (path) => disk.makeDirectory(path),
    list: (path) => disk.list(path),
    async open(path, options) {
      const file = await disk.open(path, options)
      return {
        read: (into, position) => file.read(into, position),
        readUncached: (into, position) => file.readUncached(into, position),
        write: (bytes, position) => file.write(bytes, position),
        sync: () => file.sync(),
        reserve: (range) => file.reserve(range),
        discard: (range, how) => file.discard(range, how),
        truncate: (bytes) => file.truncate(bytes),
        size: () => file.size(),
        close: () => file.close(),
      }
    },
    remove: (path) => disk.remove(path),
    allocatedBytes: (path) => disk.allocatedBytes(path),
    syncDirectory: (path) => disk.syncDirectory(path),
    space: (path) => disk.space(path),
  }
}

function openExtents(path: string): number {
  const open = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`)
    } catch {
      return ''
    }
  })
  return open.filter((name) => name.startsWith(join(path, 'extents')) && name.endsWith('.extent')).length
}

async function md5Of(store: ChunkStore, info: BlobInfo): Promise<string> {
  const hash = createHash('md5')
  for await (const bytes of store.read(info, { start: 0, end: info.size })) hash.update(bytes)
  return hash.digest('hex')
}

t.test(
  'extents made in sequence, and 140 cold ones read at once, stay within the bound and are all correct',
  async (t) => {
    const path = t.testdir()
    const open = (openExtentsMax?: number) =>
      ChunkStore.open(
        { ...testChunkStore, path, ...small, ...(openExtentsMax === undefined ? {} : { openExtentsMax }) },
        { hashing: (memory) => new InlineHashing(memory), disk: coldDisk(new NodeDisk()), background: false },
      )
    let store = await open()
    const blobs = new Map<BlobInfo, string>()
    let openMost = 0
    for (let n = 0; n < 140; n++) {
      const bytes = randomBytes(3 * MiB)
      blobs.set(await put(store, bytes, { pinMs: 0 }), createHash('md5').update(bytes).digest('hex'))
      openMost = Math.max(openMost, openExtents(path))
    }
    t.equal(store.counters().extents, 140)
    t.ok(openMost <= 2 * 96, `${openMost} descriptors while they were made`)
    await store.close()
    t.equal(openExtents(path), 0)

    for (const most of [undefined, openExtentsMaxLeast]) {
      store = await open(most)
      const reading = [...blobs].map(async ([info, md5]) => t.equal(await md5Of(store, info), md5))
      while (openExtents(path) < 2 * openExtentsMaxLeast) await new Promise(setImmediate)
      t.ok(openExtents(path) <= 2 * (most ?? 96))
      await Promise.all(reading)
      t.match(store.counters(), { damagedReads: 0, activeReaders: 0 })
      await store.close()
      t.equal(openExtents(path), 0)
    }
  },
)

/**
 * Files whose operations end when the test says so, and that report an operation on a closed one.
 */
function heldDisk() {
  const ends: (() => void)[] = []
  const seen = { open: 0, openMost: 0, afterClose: 0 }
  const refuse = { next: 0, code: 'EMFILE' }
  const disk: Disk = {
    ...coldDisk(new NodeDisk()),
    async open() {
      if (refuse.next > 0) {
        refuse.next--
        throw Object.assign(new Error(`${refuse.code}: too many open files`), { code: refuse.code })
      }
      seen.openMost = Math.max(seen.openMost, ++seen.open)
      let isOpen = true
      const act = async () => {
        if (!isOpen) seen.afterClose++
        await new Promise<void>((resolve) => ends.push(resolve))
        if (!isOpen) seen.afterClose++
        return 0
      }
      return {
        read: act,
        readUncached: act,
        write: async () => void (await act()),
        sync: async () => {},
        reserve: async () => true,
        discard: async () => 'done',
        truncate: async () => {},
        size: async () => 0,
        close: async () => {
          isOpen = false
          await new Promise(setImmediate)
          seen.open--
        },
      }
    },
    syncDirectory: async () => {},
    remove: async () => {},
  }
  return { disk, seen, refuse, ends }
}

function sealed(number: number, files: ExtentFiles): Extent {
  return Object.assign(new Extent(number, files), { state: 'sealed' as const })
}

/** Lets everything that waits only for its turn continue. */
async function turns(): Promise<void> {
  for (let n = 0; n < 20; n++) await new Promise(setImmediate)
}

t.test('a file in use is not closed, and operations that find all in use wait in turn', async (t) => {
  const { disk, seen, ends } = heldDisk()
  const files = new ExtentFiles(disk, '/none', { openMax: 8 })
  const extents = Array.from({ length: 20 }, (_, n) => sealed(n, files))
  const reads = [...extents, ...extents].map((extent) => extent.read(Buffer.alloc(1), 0))
  for (let ended = 0; ended < 40; ended++) {
    while (ends.length === 0) await turns()
    ends.shift()?.()
  }
  await Promise.all(reads)
  await files.closeAll()
  t.same(seen, { open: 0, openMost: 8, afterClose: 0 })
})

t.test('files that are made in sequence are closed like others', async (t) => {
  const { disk, seen } = heldDisk()
  const files = new ExtentFiles(disk, '/none', { openMax: 8 })
  for (let n = 0; n < 200; n++) await files.create(sealed(n, files))
  t.equal(seen.openMost, 8)
  await files.closeAll()
  t.equal(seen.open, 0)
})

t.test('a removed file is closed once its last read has ended', async (t) => {
  const { disk, seen, ends } = heldDisk()
  const files = new ExtentFiles(disk, '/none', { openMax: 8 })
  const extent = sealed(1, files)
  const read = extent.read(Buffer.alloc(1), 0)
  await turns()
  const removed = files.remove(extent)
  await turns()
  t.equal(seen.open, 1)
  ends.shift()?.()
  await Promise.all([read, removed])
  t.same(seen, { open: 0, openMost: 1, afterClose: 0 })
})

t.test(
  'without descriptors idle files are closed first, and then the shortage is reported without harm',
  async (t) => {
    const { disk, seen, refuse, ends } = heldDisk()
    const files = new ExtentFiles(disk, '/none', { openMax: 8 })
    const [idle, wanted] = [sealed(1, files), sealed(2, files)]
    const first = idle.read(Buffer.alloc(1), 0)
    await turns()
    ends.shift()?.()
    await first
    refuse.next = 1
    const second = wanted.write(Buffer.alloc(1), 0)
    await turns()
    t.equal(seen.open, 1, 'the idle one was closed, and the other one opened')
    ends.shift()?.()
    await second

    for (const code of ['EMFILE', 'ENFILE', 'ENOMEM']) {
      Object.assign(refuse, { next: 2, code })
      const third = sealed(3, files)
      await t.rejects(third.write(Buffer.alloc(1), 0), { code: 'UNAVAILABLE' })
      t.equal(third.failure, undefined, 'nothing was written: the extent has not failed')
      const again = third.write(Buffer.alloc(1), 0)
      await turns()
      ends.shift()?.()
      await again
    }
    await files.closeAll()
    t.equal(seen.open, 0)
  },
)

t.test('a file that fails to close keeps no other one open', async (t) => {
  const { disk, seen, ends } = heldDisk()
  let closed = 0
  let isLetGo = false
  const failing: Disk = {
    ...disk,
    async open(path, options) {
      const file = await disk.open(path, options)
      return {
        ...file,
        async close() {
          await file.close()
          if (closed++ === 0) throw Object.assign(new Error('EIO: close'), { code: 'EIO' })
        },
      }
    },
    close() {
      isLetGo = true
    },
  }
  const files = new ExtentFiles(failing, '/none', { openMax: 8 })
  const reads = [1, 2, 3].map((number) => sealed(number, files).read(Buffer.alloc(1), 0))
  await turns()
  for (const end of ends.splice(0)) end()
  await Promise.all(reads)
  await t.rejects(files.closeAll(), { code: 'EIO' })
  t.same([seen.open, closed, files.openCount, isLetGo], [0, 3, 0, true])
})
