/**
 * What a store must do beyond `BlobStore` to be a node's store (`NodeStore`): uploads with a given
 * id, sealing, groups, the replication log, notes. Runs under any runner, as the blob store suite
 * does.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { hex } from '@holdfast/kernel'
import { digestOf } from './blob-digest.ts'
import type { BlobInfo } from './blob-store.ts'
import { get } from './contract-suite.ts'
import {
  batchBytesMax,
  batchCopiesMax,
  type LogEntry,
  type LogPosition,
  type NodeStore,
  type PlacedCommit,
  smallBlobBytesMax,
} from './placed-blob-store.ts'

export interface NodeStoreCheck {
  name: string
  /** True for checks that need a store that survives the process. */
  reopens?: true
  /** True for checks that need damaged bytes. */
  rots?: true
  run(
    store: NodeStore,
    reopen?: (how: 'closed' | 'killed') => Promise<NodeStore>,
    /** As `BlobStoreTools.rot`. */
    rot?: (blob: BlobInfo) => Promise<NodeStore>,
  ): Promise<void>
}

const MiB = 1024 * 1024
/** Packed with others, and alone. */
const sizes = [700, MiB + 13]
const smallSizes = [0, 700, 70_000, smallBlobBytesMax]

export const nodeStoreChecks: readonly NodeStoreCheck[] = [
  {
    name: 'an upload has the id, the group and the time it was given',
    async run(store) {
      for (const size of sizes) {
        const uploadId = randomBytes(16)
        const bytes = randomBytes(size)
        const info = await place(store, bytes, { uploadId, group: 5, createdMs: 12_345 })
        assert.deepEqual(plain(info), {
          ...plainContent(bytes),
          incarnation: hex(uploadId),
          createdMs: 12_345,
          placementGroup: 5,
          damaged: undefined,
        })
        assert.deepEqual(plain(await store.stat(info)), plain(info))
        assert.deepEqual(plain(await store.committed(uploadId)), plain(info))
        assert.deepEqual((await store.find(info.id)).map(plain), [plain(info)])
      }
      assert.equal(await store.committed(randomBytes(16)), undefined)
      assert.deepEqual(await store.find(randomBytes(48)), [])
    },
  },
  {
    name: 'a sealed upload reports what it holds, accepts no more bytes, and is not yet a blob',
    async run(store) {
      for (const size of [0, ...sizes]) {
        const bytes = randomBytes(size)
        const stage = await store.stage()
        await stage.write(bytes)
        const sealed = await stage.seal()
        assert.deepEqual(plain(sealed), plainContent(bytes))
        assert.deepEqual(await stage.seal(), sealed)
        assert.throws(() => stage.write(Buffer.from('more')), { name: 'BlobFault' })
        assert.deepEqual(await store.find(sealed.id), [])
        await stage.abort()
        assert.deepEqual(await store.find(sealed.id), [])
      }
      const usage = await store.usage()
      assert.deepEqual([usage.blobs, usage.openStages, usage.stagedBytes], [0, 0, 0])
    },
  },
  {
    name: 'an upload that must be its own copy is one, beside another copy of the same content',
    async run(store) {
      for (const size of sizes) {
        const bytes = randomBytes(size)
        const one = await place(store, bytes, { pinMs: 0 })
        const other = await place(store, bytes, {})
        assert.notDeepEqual(one.incarnation, other.incarnation)
        assert.equal((await store.find(one.id)).length, 2)
        assert.equal(await store.delete(one), 'deleted')
        assert.deepEqual((await store.find(one.id)).map(plain), [plain(other)])
        assert.equal((await store.committed(other.incarnation))?.size, size)
        assert.equal(await store.committed(one.incarnation), undefined)
      }
    },
  },
  {
    name: 'an upload that was dropped for a known copy answers with that copy when it is asked for again',
    async run(store) {
      const bytes = randomBytes(700)
      const known = await place(store, bytes, {})
      const stage = await store.stage()
      await stage.write(bytes)
      assert.deepEqual(plain(await stage.commit({ pinMs: 1000 })), plain(known))
      assert.deepEqual(plain(await store.committed(stage.uploadId)), plain(known))
    },
  },
  {
    name: 'a known copy of another group does not cause an upload to be dropped',
    async run(store) {
      for (const size of sizes) {
        const bytes = randomBytes(size)
        const five = await place(store, bytes, { group: 5 })
        const six = await place(store, bytes, { group: 6, asNew: false })
        assert.deepEqual([six.placementGroup, (await store.find(five.id)).length], [6, 2])
        assert.deepEqual(plain(await place(store, bytes, { group: 5, asNew: false })), plain(five))
        assert.deepEqual(plain(await place(store, bytes, { group: 6, asNew: false })), plain(six))
      }
    },
  },
  {
    name: 'of several known copies the one with the lowest incarnation is used',
    async run(store) {
      for (const size of sizes) {
        const bytes = randomBytes(size)
        const copies: BlobInfo[] = []
        for (let n = 0; n < 5; n++) copies.push(await place(store, bytes, { group: 5 }))
        const [lowest] = copies.map(({ incarnation }) => hex(incarnation)).sort()
        const info = await place(store, bytes, { group: 5, asNew: false })
        assert.equal(hex(info.incarnation), lowest)
      }
    },
  },
  {
    name: 'a small blob is stored in one step, and pinned',
    async run(store) {
      for (const size of smallSizes) {
        const bytes = randomBytes(size)
        const uploadId = randomBytes(16)
        const info = await putOne(store, bytes, { uploadId, createdMs: 12_345 })
        const expected = {
          ...plainContent(bytes),
          incarnation: hex(uploadId),
          createdMs: 12_345,
          placementGroup: 5,
          damaged: undefined,
        }
        assert.deepEqual(plain(info), expected)
        assert.deepEqual(plain(await store.stat(info)), expected)
        assert.deepEqual(plain(await store.committed(uploadId)), expected)
        assert.ok(bytes.equals(await get(store, info)))
        assert.equal(await store.delete(info), 'pinned')
      }
      assert.equal((await store.usage()).openStages, 0)
    },
  },
  {
    name: 'a known small blob is pinned instead of stored, unless it must be its own copy',
    async run(store) {
      for (const size of smallSizes) {
        const bytes = randomBytes(size)
        const known = await place(store, bytes, { group: 5, pinMs: 0 })
        const again = { uploadId: randomBytes(16) }
        for (let n = 0; n < 2; n++)
          assert.deepEqual(plain(await putOne(store, bytes, again)), plain(known), 'repeated, too')
        assert.equal(await store.delete(known), 'pinned')
        const own = await putOne(store, bytes, { ...again, asNew: true })
        assert.deepEqual(own.incarnation, again.uploadId)
        assert.deepEqual(plain(await putOne(store, bytes, { ...again, asNew: true })), plain(own))
        assert.equal((await store.find(known.id)).length, 2)
      }
    },
  },
  {
    name: 'small bytes that do not match the name, and too many, leave nothing',
    async run(store) {
      const [bytes, others] = [randomBytes(700), randomBytes(700)]
      const { id } = digestOf(bytes)
      const options = { uploadId: randomBytes(16), placement: { group: 5, version: 1 }, pinMs: 0 }
      await assert.rejects(store.put({ id, bytes: others }, options), { code: 'CORRUPT' })
      const large = randomBytes(smallBlobBytesMax + 1)
      await assert.rejects(store.put({ id: digestOf(large).id, bytes: large }, options), { code: 'INVALID' })
      const usage = await store.usage()
      assert.deepEqual([usage.blobs, usage.openStages, usage.stagedBytes], [0, 0, 0])
      assert.equal((await putOne(store, bytes, options)).size, 700)
    },
  },
  {
    name: 'a damaged copy is replaced by a small blob of the same content, under its name',
    rots: true,
    async run(store, _, rot) {
      assert.ok(rot)
      let now = store
      for (const size of smallSizes.filter((size) => size > 0)) {
        const bytes = randomBytes(size)
        const info = await place(now, bytes, { group: 5, pinMs: 0 })
        now = await rot(info)
        await assert.rejects(all(now.verify(info)), { code: 'CORRUPT' })
        assert.deepEqual(plain(await putOne(now, bytes, {})), plain(info))
        for await (const _ of now.verify(info));
      }
    },
  },
  {
    name: 'a copy that is sent a second time under its id stays unchanged',
    async run(store) {
      for (const size of sizes) {
        const bytes = randomBytes(size)
        const uploadId = randomBytes(16)
        const first = await place(store, bytes, { uploadId, createdMs: 7 })
        const second = await place(store, bytes, { uploadId, createdMs: 8 })
        assert.deepEqual(plain(second), plain(first))
      }
      assert.equal((await store.usage()).blobs, sizes.length)
    },
  },
  {
    name: 'inventories are by group',
    async run(store) {
      const five = await place(store, randomBytes(10), { group: 5 })
      await place(store, randomBytes(10), { group: 6 })
      assert.deepEqual((await all(store.inventory({ groups: [5] }))).map(plain), [plain(five)])
      assert.equal((await all(store.inventory({ groups: [5, 6] }))).length, 2)
      assert.equal((await all(store.inventory())).length, 2)
      assert.deepEqual(await all(store.inventory({ groups: [7] })), [])
    },
  },
  {
    name: 'an inventory is in the order of the ids',
    async run(store) {
      for (let n = 0; n < 20; n++) await place(store, randomBytes(30), {})
      const ids = (await all(store.inventory())).map(({ id }) => hex(id))
      assert.deepEqual(ids, [...ids].sort())
      assert.equal(ids.length, 20)
    },
  },
  {
    name: 'a whole copy is verified to its last byte and can be pinned as whole',
    async run(store) {
      for (const size of [0, ...sizes]) {
        const info = await place(store, randomBytes(size), { pinMs: 0 })
        let bytes = 0
        for await (const step of store.verify(info)) bytes += step
        assert.ok(bytes >= size, `${bytes} of ${size} bytes`)
        assert.equal(await store.pin(info, { ttlMs: 60_000, whole: true }), true)
        assert.equal(await store.delete(info), 'pinned')
      }
      const unknown = { id: randomBytes(48), incarnation: randomBytes(16), placementGroup: undefined }
      assert.equal(await store.pin(unknown, { ttlMs: 60_000, whole: true }), false)
      await assert.rejects(all(store.verify(unknown)), { code: 'NOT_FOUND' })
    },
  },
  {
    name: 'verifying finds a damaged copy, which is not pinned as whole, and is kept',
    rots: true,
    async run(store, _, rot) {
      assert.ok(rot)
      let now = store
      for (const size of sizes) {
        const info = await place(now, randomBytes(size), { pinMs: 0 })
        now = await rot(info)
        assert.equal((await now.stat(info))?.damaged, undefined, 'not yet noticed')
        await assert.rejects(all(now.verify(info)), { code: 'CORRUPT' })
        assert.equal((await now.stat(info))?.damaged, true)
        assert.deepEqual(await now.find(info.id), [])
        const other = await place(now, randomBytes(size), { pinMs: 0 })
        now = await rot(other)
        assert.equal(await now.pin(other, { ttlMs: 60_000, whole: true }), false)
        assert.equal((await now.stat(other))?.damaged, true)
        assert.equal(await now.pin(other, { ttlMs: 60_000 }), true, 'it is the last copy')
      }
    },
  },
  {
    name: 'a damaged copy that is sent again under its id is whole again, in its group and with its time',
    rots: true,
    async run(store, _, rot) {
      assert.ok(rot)
      let now = store
      for (const size of sizes) {
        const bytes = randomBytes(size)
        const info = await place(now, bytes, { group: 5, createdMs: 7 })
        now = await rot(info)
        await assert.rejects(all(now.verify(info)), { code: 'CORRUPT' })
        const start = await begin(now)
        await place(now, bytes, { uploadId: info.incarnation, group: 5, createdMs: 7 })
        assert.deepEqual(plain(await now.stat(info)), plain(info))
        for await (const _ of now.verify(info));
        assert.deepEqual((await follow(now, start)).entries, [])
      }
    },
  },
  {
    name: 'the log lists changes in order, from any of its positions and for any groups',
    async run(store) {
      const start = await begin(store)
      const one = await place(store, randomBytes(700), { group: 5, pinMs: 0 })
      const two = await place(store, randomBytes(MiB + 13), { group: 6 })
      assert.equal(await store.delete(one), 'deleted')
      assert.equal(await store.delete(one), 'deleted')
      const three = await place(store, randomBytes(700), { group: 5 })
      const { entries, through } = await follow(store, start)
      assert.deepEqual(entries.map(plainEntry), [
        ['committed', plain(one)],
        ['committed', plain(two)],
        ['deleted', { ...name(one), placementGroup: 5 }],
        ['committed', plain(three)],
      ])
      for (let n = 1; n < entries.length; n++)
        assert.ok((entries[n]?.sequence as number) > (entries[n - 1]?.sequence as number))
      const second = { store: through.store, sequence: entries[1]?.sequence as number }
      assert.deepEqual(
        (await follow(store, second)).entries.map(plainEntry),
        entries.slice(2).map(plainEntry),
      )
      const six = await follow(store, start, { groups: [6] })
      assert.deepEqual(six.entries.map(plainEntry), [['committed', plain(two)]])
      assert.deepEqual(six.through, through, 'an omitted entry is behind one, too')
      const small = await follow(store, start, { limit: 1 })
      assert.deepEqual(small.entries.map(plainEntry), entries.map(plainEntry))
      assert.deepEqual((await follow(store, through)).entries, [])
    },
  },
  {
    name: 'small copies are read in one batch, whole or not at all',
    async run(store) {
      assert.deepEqual(await store.readBatch([]), [])
      const contents = [...smallSizes.map((size) => randomBytes(size)), randomBytes(40)]
      const copies: BlobInfo[] = []
      for (const bytes of contents) copies.push(await place(store, bytes, { group: 5 }))
      const [first, ...others] = copies as [BlobInfo, ...BlobInfo[]]
      const unknown = { ...first, id: randomBytes(48), size: 10 }
      const longer = { ...(others[0] as BlobInfo), size: 701 }
      const read = await store.readBatch([first, unknown, longer, ...others])
      assert.deepEqual([read[1], read[2]], [undefined, undefined])
      const found = [read[0], ...read.slice(3)]
      for (const [n, bytes] of contents.entries()) assert.ok(bytes.equals(found[n] as Uint8Array))

      const large = copies.find(({ size }) => size === smallBlobBytesMax) as BlobInfo
      const count = batchBytesMax / smallBlobBytesMax
      const many = await store.readBatch(Array.from({ length: count + 1 }, () => large))
      assert.deepEqual(
        many.map((bytes) => bytes?.length),
        [...Array.from({ length: count }, () => smallBlobBytesMax), undefined],
        'as many as fit',
      )
      const tooLarge = { ...first, size: smallBlobBytesMax + 1 }
      await assert.rejects(store.readBatch([tooLarge]), { code: 'INVALID' })
      const tooMany = Array.from({ length: batchCopiesMax + 1 }, () => first)
      await assert.rejects(store.readBatch(tooMany), { code: 'INVALID' })
    },
  },
  {
    name: 'a damaged copy is not in a batch',
    rots: true,
    async run(store, _, rot) {
      assert.ok(rot)
      const whole = await place(store, randomBytes(700), {})
      const rotten = await place(store, randomBytes(700), {})
      const now = await rot(rotten)
      const read = await now.readBatch([rotten, whole])
      assert.deepEqual([read[0], read[1]?.length], [undefined, 700])
    },
  },
  {
    name: 'dedup, pins, aborts and repeated copies leave no trace in the log',
    async run(store) {
      const bytes = randomBytes(700)
      const info = await place(store, bytes, { group: 5 })
      const start = await begin(store)
      await place(store, bytes, { group: 5, asNew: false })
      await putOne(store, bytes, {})
      await place(store, bytes, { uploadId: info.incarnation })
      await store.pin(info, { ttlMs: 60_000 })
      assert.equal(await store.delete(info), 'pinned')
      const aborted = await store.stage()
      await aborted.write(bytes)
      await aborted.abort()
      assert.deepEqual((await follow(store, start)).entries, [])
    },
  },
  {
    name: 'positions of another life, and of the future, are unknown',
    async run(store) {
      const start = await begin(store)
      await place(store, randomBytes(10), {})
      for (const after of [
        undefined,
        { store: randomBytes(16), sequence: 0 },
        { ...start, sequence: start.sequence + 1_000_000 },
      ]) {
        const pulled = await store.pull({ after, limit: 10 })
        assert.equal(pulled.kind, 'unknown position')
      }
      for (const limit of [0, 10_001]) await assert.rejects(store.pull({ after: start, limit }))
    },
  },
  {
    name: 'an acknowledged change is in the next page of the log',
    async run(store) {
      const start = await begin(store)
      const uploads = Array.from({ length: 40 }, (_, n) => randomBytes(n % 4 === 0 ? 70_000 : 300 + n))
      const seen = async (info: BlobInfo) => {
        const { entries } = await follow(store, start)
        assert.ok(entries.some(({ copy }) => Buffer.compare(copy.incarnation, info.incarnation) === 0))
      }
      await Promise.all(uploads.map(async (bytes) => seen(await place(store, bytes, {}))))
      assert.equal((await follow(store, start)).entries.length, uploads.length)
    },
  },
  {
    name: 'a deletion is remembered for its incarnation alone, until that copy is sent again',
    async run(store) {
      for (const size of sizes) {
        const bytes = randomBytes(size)
        const first = await place(store, bytes, { pinMs: 0 })
        assert.equal(await store.deletedMs(first), undefined)
        await store.delete(first)
        assert.equal(typeof (await store.deletedMs(first)), 'number')
        const second = await place(store, bytes, {})
        assert.equal(await store.deletedMs(second), undefined)
        await place(store, bytes, { uploadId: first.incarnation })
        assert.equal(await store.deletedMs(first), undefined)
        assert.equal((await store.find(first.id)).length, 2)
      }
    },
  },
  {
    name: 'notes are kept, replaced and removed',
    async run(store) {
      assert.equal(await store.note('one'), undefined)
      await store.setNote('one', Buffer.from('1'))
      await store.setNote('two', randomBytes(60_000))
      await store.setNote('one', Buffer.from('uno'))
      assert.equal(Buffer.from((await store.note('one')) ?? []).toString(), 'uno')
      assert.equal((await store.note('two'))?.length, 60_000)
      await store.setNote('one', undefined)
      assert.equal(await store.note('one'), undefined)
    },
  },
  {
    name: 'after a clean shutdown the log continues where it was, with notes, groups and tombstones',
    reopens: true,
    async run(store, reopen) {
      assert.ok(reopen)
      const start = await begin(store)
      const kept = await place(store, randomBytes(MiB + 13), { group: 5 })
      const gone = await place(store, randomBytes(700), { group: 5, pinMs: 0 })
      await store.delete(gone)
      await store.setNote('mark', Buffer.from('kept'))
      const before = await follow(store, start)
      const again = await reopen('closed')
      const small = await place(again, randomBytes(700), { group: 6 })
      const { entries } = await follow(again, start)
      assert.deepEqual(entries.map(plainEntry), [
        ...before.entries.map(plainEntry),
        ['committed', plain(small)],
      ])
      assert.deepEqual(plain(await again.stat(kept)), plain(kept))
      assert.deepEqual(plain(await again.committed(kept.incarnation)), plain(kept))
      assert.equal(typeof (await again.deletedMs(gone)), 'number')
      assert.equal(Buffer.from((await again.note('mark')) ?? []).toString(), 'kept')
    },
  },
  {
    name: 'after an unclean shutdown positions are of a new life, and everything acknowledged is there with its group',
    reopens: true,
    async run(store, reopen) {
      assert.ok(reopen)
      const start = await begin(store)
      const kept = [
        await place(store, randomBytes(MiB + 13), { group: 5 }),
        await place(store, randomBytes(700), { group: 6 }),
      ]
      await store.setNote('mark', Buffer.from('kept'))
      const again = await reopen('killed')
      assert.equal((await again.pull({ after: start, limit: 10 })).kind, 'unknown position')
      for (const info of kept) {
        assert.deepEqual(plain(await again.stat(info)), plain(info))
        assert.deepEqual(plain(await again.committed(info.incarnation)), plain(info))
      }
      assert.equal(Buffer.from((await again.note('mark')) ?? []).toString(), 'kept')
      const now = await begin(again)
      const next = await place(again, randomBytes(10), {})
      assert.deepEqual((await follow(again, now)).entries.map(plainEntry), [['committed', plain(next)]])
    },
  },
]

export interface NodeStoreContract<T> {
  test(name: string, body: (t: T) => Promise<void>): unknown
  /** A fresh, empty store. */
  open(t: T): Promise<NodeStore>
  /**
   * Closes the store, or drops it as a killed process would, and opens its data again; omit it for
   * stores that do not survive the process.
   */
  reopen?(t: T, store: NodeStore, how: 'closed' | 'killed'): Promise<NodeStore>
  /** As `BlobStoreTools.rot`; omit it where bytes cannot be damaged. */
  rot?(t: T, store: NodeStore, blob: BlobInfo): Promise<NodeStore>
  /** Called after each check that passed, for runners that count assertions. */
  passed?(t: T, name: string): void
}

/** Declares one test for each check. The stores are closed at the end of their test. */
export function nodeStoreContract<T>({ test, open, reopen, rot, passed }: NodeStoreContract<T>): void {
  const runs = ({ reopens, rots }: NodeStoreCheck) =>
    (!reopens || reopen !== undefined) && (!rots || rot !== undefined)
  for (const check of nodeStoreChecks.filter(runs))
    test(check.name, async (t) => {
      let store = await open(t)
      const again = async (how: 'closed' | 'killed') => {
        store = await (reopen as NonNullable<typeof reopen>)(t, store, how)
        return store
      }
      const rotting = async (blob: BlobInfo) => {
        store = await (rot as NonNullable<typeof rot>)(t, store, blob)
        return store
      }
      try {
        await check.run(store, again, rotting)
        passed?.(t, check.name)
      } finally {
        await store.close()
      }
    })
}

/** Uploads as replication does: as its own copy unless the options say otherwise. */
async function place(
  store: NodeStore,
  bytes: Uint8Array,
  options: { uploadId?: Uint8Array; group?: number } & Partial<PlacedCommit>,
): Promise<BlobInfo> {
  const { uploadId, group, pinMs = 60_000, asNew = true, createdMs } = options
  const stage = await store.stage({
    ...(uploadId === undefined ? {} : { uploadId }),
    ...(group === undefined ? {} : { placement: { group, version: 1 } }),
  })
  for (let at = 0; at < bytes.length; at += 64 * 1024) await stage.write(bytes.subarray(at, at + 64 * 1024))
  return stage.commit({ pinMs, asNew, ...(createdMs === undefined ? {} : { createdMs }) })
}

function putOne(
  store: NodeStore,
  bytes: Uint8Array,
  options: { uploadId?: Uint8Array } & Partial<PlacedCommit>,
): Promise<BlobInfo> {
  const { uploadId = randomBytes(16), pinMs = 60_000, ...commit } = options
  const placement = { group: 5, version: 1 }
  return store.put({ id: digestOf(bytes).id, bytes }, { placement, ...commit, uploadId, pinMs })
}

async function begin(store: NodeStore): Promise<LogPosition> {
  const pulled = await store.pull({ limit: 1 })
  assert.ok(pulled.kind === 'unknown position', 'without a position the log answers as for an unknown one')
  return pulled.now
}

async function follow(
  store: NodeStore,
  after: LogPosition,
  { limit = 1000, groups }: { limit?: number; groups?: number[] } = {},
): Promise<{ entries: LogEntry[]; through: LogPosition }> {
  const entries: LogEntry[] = []
  for (let through = after; ; ) {
    const pulled = await store.pull({ after: through, limit, ...(groups === undefined ? {} : { groups }) })
    assert.ok(pulled.kind === 'entries', 'the position is known')
    entries.push(...pulled.entries)
    through = pulled.through
    if (pulled.behind === 0) return { entries, through }
  }
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = []
  for await (const item of items) list.push(item)
  return list
}

function plainEntry(entry: LogEntry): [string, unknown] {
  return [entry.kind, plain(entry.copy)]
}

function name({ id, incarnation }: BlobInfo) {
  return { id: hex(id), incarnation: hex(incarnation) }
}

function plainContent(bytes: Uint8Array) {
  const { id, crc32 } = digestOf(bytes)
  return { id: hex(id), size: bytes.length, crc32 }
}

/** Bytes as hex; a store without groups may leave group 0 out. */
function plain(fields: object | undefined): Record<string, unknown> | undefined {
  if (fields === undefined) return undefined
  const entries = Object.entries(fields).filter(([key, value]) => !(key === 'placementGroup' && value === 0))
  return Object.fromEntries(
    entries.map(([key, value]) => [key, value instanceof Uint8Array ? hex(value) : value]),
  )
}
