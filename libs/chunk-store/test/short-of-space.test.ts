/** Compaction on a nearly full disk, and the reuse of emptied extents. */

import { randomBytes } from 'node:crypto'
import type { BlobInfo } from '@holdfast/blob-store'
import { get, put } from '@holdfast/blob-store/testing'
import t from 'tap'
import type { Catalogue } from '../src/catalogue/catalogue.ts'
import type { Disk } from '../src/disk/disk.ts'
import { NodeDisk } from '../src/disk/node-disk.ts'
import { InlineHashing } from '../src/hashing/hashing.ts'
import { ChunkStore, type ChunkStoreOptions } from '../src/index.ts'
import { testChunkStore } from '../src/testing.ts'
import { crashOptions } from './support/crash-history.ts'
import { CrashMachine, type DiskState, seeded } from './support/crash-machine.ts'

const MiB = 1024 * 1024
/** Slightly above the mark, so that uploads will soon be refused. */
const nearlyFull = 1.2 * MiB

function machineOn(state?: DiskState): CrashMachine {
  return new CrashMachine(seeded(7), state)
}

interface Replacements {
  disk?: Disk
  catalogue?: Catalogue
}

function openWith(
  machine: CrashMachine,
  options: Partial<ChunkStoreOptions> = {},
  { disk = machine.disk, catalogue = machine.catalogue }: Replacements = {},
): Promise<ChunkStore> {
  return ChunkStore.open(
    { ...crashOptions, ...options },
    {
      disk,
      catalogue: async () => catalogue,
      hashing: (memory) => new InlineHashing(memory),
      background: false,
    },
  )
}

/** Blobs of 1.2 MiB: three are an extent. */
async function fill(store: ChunkStore, blobs: number, size = 1.2 * MiB): Promise<BlobInfo[]> {
  const made: BlobInfo[] = []
  for (let n = 0; n < blobs; n++) made.push(await put(store, randomBytes(size), { pinMs: 0 }))
  return made
}

async function drop(store: ChunkStore, blobs: readonly BlobInfo[]): Promise<void> {
  for (const info of blobs) await store.delete(info)
}

t.test('an emptied extent that uploads reused while another one was removed stays', async (t) => {
  const machine = machineOn()
  let meanwhile: (() => Promise<void>) | undefined
  const { disk } = machine
  const watched: Disk = {
    ...disk,
    async remove(path) {
      const first = meanwhile
      meanwhile = undefined
      await first?.()
      return disk.remove(path)
    },
  }
  const store = await openWith(machine, { freeExtentsMax: 2 }, { disk: watched })
  const blobs = await fill(store, 18)
  await drop(store, blobs.slice(0, 15)) // five extents
  const more = new Map<BlobInfo, Buffer>()
  meanwhile = async () => {
    // The current one and the two that are kept are filled, and another one is begun.
    for (let n = 0; n < 12; n++) {
      const bytes = randomBytes(1.2 * MiB)
      more.set(await put(store, bytes, { pinMs: 0 }), bytes)
    }
  }
  await store.compact()
  t.equal(more.size, 12)
  for (const [info, bytes] of more) t.ok(bytes.equals(await get(store, info)), 'what was acknowledged')
  await store.close()
})

t.test('an emptied extent that is being reused is not removed', async (t) => {
  const machine = machineOn()
  const store = await openWith(machine)
  const blobs = await fill(store, 12)
  await drop(store, blobs.slice(3, 6))
  await store.compact() // 1 is free and kept
  await drop(store, blobs.slice(0, 3))
  const begun = Promise.withResolvers<void>()
  const go = Promise.withResolvers<void>()
  machine.hold = (operation, path) => {
    if (operation !== 'sync' || !path.endsWith('/00000001.extent')) return undefined
    begun.resolve()
    return go.promise
  }
  const bytes = randomBytes(3 * MiB)
  const upload = put(store, bytes, { pinMs: 0 })
  await begun.promise
  let compacted = false
  const compacting = store.compact().then(() => {
    compacted = true
  })
  // As far as it gets while that sync hangs.
  for (let turns = 0; turns < 300 && !compacted; turns++) await new Promise(setImmediate)
  go.resolve()
  await compacting
  t.ok(bytes.equals(await get(store, await upload)))
  t.ok(machine.paths().includes('/store/extents/00000001.extent'))
  await store.close()
})

t.test('a catalogue that fails while an extent is examined costs a line in the log', async (t) => {
  const machine = machineOn()
  const before = await openWith(machine)
  const small = await fill(before, 160, 16_000)
  await fill(before, 2)
  await drop(before, small.slice(0, 100))
  await before.close()
  const again = machineOn(machine.now())
  let left = Number.POSITIVE_INFINITY
  const { catalogue } = again
  const failing: Catalogue = {
    ...catalogue,
    async get(keys) {
      await new Promise(setImmediate)
      if (left-- <= 0) throw new Error('block checksum mismatch')
      return catalogue.get(keys)
    },
  }
  const lines: string[] = []
  const log = { info() {}, error() {}, warn: (_: object, line: string) => lines.push(line) }
  const store = await openWith(again, { log }, { catalogue: failing })
  again.freeBytes = nearlyFull
  left = 1 // the first one is awaited at once
  const { freedBytes } = await store.compact()
  // No unawaited work is left.
  for (let turns = 0; turns < 50; turns++) await new Promise(setImmediate)
  t.match(lines, ['dead records were not freed'])
  t.equal(freedBytes, 0)
  left = Number.POSITIVE_INFINITY
  await store.close()
})

/**
 * An extent of three blobs of which the first is deleted; the row that says what the upload of the
 * second became is missing: it looks dead.
 */
async function misleading() {
  const machine = machineOn()
  const first = await openWith(machine)
  const [gone, kept, other] = (await fill(first, 3)) as [BlobInfo, BlobInfo, BlobInfo]
  await fill(first, 1)
  await first.delete(gone)
  await first.close()
  const state = machine.now()
  state.rows.delete(`u${Buffer.from(kept.incarnation).toString('latin1')}`)
  const again = machineOn(state)
  const { disk } = again
  let before: () => unknown = () => {}
  const watched: Disk = {
    ...disk,
    async open(path, options) {
      const file = await disk.open(path, options)
      const readUncached: typeof file.readUncached = async (into, position) => {
        if (path.endsWith('/00000000.extent')) await before()
        return file.readUncached(into, position)
      }
      return { ...file, readUncached }
    },
  }
  const store = await openWith(again, {}, { disk: watched })
  let reads = 0
  const onRead = (act: (nth: number) => unknown = () => {}) => {
    reads = 0
    before = () => act(++reads)
  }
  return { machine: again, store, kept, other, onRead, reads: () => reads }
}

t.test('nothing is freed in an extent with less live data than expected, and it is read once', async (t) => {
  const { machine, store, kept, other, onRead, reads } = await misleading()
  machine.freeBytes = 2.6 * MiB // so that nothing is moved
  onRead()
  await store.compact()
  t.ok(reads() > 0)
  onRead()
  await store.compact()
  t.equal(reads(), 0)
  for (const info of [kept, other]) t.equal((await get(store, info)).length, info.size)
  await store.close()
})

t.test('a deletion while an extent is examined does not hide that something was not found', async (t) => {
  for (let when = 1; when <= 12; when++) {
    const { machine, store, kept, other, onRead } = await misleading()
    machine.freeBytes = nearlyFull
    onRead((nth) => (nth === when ? store.delete(other) : undefined))
    await store.compact()
    onRead()
    await store.compact()
    t.equal((await get(store, kept)).length, kept.size, `deleted at read ${when}`)
    await store.close()
  }
})

t.test('small blobs move once, packed, and then there is nothing to move', async (t) => {
  const machine = machineOn()
  const store = await openWith(machine, { extentBytes: 8 * MiB })
  const blobs: BlobInfo[] = []
  for (let n = 0; n < 60; n++)
    blobs.push(
      ...(await Promise.all(Array.from({ length: 200 }, () => put(store, randomBytes(300), { pinMs: 0 })))),
    )
  await drop(
    store,
    blobs.filter((_, n) => n % 5 === 0),
  )
  const { liveBytes } = await store.usage()
  machine.freeBytes = nearlyFull + 4 * MiB
  const first = store.counters().groups
  let moved = 0
  for (let passes = 0; passes < 4; passes++) moved += (await store.compact()).movedBytes
  t.ok(moved <= 1.2 * liveBytes, `${moved} of ${liveBytes} bytes moved`)
  const { groups, deadBytes } = store.counters()
  t.ok(groups - first < 40, `in ${groups - first} group records`)
  t.ok(deadBytes < liveBytes, `${deadBytes} bytes are dead`)
  t.equal((await store.compact()).movedBytes, 0)
  await store.close()
})

t.test(
  'ineffective holes are noticed, and no more are made; emptied extents still return everything',
  async (t) => {
    const disk = new NodeDisk()
    let freeBytes = 1e12
    let removed = 0
    let holes = 0
    /** Holes take blocks from files and return none to the disk. */
    const keeping: Disk = {
      makeDirectory: (path) => disk.makeDirectory(path),
      list: (path) => disk.list(path),
      syncDirectory: (path) => disk.syncDirectory(path),
      allocatedBytes: (path) => disk.allocatedBytes(path),
      space: async () => ({ freeBytes: freeBytes + removed * 64 * MiB, totalBytes: 1e12 }),
      remove(path) {
        if (path.endsWith('.extent')) removed++
        return disk.remove(path)
      },
      async open(path, options) {
        const file = await disk.open(path, options)
        const discard = file.discard.bind(file)
        file.discard = (range, how) => {
          holes++
          return discard(range, how)
        }
        return file
      },
    }
    const lines: string[] = []
    const log = { info() {}, error() {}, warn: (_: object, line: string) => lines.push(line) }
    const bounds = {
      extentBytes: 64 * MiB,
      extentStepBytes: 64 * MiB,
      lowWaterBytes: 8 * MiB,
      ballastBytes: 0,
      freeExtentsMax: 0,
    }
    const store = await ChunkStore.open(
      { ...testChunkStore, path: t.testdir(), hashThreadsMax: 1, log, ...bounds },
      { disk: keeping, background: false },
    )
    try {
      const kept: BlobInfo[] = []
      for (let extent = 0; extent < 4; extent++) {
        const blobs = await fill(store, 15, 4 * MiB)
        kept.push(...blobs.filter((_, n) => n % 2 === 0))
        await drop(
          store,
          blobs.filter((_, n) => n % 2 === 1),
        )
      }
      freeBytes = MiB
      await store.compact()
      t.ok(holes > 0, 'it was tried')
      t.match(lines, ['holes in files free no space on this file system: none are made any more'])
      const tried = holes
      await drop(store, kept.splice(0, 2))
      await store.compact()
      t.equal(holes, tried, 'once for all')
      await drop(store, kept.splice(0, 7))
      await store.compact()
      t.ok(removed > 0)
      for (const blobInfo of kept) t.equal((await get(store, blobInfo)).length, 4 * MiB)
    } finally {
      await store.close()
    }
  },
)

t.test('extents that are longer than new ones are read, emptied and not kept', async (t) => {
  const machine = machineOn()
  const before = await openWith(machine, { extentBytes: 16 * MiB })
  const blobs = await fill(before, 20, MiB)
  await before.close()
  const again = machineOn(machine.now())
  const store = await openWith(again, { freeExtentsMax: 2 })
  const more = await fill(store, 7, MiB)
  await drop(store, blobs.slice(0, -1))
  await store.compact()
  for (const info of [...blobs.slice(-1), ...more]) t.equal((await get(store, info)).length, MiB)
  t.ok((await store.usage()).diskBytes < 20 * MiB, 'the long ones are gone')
  await store.close()
  const last = await openWith(machineOn(again.now()))
  for (const info of [...blobs.slice(-1), ...more]) t.equal((await get(last, info)).length, MiB)
  await last.close()
})

t.test('on a small disk dead records become holes while there is room for some extents still', async (t) => {
  const disk = new NodeDisk()
  disk.space = async () => ({ freeBytes: 300 * MiB, totalBytes: 1024 * MiB })
  const store = await ChunkStore.open(
    { ...testChunkStore, path: t.testdir(), hashThreadsMax: 1 },
    { disk, background: false },
  )
  try {
    const blobs = await fill(store, 60, MiB)
    await drop(
      store,
      blobs.filter((_, n) => n % 5 < 2),
    )
    const before = (await store.usage()).diskBytes
    await store.compact()
    t.ok((await store.usage()).diskBytes < before - 12 * MiB, 'large concurrent uploads need it')
    for (const info of blobs.filter((_, n) => n % 5 >= 2)) t.equal((await get(store, info)).length, MiB)
  } finally {
    await store.close()
  }
})
