/**
 * What every blob store and every combinator over blob stores must pass. Each check takes a fresh
 * store and throws when the store breaks the contract. So the suite runs under any runner, and also
 * against broken stores to prove that it finds faults.
 */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { hex } from '@holdfast/kernel'
import { digestOf } from './blob-digest.ts'
import type { BlobInfo, BlobName, BlobStage, BlobStore } from './blob-store.ts'
import { md5Collision } from './md5-collision.ts'

export interface BlobStoreCheck {
  name: string
  /** True for checks that need a store that survives the process. */
  reopens?: true
  /** True for checks that need damaged bytes. */
  rots?: true
  run(store: BlobStore, tools?: BlobStoreTools): Promise<void>
}

export interface BlobStoreTools {
  /** Closes the store and opens its data again. */
  reopen?: (() => Promise<BlobStore>) | undefined
  /**
   * Flips a bit of every stored copy of this name, long after it was written.
   * @returns the store to continue with, which has not noticed.
   */
  rot?: ((blob: BlobInfo) => Promise<BlobStore>) | undefined
}

const pinned = { pinMs: 60_000 }
const unpinned = { pinMs: 0 }
const MiB = 1024 * 1024

export const blobStoreChecks: readonly BlobStoreCheck[] = [
  {
    name: 'an empty store holds nothing and says so',
    async run(store) {
      const usage = await store.usage()
      assert.equal(usage.blobs, 0)
      assert.equal(usage.liveBytes, 0)
      assert.equal(usage.stagedBytes, 0)
      assert.equal(usage.openStages, 0)
      assert.equal(usage.writable, true)
      assert.deepEqual(await all(store.inventory()), [])
    },
  },
  {
    name: 'blobs of every size around the limits come back exactly, with their digests',
    async run(store) {
      const sizes = [0, 1, 4095, 4096, 4097, 65_535, 65_536, 65_537, MiB - 1, MiB, MiB + 1, 3 * MiB + 777]
      const kept: { info: BlobInfo; bytes: Buffer }[] = []
      for (const size of sizes) {
        const bytes = randomBytes(size)
        const info = await put(store, bytes, { pieces: 40_000 })
        const digest = digestOf(bytes)
        assert.equal(Buffer.compare(info.id, digest.id), 0, `id of ${size} bytes`)
        assert.equal(info.size, size)
        assert.equal(info.crc32, digest.crc32, `crc32 of ${size} bytes`)
        assert.ok(Math.abs(info.createdMs - Date.now()) < 3_600_000 * 24 * 365 * 100)
        kept.push({ info, bytes })
      }
      for (const { info, bytes } of kept) {
        assert.ok(bytes.equals(await get(store, info)), `${info.size} bytes`)
        assert.deepEqual(plain(await store.stat(info)), plain(info))
      }
      const usage = await store.usage()
      assert.equal(usage.blobs, sizes.length)
      assert.equal(
        usage.liveBytes,
        sizes.reduce((sum, size) => sum + size, 0),
      )
      assert.equal((await all(store.inventory())).length, sizes.length)
    },
  },
  {
    name: 'the bytes are copied by write: the caller may reuse its buffer at once',
    async run(store) {
      const expected: Buffer[] = []
      const stage = await store.stage()
      const scratch = Buffer.alloc(50_000)
      for (let piece = 0; piece < 60; piece++) {
        scratch.fill(piece + 1)
        expected.push(Buffer.from(scratch))
        const room = stage.write(scratch)
        scratch.fill(0)
        await room
      }
      const info = await stage.commit(pinned)
      assert.ok(Buffer.concat(expected).equals(await get(store, info)))
    },
  },
  {
    name: 'one write may be larger than any buffer of the store',
    async run(store) {
      const bytes = randomBytes(9 * MiB + 123)
      const info = await put(store, bytes, { pieces: bytes.length })
      assert.ok(bytes.equals(await get(store, info)))
    },
  },
  {
    name: 'ranges give exactly their bytes, at every edge',
    async run(store) {
      const bytes = randomBytes(2 * MiB + 5000)
      const big = await put(store, bytes)
      const small = await put(store, bytes.subarray(0, 3000))
      const edges = [
        0,
        1,
        4096,
        65_535,
        65_536,
        65_537,
        131_072,
        MiB - 1,
        MiB,
        MiB + 1,
        2 * MiB,
        bytes.length,
      ]
      for (const start of edges)
        for (const end of edges.filter((edge) => edge >= start))
          assert.ok(bytes.subarray(start, end).equals(await get(store, big, start, end)), `${start}..${end}`)
      for (const [start, end] of [
        [0, 3000],
        [1, 2],
        [2999, 3000],
        [3000, 3000],
        [0, 0],
      ] as const)
        assert.ok(bytes.subarray(start, end).equals(await get(store, small, start, end)), `${start}..${end}`)
      for (const [start, end] of [
        [0, 3001],
        [-1, 5],
        [7, 3],
      ] as const)
        await assert.rejects(get(store, small, start, end), RangeError)
    },
  },
  {
    name: 'a reader that ends early, and one that is aborted, leave the store as it was',
    async run(store) {
      const bytes = randomBytes(4 * MiB)
      const info = await put(store, bytes, unpinned)
      for (let round = 0; round < 30; round++) {
        for await (const _ of store.read(info, { start: 0, end: info.size })) break
        const abort = new AbortController()
        const reading = (async () => {
          for await (const _ of store.read(info, { start: 0, end: info.size }, { signal: abort.signal }))
            abort.abort()
        })()
        await assert.rejects(reading, { code: 'CANCELLED' })
      }
      const early = get(store, info, 0, info.size, AbortSignal.abort())
      await assert.rejects(early, { code: 'CANCELLED' })
      assert.ok(bytes.equals(await get(store, info)))
    },
  },
  {
    name: 'what is not here is NOT_FOUND for readers, undefined for stat, false for pin, and deleted for delete',
    async run(store) {
      const info = await put(store, Buffer.from('here'))
      const unknowns: BlobName[] = [
        { ...info, id: randomBytes(48) },
        { ...info, incarnation: randomBytes(16) },
      ]
      for (const unknown of unknowns) {
        assert.equal(await store.stat(unknown), undefined)
        assert.equal(await store.pin(unknown, { ttlMs: 1000 }), false)
        assert.equal(await store.delete(unknown), 'deleted')
        await assert.rejects(get(store, unknown, 0, 1), { code: 'NOT_FOUND' })
        await assert.rejects(get(store, unknown, 0, 0), { code: 'NOT_FOUND' })
      }
      assert.equal((await get(store, info)).toString(), 'here')
    },
  },
  {
    name: 'identical content is one copy, which the second commit pins',
    async run(store) {
      for (const bytes of [randomBytes(1000), randomBytes(2 * MiB), Buffer.alloc(0)]) {
        const before = await store.usage()
        const first = await put(store, bytes, unpinned)
        const second = await put(store, bytes, pinned)
        assert.deepEqual(plain(second), plain(first))
        const usage = await store.usage()
        assert.equal(usage.blobs, before.blobs + 1)
        assert.equal(usage.liveBytes, before.liveBytes + bytes.length)
        assert.equal(usage.stagedBytes, 0)
        assert.equal(await store.delete(first), 'pinned')
        assert.ok(bytes.equals(await get(store, first)))
      }
    },
  },
  {
    name: 'many concurrent uploads of the same and of different content all come back right',
    async run(store) {
      const contents = Array.from({ length: 6 }, (_, n) =>
        randomBytes(n % 2 === 0 ? 900 + n : MiB + n * 77_777),
      )
      const uploads = Array.from({ length: 30 }, (_, n) => contents[n % contents.length] as Buffer)
      const infos = await Promise.all(uploads.map((bytes) => put(store, bytes)))
      for (const [n, stored] of infos.entries()) assert.ok(uploads[n]?.equals(await get(store, stored)))
      const usage = await store.usage()
      assert.equal(usage.blobs, contents.length)
      assert.equal(
        usage.liveBytes,
        contents.reduce((sum, { length }) => sum + length, 0),
      )
      assert.equal(usage.openStages, 0)
      assert.equal(usage.stagedBytes, 0)
    },
  },
  {
    name: 'two contents with one md5 are two blobs, both intact',
    async run(store) {
      const [left, right] = md5Collision()
      const one = await put(store, left)
      const other = await put(store, right)
      assert.equal(Buffer.compare(one.id.subarray(0, 16), other.id.subarray(0, 16)), 0)
      assert.notEqual(Buffer.compare(one.id, other.id), 0)
      assert.ok(left.equals(await get(store, one)))
      assert.ok(right.equals(await get(store, other)))
      const tail = randomBytes(MiB) // equal tails keep an md5 collision
      const bigOne = await put(store, Buffer.concat([left, tail]))
      const bigOther = await put(store, Buffer.concat([right, tail]))
      assert.equal(Buffer.compare(bigOne.id.subarray(0, 16), bigOther.id.subarray(0, 16)), 0)
      assert.ok(left.equals(await get(store, bigOne, 0, 128)))
      assert.ok(right.equals(await get(store, bigOther, 0, 128)))
      assert.equal((await store.usage()).blobs, 4)
    },
  },
  {
    name: 'an abort leaves nothing, before and after commit, also when repeated',
    async run(store) {
      for (const size of [0, 10, 100_000, 3 * MiB]) {
        const stage = await store.stage({ expectedBytes: size })
        await write(stage, randomBytes(size), 64 * 1024)
        await stage.abort()
        await stage.abort()
        await assert.rejects(stage.commit(pinned), { name: 'BlobFault' })
        assert.throws(() => stage.write(Buffer.from('late')), { name: 'BlobFault' })
      }
      const usage = await store.usage()
      assert.equal(usage.openStages, 0)
      assert.equal(usage.stagedBytes, 0)
      assert.equal(usage.blobs, 0)
      assert.deepEqual(await all(store.inventory()), [])

      const stage = await store.stage()
      await stage.write(Buffer.from('kept'))
      const info = await stage.commit(pinned)
      await stage.abort()
      assert.equal((await get(store, info)).toString(), 'kept')
    },
  },
  {
    name: 'a repeated commit has one effect and one answer',
    async run(store) {
      const stage = await store.stage()
      await write(stage, randomBytes(200_000), 64 * 1024)
      const [one, two] = await Promise.all([stage.commit(pinned), stage.commit(pinned)])
      assert.deepEqual(plain(one), plain(two))
      assert.equal(Buffer.compare(one.incarnation, stage.uploadId), 0)
      assert.equal((await store.usage()).blobs, 1)
    },
  },
  {
    name: 'stages are counted while they are open',
    async run(store) {
      const stage = await store.stage()
      await write(stage, randomBytes(300_000), 64 * 1024)
      const usage = await store.usage()
      assert.equal(usage.openStages, 1)
      assert.equal(usage.stagedBytes, 300_000)
      assert.equal(usage.blobs, 0)
      assert.equal(usage.liveBytes, 0)
      await stage.commit(pinned)
      const after = await store.usage()
      assert.equal(after.openStages, 0)
      assert.equal(after.stagedBytes, 0)
      assert.equal(after.liveBytes, 300_000)
    },
  },
  {
    name: 'a pin prevents deletion, the longest wins, and an unpinned copy is deleted permanently',
    async run(store) {
      for (const size of [500, MiB + 5]) {
        const bytes = randomBytes(size)
        const info = await put(store, bytes, unpinned)
        assert.equal(await store.pin(info, { ttlMs: 60_000 }), true)
        assert.equal(await store.pin(info, { ttlMs: 0 }), true)
        assert.equal(await store.delete(info), 'pinned')
        assert.ok(bytes.equals(await get(store, info)))

        const loose = await put(store, randomBytes(size), unpinned)
        assert.equal(await store.delete(loose), 'deleted')
        assert.equal(await store.stat(loose), undefined)
        assert.equal(await store.pin(loose, { ttlMs: 1000 }), false)
        await assert.rejects(get(store, loose, 0, 1), { code: 'NOT_FOUND' })
        assert.equal(await store.delete(loose), 'deleted')
      }
      const usage = await store.usage()
      assert.equal(usage.blobs, 2)
      assert.equal(usage.liveBytes, 500 + MiB + 5)
    },
  },
  {
    name: 'content uploaded again after its deletion is a new copy that an old deletion cannot kill',
    async run(store) {
      for (const size of [700, MiB + 9]) {
        const bytes = randomBytes(size)
        const first = await put(store, bytes, unpinned)
        assert.equal(await store.delete(first), 'deleted')
        const second = await put(store, bytes, unpinned)
        assert.equal(Buffer.compare(first.id, second.id), 0)
        assert.notEqual(Buffer.compare(first.incarnation, second.incarnation), 0)
        assert.equal(await store.delete(first), 'deleted')
        assert.ok(bytes.equals(await get(store, second)))
      }
    },
  },
  {
    name: 'an upload of the same content races a deletion: the copy that commit returned can be read',
    async run(store) {
      for (let round = 0; round < 25; round++) {
        const bytes = randomBytes(round % 2 === 0 ? 300 : 70_000)
        const old = await put(store, bytes, unpinned)
        const stage = await store.stage()
        await write(stage, bytes, 64 * 1024)
        const order = [() => stage.commit(pinned), () => store.delete(old)] as const
        const [info] = await (round % 4 < 2
          ? Promise.all([order[0](), order[1]()])
          : Promise.all([order[1](), order[0]()]).then(([gone, info]) => [info, gone] as const))
        assert.ok(bytes.equals(await get(store, info)))
        assert.equal(await store.delete(info), 'pinned')
      }
    },
  },
  {
    name: 'a reader that has begun gets the whole blob although it is deleted meanwhile, or a clear fault',
    async run(store) {
      const bytes = randomBytes(3 * MiB)
      const info = await put(store, bytes, unpinned)
      const parts: Buffer[] = []
      let gone = false
      try {
        for await (const chunk of store.read(info, { start: 0, end: info.size })) {
          parts.push(Buffer.from(chunk))
          if (!gone) assert.equal(await store.delete(info), 'deleted')
          gone = true
        }
        assert.ok(bytes.equals(Buffer.concat(parts)))
      } catch (error) {
        if (!(error instanceof Error && error.name === 'BlobFault')) throw error
        const got = Buffer.concat(parts)
        assert.ok(bytes.subarray(0, got.length).equals(got))
      }
    },
  },
  {
    name: 'an aborted signal refuses a stage',
    async run(store) {
      await assert.rejects(store.stage({ signal: AbortSignal.abort() }), { code: 'CANCELLED' })
      assert.equal((await store.usage()).openStages, 0)
    },
  },
  {
    name: 'after close everything is refused as CLOSED and open stages are gone',
    async run(store) {
      const info = await put(store, Buffer.from('x'))
      const stage = await store.stage()
      await stage.write(Buffer.from('y'))
      await store.close()
      await assert.rejects(async () => store.stat(info), { code: 'CLOSED' })
      await assert.rejects(async () => store.stage(), { code: 'CLOSED' })
      await assert.rejects(async () => store.delete(info), { code: 'CLOSED' })
      await assert.rejects(get(store, info, 0, 1), { code: 'CLOSED' })
      await assert.rejects(async () => stage.commit(pinned), { name: 'BlobFault' })
    },
  },
  {
    name: 'after reopening, what was committed is there, what was deleted or staged is not',
    reopens: true,
    async run(store, { reopen } = {}) {
      assert.ok(reopen)
      const small = randomBytes(5000)
      const big = randomBytes(2 * MiB + 1)
      const info = [await put(store, small), await put(store, big)] as const
      const gone = [await put(store, randomBytes(80), unpinned), await put(store, randomBytes(MiB), unpinned)]
      for (const copy of gone) assert.equal(await store.delete(copy), 'deleted')
      const staged = await store.stage()
      await write(staged, randomBytes(500_000), 64 * 1024)
      const again = await reopen()
      assert.ok(small.equals(await get(again, info[0])))
      assert.ok(big.equals(await get(again, info[1])))
      for (const copy of gone) assert.equal(await again.stat(copy), undefined)
      const usage = await again.usage()
      assert.equal(usage.blobs, 2)
      assert.equal(usage.liveBytes, small.length + big.length)
      assert.equal(usage.stagedBytes, 0)
      assert.equal((await put(again, small)).createdMs, info[0].createdMs)
    },
  },
  {
    name: 'an upload of content whose copy has rotted is whole, and so is the copy again',
    rots: true,
    async run(store, { rot } = {}) {
      assert.ok(rot)
      let now = store
      for (const size of [300, 5000, 65_536, 70_000, 3 * MiB + 777]) {
        const bytes = randomBytes(size)
        const first = await put(now, bytes)
        now = await rot(first)
        const second = await put(now, bytes)
        assert.ok(bytes.equals(await get(now, second)), `${size} bytes, the upload`)
        await eventually(async () =>
          assert.ok(bytes.equals(await get(now, first)), `${size} bytes, the first copy`),
        )
        assert.equal((await now.stat(first))?.damaged, undefined)
        assert.equal(await now.delete(second), 'pinned')
      }
    },
  },
  {
    name: 'an upload of content whose copy is known to be damaged repairs it',
    rots: true,
    async run(store, { rot } = {}) {
      assert.ok(rot)
      let now = store
      for (const size of [5000, MiB + 777]) {
        const bytes = randomBytes(size)
        const first = await put(now, bytes)
        now = await rot(first)
        await assert.rejects(get(now, first), { name: 'BlobFault' })
        const second = await put(now, bytes)
        assert.ok(bytes.equals(await get(now, second)), `${size} bytes, the upload`)
      }
    },
  },
]

export interface BlobStoreContract<T> {
  /** The runner's way to declare a test, such as tap's `t.test`. */
  test(name: string, body: (t: T) => Promise<void>): unknown
  /** A fresh, empty store. */
  open(t: T): Promise<BlobStore>
  /**
   * Closes the store and opens its data again; omit it for stores that do not survive the process.
   */
  reopen?(t: T, store: BlobStore): Promise<BlobStore>
  /** As `BlobStoreTools.rot`; omit it where bytes cannot be damaged. */
  rot?(t: T, store: BlobStore, blob: BlobInfo): Promise<BlobStore>
  /** Called after each check that passed, for runners that count assertions. */
  passed?(t: T, name: string): void
}

/** Declares one test for each check. The stores are closed at the end of their test. */
export function blobStoreContract<T>({ test, open, reopen, rot, passed }: BlobStoreContract<T>): void {
  const runs = ({ reopens, rots }: BlobStoreCheck) =>
    (!reopens || reopen !== undefined) && (!rots || rot !== undefined)
  for (const check of blobStoreChecks.filter(runs))
    test(check.name, async (t) => {
      let store = await open(t)
      const tools = {
        reopen:
          reopen &&
          (async () => {
            store = await reopen(t, store)
            return store
          }),
        rot:
          rot &&
          (async (blob: BlobInfo) => {
            store = await rot(t, store, blob)
            return store
          }),
      }
      try {
        await check.run(store, tools)
        passed?.(t, check.name)
      } finally {
        await store.close()
      }
    })
}

/** Waits until it holds, at most 10 s: some stores do it after the answer. */
async function eventually(holds: () => Promise<void>): Promise<void> {
  for (const endMs = performance.now() + 10_000; ; ) {
    try {
      return await holds()
    } catch (error) {
      if (performance.now() > endMs) throw error
      await delay(10)
    }
  }
}

/** Stages and commits these bytes in pieces of 64 KiB, or of the given size. */
export async function put(
  store: BlobStore,
  bytes: Uint8Array,
  options: { pinMs?: number; pieces?: number } = {},
): Promise<BlobInfo> {
  const stage = await store.stage({ expectedBytes: bytes.length })
  await write(stage, bytes, options.pieces ?? 64 * 1024)
  return stage.commit({ pinMs: options.pinMs ?? 60_000 })
}

/** The bytes of a range, or of the whole blob. */
export async function get(
  store: BlobStore,
  blob: BlobName,
  start = 0,
  end?: number,
  signal?: AbortSignal,
): Promise<Buffer> {
  const until = end ?? (await store.stat(blob))?.size ?? 0
  const parts: Buffer[] = []
  for await (const chunk of store.read(blob, { start, end: until }, signal && { signal }))
    parts.push(Buffer.from(chunk))
  return Buffer.concat(parts)
}

async function write(stage: BlobStage, bytes: Uint8Array, pieces: number): Promise<void> {
  for (let at = 0; at < bytes.length; at += Math.max(1, pieces))
    await stage.write(bytes.subarray(at, at + pieces))
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = []
  for await (const item of items) list.push(item)
  return list
}

function plain(info: BlobInfo | undefined) {
  return (
    info && {
      ...info,
      id: hex(info.id),
      incarnation: hex(info.incarnation),
    }
  )
}
