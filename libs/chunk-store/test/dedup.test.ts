/**
 * Uploads of existing content: what is read of the old copy, how often, and what happens to a
 * damaged one.
 */
import type { BlobInfo } from '@holdfast/blob-store'
import { get, put } from '@holdfast/blob-store/testing'
import t from 'tap'
import type { ChunkStore } from '../src/index.ts'
import { openOn } from './support/crash-history.ts'
import { CrashMachine, seeded } from './support/crash-machine.ts'

const MiB = 1024 * 1024
const large = 2 * MiB + 777

function randomContent(size: number): Buffer {
  const random = seeded(size)
  const bytes = Buffer.alloc(size)
  for (let at = 0; at + 4 <= size; at += 4) bytes.writeUInt32LE(Math.floor(random() * 2 ** 32), at)
  return bytes
}

/** A store over a machine that counts reads past the cache, which only verifying does. */
async function opened(t: { teardown: (end: () => Promise<void>) => void }) {
  const machine = new CrashMachine(seeded(7))
  const store = await openOn(machine)
  t.teardown(() => store.close())
  const reads = { count: 0, error: undefined as Error | undefined }
  machine.fault = (operation) => {
    if (operation !== 'read') return
    reads.count++
    if (reads.error !== undefined) throw reads.error
  }
  return { machine, store, reads }
}

function rot(machine: CrashMachine, bytes: Buffer): void {
  for (const path of machine.paths().filter((path) => path.endsWith('.extent'))) {
    const file = machine.file(path)
    const at = file.indexOf(bytes.subarray(0, 5000))
    if (at >= 0) file[at + 700] = (file[at + 700] as number) ^ 4
  }
}

const named = ({ id, incarnation }: BlobInfo) => ({ id, incarnation })

t.test('content that is uploaded again is read once for all uploads at a time', async (t) => {
  const { machine, store, reads } = await opened(t)
  for (const [size, records] of [
    [10_000, 1],
    [large, 3],
  ] as const) {
    const bytes = randomContent(size)
    const first = await put(store, bytes)
    reads.count = 0
    for (let n = 1; n <= 3; n++) {
      machine.events++
      t.same(named(await put(store, bytes)), named(first))
      t.equal(reads.count, n * records)
    }
    reads.count = 0
    machine.events++
    const stages = await Promise.all(Array.from({ length: 4 }, () => store.stage()))
    for (const stage of stages) {
      await stage.write(bytes)
      await stage.seal()
    }
    await Promise.all(stages.map((stage) => stage.commit({ pinMs: 0 })))
    t.equal(reads.count, records, 'four uploads that end at one time read it once')
  }
})

t.test('a damaged copy is replaced under its name, counted and logged, and leaves one copy', async (t) => {
  for (const size of [10_000, large]) {
    const { machine, store } = await opened(t)
    const bytes = randomContent(size)
    const first = await put(store, bytes)
    rot(machine, bytes)
    machine.events++
    const uploads = await Promise.all([put(store, bytes), put(store, bytes)])
    for (const info of uploads) t.same(named(info), named(first))
    t.ok(bytes.equals(await get(store, first)))
    t.match(store.counters(), { damagedBlobs: 0, replacedBlobs: 1 })
    t.match(await store.usage(), { blobs: 1, liveBytes: size, openStages: 0, stagedBytes: 0 })
    t.equal(await store.delete(first), 'pinned')
  }
})

t.test('an upload replaces a copy that was checked, and rotted later while the upload ran', async (t) => {
  for (const size of [10_000, large]) {
    const { machine, store } = await opened(t)
    const bytes = randomContent(size)
    const first = await put(store, bytes)
    const slow = await store.stage()
    await slow.write(bytes.subarray(0, 5000))
    machine.events++
    t.same(named(await put(store, bytes)), named(first), 'it was checked after the slow upload began')
    rot(machine, bytes)
    machine.events++
    await slow.write(bytes.subarray(5000))
    t.same(named(await slow.commit({ pinMs: 0 })), named(first))
    t.ok(bytes.equals(await get(store, first)))
    t.match(store.counters(), { damagedBlobs: 0, replacedBlobs: 1 })
  }
})

const readErrors = [
  { code: 'EIO' },
  { code: 'ENODATA', errno: -61 },
  { errno: -117 },
  { code: 'EACCES', path: '/store/extents/00000000.extent' },
  { code: 'EISDIR' },
]
for (const details of readErrors)
  t.test(
    `a copy on a sector or in a file that cannot be read is replaced: ${JSON.stringify(details)}`,
    async (t) => {
      const { machine, store } = await opened(t)
      const bytes = randomContent(large)
      const first = await put(store, bytes)
      machine.events++
      let left = 1
      machine.fault = (operation) => {
        if (operation === 'read' && left-- > 0) throw Object.assign(new Error('no sector'), details)
      }
      t.same(named(await put(store, bytes)), named(first))
      t.ok(bytes.equals(await get(store, first)))
      t.match(store.counters(), { damagedBlobs: 0, replacedBlobs: 1 })
    },
  )

t.test('when a copy cannot be checked for another reason, the upload is a separate copy', async (t) => {
  const { machine, store, reads } = await opened(t)
  const bytes = randomContent(10_000)
  const first = await put(store, bytes)
  machine.events++
  reads.error = Object.assign(new Error('EMFILE'), { code: 'EMFILE' })
  const second = await put(store, bytes)
  t.notSame(second.incarnation, first.incarnation)
  reads.error = undefined
  for (const info of [first, second]) t.ok(bytes.equals(await get(store, info)))
  t.match(store.counters(), { damagedBlobs: 0, replacedBlobs: 0 })
})

const shortages = [
  ...['EMFILE', 'ENFILE', 'ENOMEM'].map((code) => Object.assign(new Error(code), { code })),
  new RangeError('Array buffer allocation failed'),
]
for (const shortage of shortages)
  t.test(`a temporary read error is no damage: ${shortage.message}`, async (t) => {
    const { store, reads } = await opened(t)
    const bytes = randomContent(10_000)
    const info = await put(store, bytes)
    const verify = async () => {
      for await (const _ of store.verify(info));
    }
    reads.error = shortage
    await t.rejects(verify(), { code: 'UNAVAILABLE' })
    reads.error = Object.assign(new Error('EIO'), { code: 'EIO' })
    await t.rejects(verify(), { code: 'IO' })
    t.match(store.counters(), { damagedBlobs: 0, damagedReads: 0 })
    reads.error = undefined
    await verify()
  })

t.test('when a damaged copy cannot be replaced, the upload is a separate copy', async (t) => {
  const { machine, store } = await opened(t)
  const bytes = randomContent(large)
  const first = await put(store, bytes)
  rot(machine, bytes)
  machine.events++
  // Another upload under that name is open: the name is taken.
  const blocking = await store.stage({ uploadId: first.incarnation })
  const second = await put(store, bytes)
  t.notSame(second.incarnation, first.incarnation)
  t.ok(bytes.equals(await get(store, second)))
  t.equal(store.counters().damagedBlobs, 1)
  await blocking.abort()
})

t.test('verifying reads the disk: correct bytes in the page cache hide nothing', async (t) => {
  const machine = new CrashMachine(seeded(7))
  const cached = new Map<string, Buffer>()
  const { disk } = machine
  const { open } = disk
  // Reads that may come from the cache do.
  disk.open = async (path, options) => {
    const file = await open(path, options)
    const { read } = file
    file.read = async (into, position) => {
      const from = cached.get(path)?.subarray(position, position + into.length)
      if (from === undefined) return read(into, position)
      into.set(from)
      return from.length
    }
    return file
  }
  Object.defineProperty(machine, 'disk', { value: disk })
  const store = await openOn(machine)
  t.teardown(() => store.close())
  for (const size of [10_000, large]) {
    const bytes = randomContent(size)
    const info = await put(store, bytes)
    for (const path of machine.paths()) cached.set(path, Buffer.from(machine.file(path)))
    rot(machine, bytes)
    t.ok(bytes.equals(await get(store, info)), 'readers do not notice')
    const verified = async () => {
      for await (const _ of store.verify(info));
    }
    await t.rejects(verified(), { code: 'CORRUPT' }, `${size} bytes`)
    cached.clear()
  }
})

t.test('damaged copies are counted until they are replaced or deleted, also after a start', async (t) => {
  const machine = new CrashMachine(seeded(7))
  let store: ChunkStore = await openOn(machine)
  const contents = [randomContent(10_000), randomContent(11_000), randomContent(large)]
  const copies: BlobInfo[] = []
  for (const bytes of contents) copies.push(await put(store, bytes, { pinMs: 0 }))
  for (const bytes of contents) rot(machine, bytes)
  for (const info of copies)
    await t.rejects(
      async () => {
        for await (const _ of store.verify(info));
      },
      { code: 'CORRUPT' },
    )
  t.equal(store.counters().damagedBlobs, 3)
  await store.close()
  store = await openOn(machine)
  for await (const _ of store.inventory());
  t.equal(store.counters().damagedBlobs, 3)
  await put(store, contents[0] as Buffer)
  t.equal(store.counters().damagedBlobs, 2)
  await store.delete(copies[1] as BlobInfo)
  t.equal(store.counters().damagedBlobs, 1)
  await store.close()
})

t.test('verifying follows a copy that is moved meanwhile, and does not block compaction', async (t) => {
  const { store } = await opened(t)
  const dead: BlobInfo[] = []
  for (let n = 0; n < 5; n++) dead.push(await put(store, randomContent(MiB - n), { pinMs: 0 }))
  const bytes = randomContent(large)
  const info = await put(store, bytes)
  for (let n = 5; n < 9; n++) dead.push(await put(store, randomContent(MiB - n), { pinMs: 0 }))
  let read = 0
  for await (const count of store.verify(info)) {
    read += count
    for (const gone of dead.splice(0)) await store.delete(gone)
    await store.compact()
  }
  t.ok(read >= large)
  t.ok(store.counters().compactedBytes > 0, 'it was moved')
  t.ok(bytes.equals(await get(store, info)))
})
