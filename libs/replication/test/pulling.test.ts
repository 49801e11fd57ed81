/** Replication by pull: every race of the log, the marks and the deletions, in its order. */

import {
  BlobFault,
  type BlobInfo,
  type BlobName,
  copyKey,
  MemoryBlobStore,
  nameOfCopy,
  type StorageNode,
} from '@holdfast/blob-store'
import { get, put } from '@holdfast/blob-store/testing'
import { hex } from '@holdfast/kernel'
import t, { type Test } from 'tap'
import { Replicator } from '../src/index.ts'
import { sourcesOf } from '../src/replicator.ts'
import { group, type NodeSpec, Region, upload } from './region.ts'
import { VirtualTime } from './virtual-time.ts'

const quiet = { info: () => {}, warn: () => {} }
const all = { limit: 10_000 }

async function world(t: Test, specs: NodeSpec[], groups = [group(['a', 'b', 'c'])]) {
  const time = new VirtualTime()
  const region = await Region.open(
    specs.map((spec) => ({ ...spec, options: { clock: time, ...spec.options } })),
    groups,
  )
  const references = new Set<string>()
  const deletedAtSource: string[] = []
  const replicators = new Map<string, Replicator>()
  const replicator = (id: string) => {
    const known = replicators.get(id)
    if (known !== undefined) return known
    const made = new Replicator({
      node: region.nodes.get(id)!,
      peers: region,
      region: region.regionOf(id)!,
      referenced: async (blob) => references.has(copyKey(blob)),
      deletedAtSource: (blob) => void deletedAtSource.push(`${id} ${nameOfCopy(blob)}`),
      clock: time,
      timers: time,
      random: () => 0.5,
      log: quiet,
    })
    replicators.set(id, made)
    return made
  }
  t.teardown(async () => {
    for (const one of replicators.values()) await one.close()
    await region.close()
  })
  /** A restarted node: only its store survives. */
  const restart = async (id: string) => {
    await replicators.get(id)?.close()
    replicators.delete(id)
    await region.add({ id, region: region.regionOf(id)!, store: region.stores.get(id)! })
  }
  return { time, region, references, deletedAtSource, replicator, restart }
}

const three = [{ id: 'a' }, { id: 'b' }, { id: 'c' }]

t.test('what two nodes stored reaches the third, with the same description', async (t) => {
  const { region, replicator } = await world(t, three)
  const bytes = upload(100_000)
  const info = await put(region.frontend(), bytes)
  t.same(await region.holdersOf(info), ['a', 'b'])
  t.match(await replicator('c').round('a'), { compared: true, fetched: 1 })
  t.match(
    await replicator('c').round('b'),
    { compared: true, fetched: 0 },
    'a copy that is here is not fetched again',
  )
  t.same(await region.stores.get('c')?.stat(info), await region.stores.get('a')?.stat(info))
  t.ok(bytes.equals(await get(region.stores.get('c')!, info)))

  const later = await put(region.frontend(), upload())
  t.match(await replicator('c').round('a'), { compared: false, fetched: 1, behind: 0 })
  t.same(await region.holdersOf(later), ['a', 'b', 'c'])
})

t.test('an upload that is still open here, or was abandoned, delays only its own copy', async (t) => {
  const { region, replicator } = await world(t, three)
  const stuck = await put(region.frontend(), upload())
  const left = await region.stores.get('c')!.stage({
    uploadId: stuck.incarnation,
    placement: { group: stuck.placementGroup!, version: 1 },
  })
  const other = await put(region.frontend(), upload())
  t.match(await replicator('c').round('a'), { fetched: 1, owed: 1 })
  t.same(await region.holdersOf(other), ['a', 'b', 'c'])
  t.same(await region.holdersOf(stuck), ['a', 'b'])
  await left.abort()
  t.match(await replicator('c').round('a'), { fetched: 1, owed: 0 })
  t.same(await region.holdersOf(stuck), ['a', 'b', 'c'])
})

t.test('a node in the background catches up by itself, also after its source was away', async (t) => {
  const { region, replicator, time } = await world(t, three)
  replicator('c').start()
  const first = await put(region.frontend(), upload())
  await time.pass(2_000)
  t.ok((await region.holdersOf(first)).includes('c'))
  region.cut('a')
  const second = await put(region.frontend(), upload())
  await time.pass(20_000)
  t.same(await region.holdersOf(second), ['b', 'c'])
  region.heal('a')
  replicator('a').start()
  await time.pass(60_000)
  t.same(await region.holdersOf(second), ['a', 'b', 'c'])
  for (const { ms, owed } of await replicator('c').lag()) {
    t.ok(ms < 40_000)
    t.equal(owed, 0)
  }
})

t.test(
  'a mark is saved after what it covers: a crash between costs a repetition, never a copy',
  async (t) => {
    const { region, replicator, restart } = await world(t, three)
    await replicator('c').round('a')
    const info = await put(region.frontend(), upload())
    const store = region.stores.get('c')!
    const setNote = store.setNote.bind(store)
    store.setNote = async (name, value) => {
      t.ok(await store.stat(info), 'the copy is there when its mark is written')
      throw new BlobFault('IO', `crash while ${name} with ${value?.length} bytes was written`)
    }
    await t.rejects(replicator('c').round('a'), { code: 'IO' })
    store.setNote = setNote
    await store.delete(info) // pinned: nothing happens
    await restart('c')
    t.match(await replicator('c').round('a'), { compared: false, fetched: 0, behind: 0 })
    t.ok((await region.holdersOf(info)).includes('c'))
  },
)

t.test('marks survive a restart of the follower', async (t) => {
  const { region, replicator, restart } = await world(t, three)
  await put(region.frontend(), upload())
  await replicator('c').round('a')
  await restart('c')
  await put(region.frontend(), upload())
  t.match(await replicator('c').round('a'), { compared: false, fetched: 1 })
})

// ---- positions

t.test(
  'after an unclean start of the source its positions are of a new life, and the follower compares inventories',
  async (t) => {
    const { region, replicator } = await world(t, three)
    await put(region.frontend(), upload())
    await replicator('c').round('a')
    await put(region.frontend(), upload()) // not pulled yet
    region.stores.get('a')?.crash()
    const after = await put(region.frontend(), upload())
    t.match(await replicator('c').round('a'), { compared: true, fetched: 2 })
    t.ok((await region.holdersOf(after)).includes('c'))
  },
)

t.test(
  'planted: a source that issues positions twice is found, because copies are missing behind its own marks',
  async (t) => {
    const missing = async (plant: boolean) => {
      const options = plant ? { plant: { reusePositions: { lost: 1 } } } : {}
      const { region, replicator } = await world(t, [{ id: 'a', options }, { id: 'b', options }, { id: 'c' }])
      await replicator('c').round('a')
      await put(region.frontend(), upload())
      await replicator('c').round('a')
      region.stores.get('a')?.crash()
      const lost = await put(region.frontend(), upload())
      await replicator('c').round('a')
      return !(await region.holdersOf(lost)).includes('c')
    }
    t.equal(await missing(false), false)
    t.equal(await missing(true), true, 'the planted fault is found')
  },
)

t.test('a follower behind the end of the log compares inventories', async (t) => {
  const { region, replicator, time } = await world(t, three)
  await replicator('c').round('a')
  const old = await put(region.frontend(), upload())
  await time.pass(8 * 24 * 3_600_000)
  await put(region.frontend(), upload())
  t.match(await replicator('c').round('a'), { compared: true, fetched: 2 })
  t.ok((await region.holdersOf(old)).includes('c'))
})

// ---- deletions

t.test('a late deletion does not delete a copy that got its reference meanwhile', async (t) => {
  const { region, replicator, time, deletedAtSource } = await world(t, three)
  const bytes = upload()
  const info = await put(region.frontend(), bytes, { pinMs: 0 })
  await replicator('c').round('a')
  // One member's collector deletes it; an upload of the same content finds it at the two others and
  // refers to it.
  t.equal(await region.stores.get('a')?.delete(info), 'deleted')
  const again = await put(region.frontend(), bytes, { pinMs: 1_000 })
  await time.pass(3_600_000) // the pin ended long before
  await replicator('c').round('a')
  await replicator('b').round('a')
  t.same(again.incarnation, info.incarnation, 'c has it pinned as well as b')
  t.same(await region.holdersOf(again), ['b', 'c'])
  t.ok(
    deletedAtSource.includes(`c ${nameOfCopy(info)}`),
    'the collector hears of it, and reads the references itself',
  )
})

t.test('a deletion deletes only the incarnation it was written for', async (t) => {
  const { region, replicator } = await world(t, three)
  const bytes = upload()
  const first = await put(region.frontend(), bytes, { pinMs: 0 })
  await replicator('c').round('a')
  for (const id of ['a', 'b']) await region.stores.get(id)?.delete(first)
  const second = await put(region.frontend(), bytes)
  t.notSame(second.incarnation, first.incarnation)
  await replicator('c').round('a')
  await region.stores.get('c')?.delete(first)
  t.same(await region.holdersOf(second), ['a', 'b', 'c'])
})

t.test(
  'planted: tombstones that name the content alone are found, because they keep a new upload from its third copy',
  async (t) => {
    const { region, replicator } = await world(t, three)
    const careless = region.stores.get('c')!
    const deletedIds = new Set<string>()
    const { delete: remove } = careless
    careless.delete = async (blob) => {
      deletedIds.add(hex(blob.id))
      return remove.call(careless, blob)
    }
    careless.deletedMs = async (blob: BlobName) => (deletedIds.has(hex(blob.id)) ? 1 : undefined)
    const bytes = upload()
    const first = await put(region.frontend(), bytes, { pinMs: 0 })
    for (const id of ['a', 'b']) await region.stores.get(id)?.delete(first)
    await careless.delete(first)
    const second = await put(region.frontend(), bytes)
    await replicator('c').round('a')
    t.notOk((await region.holdersOf(second)).includes('c'), 'the planted fault is found')
  },
)

t.test(
  'a copy that was deleted here does not return from a node that lags, unless it is referenced',
  async (t) => {
    const { region, replicator, references } = await world(t, three)
    const gone = await put(region.frontend(), upload(), { pinMs: 0 })
    const kept = await put(region.frontend(), upload(), { pinMs: 0 })
    await replicator('c').round('a')
    region.stores.get('c')?.crash() // ends the pins that the fetch made
    for (const copy of [gone, kept]) t.equal(await region.stores.get('c')?.delete(copy), 'deleted')
    references.add(copyKey(kept))
    t.match(await replicator('c').round('b'), { compared: true, fetched: 1 })
    t.notOk((await region.holdersOf(gone)).includes('c'))
    t.ok((await region.holdersOf(kept)).includes('c'))
  },
)

t.test('an unverified node is no source', async (t) => {
  const { region, replicator } = await world(t, three)
  region.nodes.get('a')!.unverified = 'away for 9 days'
  await t.rejects(replicator('c').round('a'), { code: 'UNVERIFIED' })
  region.nodes.get('a')!.unverified = undefined
  await replicator('c').round('a')
})

t.test(
  'a copy that this node collected before others referred to theirs returns with the daily comparison',
  async (t) => {
    const { region, replicator, references, time } = await world(t, three)
    const bytes = upload()
    const info = await put(region.frontend(), bytes, { pinMs: 0 })
    await replicator('c').round('a')
    await replicator('a').round('b')
    await region.stores.get('a')?.delete(info)
    t.same((await put(region.frontend(), bytes)).incarnation, info.incarnation)
    references.add(copyKey(info))
    t.match(await replicator('a').round('b'), { compared: false })
    t.same(await region.holdersOf(info), ['b', 'c'])
    await time.pass(24 * 3_600_000)
    t.match(await replicator('a').round('b'), { compared: true, fetched: 1 })
    t.match(await replicator('a').round('b'), { compared: false })
    t.same(await region.holdersOf(info), ['a', 'b', 'c'])
  },
)

// ---- which nodes to follow, and for what

t.test('one member per region follows across regions, and the others get the copies from it', async (t) => {
  const far = group(['a', 'b'], { remote: ['x', 'y'] })
  const { region, replicator } = await world(
    t,
    [{ id: 'a' }, { id: 'b' }, { id: 'x', region: 'r2' }, { id: 'y', region: 'r2' }],
    [far],
  )
  const of = (self: string, r: string) => sourcesOf(far, { self, region: r, peers: region }).sort()
  t.same(of('x', 'r2'), ['a', 'b', 'y'])
  t.same(of('y', 'r2'), ['x'])
  t.same(of('b', 'r1'), ['a'])
  region.silent.add('x')
  t.same(of('y', 'r2'), ['a', 'b', 'x'], 'the next one takes over')
  region.silent.delete('x')
  const info = await put(region.frontend(), upload())
  await replicator('x').round('a')
  await replicator('y').round('x')
  t.same(await region.holdersOf(info), ['a', 'b', 'x', 'y'])
})

t.test('a newly shared group is compared, although the position is known', async (t) => {
  const one = group(['a', 'b', 'c'])
  const two = group(['a', 'b'], { number: 2 })
  const { region, replicator } = await world(t, three, [one, two])
  await replicator('c').round('a')
  const infos: BlobInfo[] = []
  for (let n = 0; n < 24; n++) infos.push(await put(region.frontend(), upload()))
  await replicator('c').round('a')
  const inTwo = infos.filter(({ placementGroup }) => placementGroup === 2)
  t.ok(inTwo.length > 0)
  for (const copy of inTwo) t.notOk((await region.holdersOf(copy)).includes('c'), 'of no concern so far')
  await region.publish({ ...two, version: 2, members: ['a', 'b', 'c'] })
  t.match(await replicator('c').round('a'), { compared: true, fetched: inTwo.length })
  for (const copy of infos) t.ok((await region.holdersOf(copy)).includes('c'))
  t.match(await replicator('c').round('a'), { compared: false, behind: 0 })
})

t.test(
  'wrong bytes of a source are not stored; another member gives them, or they are owed until one does',
  async (t) => {
    const { region, replicator } = await world(t, three)
    await replicator('c').round('a')
    const info = await put(region.frontend(), upload())
    const other = upload()
    const lie = (): Partial<StorageNode> => ({
      async *read() {
        yield other
      },
      readBatch: async (copies) => copies.map(() => other),
    })
    region.plant('a', lie)
    region.plant('b', lie)
    t.match(await replicator('c').round('a'), { fetched: 0, owed: 1 })
    t.same(await region.holdersOf(info), ['a', 'b'])
    const next = await put(region.frontend(), upload())
    region.heal('b')
    t.match(await replicator('c').round('a'), { owed: 2 }, 'the log continues behind what is owed')
    region.heal('a')
    t.match(await replicator('c').round('a'), { fetched: 2, owed: 0 })
    for (const copy of [info, next]) t.same(await region.holdersOf(copy), ['a', 'b', 'c'])
  },
)

t.test('small copies come in batches, and one by one where a batch lacks them', async (t) => {
  const { region, replicator } = await world(t, three)
  await replicator('c').round('a')
  const frontend = region.frontend()
  const sizes = [...Array.from({ length: 300 }, () => 100), ...Array.from({ length: 6 }, () => 250_000)]
  const copies: BlobInfo[] = []
  for (const size of [...sizes, 300_000]) copies.push(await put(frontend, upload(size)))
  const asked: number[] = []
  let reads = 0
  region.plant('a', (node) => ({
    readBatch: async (batch) => {
      asked.push(batch.length)
      const bytes = await node.readBatch(batch)
      return bytes.map((one, n) => (asked.length === 1 && n < 3 ? undefined : one))
    },
    read: (...args) => {
      reads++
      return node.read(...args)
    },
  }))
  t.match(await replicator('c').round('a'), { fetched: copies.length, owed: 0 })
  t.same(asked, [256, 48, 2], 'by number, and by bytes')
  t.equal(reads, 3 + 1, 'copies missing in a batch, and large ones')
  for (const copy of copies) t.same(await region.holdersOf(copy), ['a', 'b', 'c'])

  const more = [await put(frontend, upload()), await put(frontend, upload())]
  region.plant('a', () => ({ readBatch: () => Promise.reject(new BlobFault('UNAVAILABLE', 'planted')) }))
  t.match(await replicator('c').round('a'), { fetched: 2, owed: 0 })
  for (const copy of more) t.same(await region.holdersOf(copy), ['a', 'b', 'c'])
})

t.test('a full node stops following, loses nothing, and continues when there is room', async (t) => {
  const store = new MemoryBlobStore({ capacityBytes: 3_000 })
  const { region, replicator } = await world(t, [{ id: 'a' }, { id: 'b' }, { id: 'c', store }])
  await replicator('c').round('a')
  const info = await put(region.frontend(), upload(5_000))
  const ballast = await put(store, upload(2_000), { pinMs: 0 })
  await t.rejects(replicator('c').round('a'), { code: 'FULL' })
  await store.delete(ballast)
  await t.rejects(replicator('c').round('a'), { code: 'FULL' })
  t.match(
    await region.stores
      .get('a')
      ?.pull({ ...all, after: (await replicator('c').watermarks.of('a'))!.position }),
    {
      entries: [{ copy: { id: info.id } }],
    },
  )
})

t.test('a round without new entries advances a mark in memory, and writes nothing', async (t) => {
  const { region, replicator, time } = await world(t, three)
  const info = await put(region.frontend(), upload())
  const store = region.stores.get('c')!
  let notes = 0
  const setNote = store.setNote.bind(store)
  store.setNote = (name, note) => {
    notes++
    return setNote(name, note)
  }
  const c = replicator('c')
  await c.round('a')
  const first = await c.watermarks.of('a')
  t.equal(notes, 1)
  await time.pass(5_000)
  await c.round('a')
  t.equal((await c.watermarks.of('a'))!.coveredMs, first!.coveredMs + 5_000)
  t.equal(notes, 1)
  await time.pass(3_600_000) // the pin ended long before
  t.equal(await region.stores.get('a')!.delete(info), 'deleted')
  await c.round('a')
  t.equal(notes, 2, 'a deletion is a new entry')
})

t.test('a thousand viewers and pullers of one missing copy share one fetch', async (t) => {
  const { region } = await world(t, three)
  const info = await put(region.frontend(), upload())
  let reads = 0
  region.plant('a', (node) => ({
    read: (blob, range, options) => {
      reads++
      return node.read(blob, range, options)
    },
  }))
  const c = region.nodes.get('c')!
  await Promise.all(Array.from({ length: 1_000 }, () => c.fetch(info, ['a', 'b'], { pinMs: 0 })))
  t.equal(reads, 1)
})
