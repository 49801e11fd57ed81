/**
 * Keeping copies: scrub, read-through, draining, lost nodes, collecting, absence, and the content
 * of `servers`.
 */
import assert from 'node:assert/strict'
import {
  BlobFault,
  type BlobInfo,
  type BlobName,
  Collector,
  copyKey,
  Scrubber,
  type ScrubberTuning,
} from '@holdfast/blob-store'
import { get, plainCollector, plainScrubber, put } from '@holdfast/blob-store/testing'
import fc from 'fast-check'
import t from 'tap'
import {
  Holders,
  leaveGroup,
  type PlacementGroup,
  planGroups,
  ReadThroughStore,
  RejoinCheck,
  Replicator,
  repairSources,
} from '../src/index.ts'
import { plainReplicator } from '../src/testing.ts'
import { group, Region, upload } from './region.ts'
import { VirtualTime } from './virtual-time.ts'

const quiet = { info: () => {}, warn: () => {}, error: () => {} }
const three = [{ id: 'a' }, { id: 'b' }, { id: 'c' }]

function scrubberOf(region: Region, id: string, more: ScrubberTuning = {}) {
  const node = region.nodes.get(id)!
  const sources = { self: id, region: 'r1', groups: region.rows, peers: region }
  return new Scrubber(
    {
      ...plainScrubber,
      store: node.store,
      repair: (copy) => node.fetch(copy, repairSources(copy, sources), { pinMs: 0 }),
      clock: new VirtualTime(),
      bytesPerSecond: 1e12,
      log: quiet,
    },
    more,
  )
}

// ---- scrub

t.test('a damaged copy is found, and replaced by a verified one under its name', async (t) => {
  const region = await Region.open(three, [group(['a', 'b'])])
  const bytes = upload(70_000)
  const info = await put(region.frontend(), bytes)
  region.stores.get('a')?.rot(info)
  t.match(await scrubberOf(region, 'a').pass(), { copies: 1, damaged: 1, repaired: 1 })
  t.ok(bytes.equals(await get(region.stores.get('a')!, info)))
  t.same(await region.stores.get('a')?.stat(info), await region.stores.get('b')?.stat(info))
  t.match(await scrubberOf(region, 'a').pass(), { copies: 1, damaged: 0 })
})

t.test('the last copy is kept although it is damaged; a lying holder replaces nothing', async (t) => {
  const region = await Region.open(three, [group(['a', 'b'])])
  const info = await put(region.frontend(), upload())
  region.stores.get('a')?.rot(info)
  for (const spoil of [
    () => region.cut('b'),
    () =>
      region.plant('b', () => ({
        async *read() {
          yield upload(1000)
        },
      })),
    () => region.stores.get('b')?.rot(info),
  ]) {
    region.heal('b')
    spoil()
    t.match(await scrubberOf(region, 'a').pass(), { damaged: 1, repaired: 0 })
    t.match(await region.stores.get('a')?.stat(info), { damaged: true }, 'still here')
    await t.rejects(get(region.stores.get('a')!, info), { code: 'CORRUPT' }, 'and answered with an error')
  }
})

t.test('a controller that returns garbage stops the scrub instead of quarantining everything', async (t) => {
  const region = await Region.open(three, [group(['a', 'b'])])
  for (let n = 0; n < 20; n++) region.stores.get('a')?.rot(await put(region.frontend(), upload()))
  const scrubber = scrubberOf(region, 'a', { damagedPerHourMax: 5 })
  t.match(await scrubber.pass(), { damaged: 6, repaired: 5 })
  t.match(scrubber.suspect, /6 copies/)
  t.match(await scrubber.pass(), { copies: 0 })
  scrubber.trust()
  t.match(await scrubber.pass(), { damaged: 7 }, 'the one that was known, and as many new ones as before')
})

t.test('a read error is not damage', async (t) => {
  const region = await Region.open(three, [group(['a', 'b'])])
  const info = await put(region.frontend(), upload())
  const store = region.stores.get('a')!
  store.verify = () => {
    throw new BlobFault('IO', 'planted')
  }
  t.match(await scrubberOf(region, 'a').pass(), { damaged: 0, unreadable: 1 })
  t.notOk((await store.stat(info))?.damaged)
})

t.test(
  'a copy that is damaged in all of its group is repaired from another upload of the content',
  async (t) => {
    const region = await Region.open(
      [{ id: 'a' }, { id: 'b' }, { id: 'c' }, { id: 'd' }],
      [group(['a', 'b']), group(['c', 'd'], { number: 2, writable: false })],
    )
    const bytes = upload(70_000)
    const info = await put(region.frontend(), bytes)
    for (const id of ['a', 'b']) region.stores.get(id)?.rot(info)
    t.match(await scrubberOf(region, 'a').pass(), { damaged: 1, repaired: 0 })
    t.match(await scrubberOf(region, 'b').pass(), { damaged: 1, repaired: 0 })
    await region.publish(group(['a', 'b'], { version: 2, writable: false }))
    await region.publish(group(['c', 'd'], { number: 2, version: 2 }))
    await put(region.frontend(), bytes)
    t.match(await scrubberOf(region, 'a').pass(), { damaged: 1, repaired: 1 })
    t.same(await region.holdersOf(info), ['a'])
  },
)

// ---- read-through

function readThrough(region: Region, id: string, referenced: Set<string>) {
  return new ReadThroughStore({
    node: region.nodes.get(id)!,
    region: region.regionOf(id)!,
    groups: region.rows,
    peers: region,
    referenced: async (blob) => referenced.has(copyKey(blob)),
    log: quiet,
  })
}

t.test('a missing copy is read from another holder, and kept only when it is referenced', async (t) => {
  const region = await Region.open(three, [group(['a', 'b', 'c'])])
  const bytes = upload(100_000)
  const info = await put(region.frontend(), bytes)
  const referenced = new Set<string>()
  const store = readThrough(region, 'c', referenced)
  t.ok(bytes.subarray(5, 50_000).equals(await get(store, info, 5, 50_000)))
  t.same(await region.holdersOf(info), ['a', 'b'])
  referenced.add(copyKey(info))
  t.ok(bytes.equals(await get(store, info)))
  t.same(await region.holdersOf(info), ['a', 'b', 'c'])
})

t.test('many viewers of one missing copy cost one transfer', async (t) => {
  const region = await Region.open(three, [group(['a', 'b', 'c'])])
  const bytes = upload(100_000)
  const info = await put(region.frontend(), bytes)
  let reads = 0
  region.plant('a', (node) => ({
    read: (blob, range, options) => {
      reads++
      return node.read(blob, range, options)
    },
  }))
  const store = readThrough(region, 'c', new Set([copyKey(info)]))
  const all = await Promise.all(Array.from({ length: 200 }, () => get(store, info)))
  t.ok(all.every((got) => got.equals(bytes)))
  t.equal(reads, 1)
})

t.test('two nodes that both lack a copy do not loop', async (t) => {
  const region = await Region.open(three, [group(['a', 'b', 'c'])])
  const info = await put(region.frontend(), upload())
  let asked = 0
  for (const id of ['b', 'c'])
    region.plant(id, (node) => ({
      stat: (blob) => {
        asked++
        return node.stat(blob)
      },
    }))
  const gone = { ...info, incarnation: upload(16) }
  const store = readThrough(region, 'c', new Set([copyKey(gone)]))
  await t.rejects(get(store, gone, 0, 10), { code: 'NOT_FOUND' })
  t.ok(asked <= 2, `${asked} questions`)
})

t.test('a damaged copy is read from another holder at the same byte, and repaired', async (t) => {
  const region = await Region.open(three, [group(['a', 'b'])])
  const bytes = upload(300_000)
  const info = await put(region.frontend(), bytes)
  region.stores.get('a')?.rot(info)
  const store = readThrough(region, 'a', new Set([copyKey(info)]))
  t.ok(bytes.equals(await get(store, info)))
  t.same(await region.holdersOf(info), ['a', 'b'])
})

// ---- draining and lost nodes

function drainOptions(region: Region, id: string, replacement?: string) {
  return {
    node: region.nodes.get(id)!,
    peers: region,
    region: 'r1',
    publish: async (next: PlacementGroup) => {
      await region.publish(next)
      return region.rows.get(next.number) as PlacementGroup
    },
    replacement: () => replacement,
  }
}

t.test('draining waits for open uploads, moves everything, and only then leaves', async (t) => {
  const region = await Region.open(three, [group(['a', 'b'])])
  const before = await put(region.frontend(), upload())
  const placement = { group: 1, version: 1 }
  const open = await region.nodes.get('a')!.stage({ placement })
  let left = false
  const leaving = leaveGroup(1, drainOptions(region, 'a', 'c')).then((drained) => {
    left = true
    return drained
  })
  while (region.rows.get(1)?.writable) await new Promise((resolve) => setImmediate(resolve))
  await t.rejects(region.nodes.get('a')!.stage({ placement }), { code: 'STALE_PLACEMENT' })
  t.notOk(left, 'an upload is open')
  await open.write(upload())
  const late = await open.commit({ pinMs: 0, asNew: true })
  const drained = await leaving
  t.match(drained, { copies: 2, handedOver: 2 + 1, group: { members: ['b', 'c'], version: 4 } })
  for (const copy of [before, late]) t.same(await region.holdersOf(copy), ['a', 'b', 'c'])
  await t.rejects(region.nodes.get('a')!.pin(before, { ttlMs: 1, placement }), { code: 'STALE_PLACEMENT' })
})

t.test('a node whose copies cannot be sent to others stays', async (t) => {
  const region = await Region.open(three, [group(['a', 'b'])])
  region.cut('b')
  const store = region.stores.get('a')!
  const stage = await store.stage({ placement: { group: 1, version: 1 } })
  await stage.write(upload())
  await stage.commit({ pinMs: 0 })
  await t.rejects(leaveGroup(1, drainOptions(region, 'a')), { code: 'UNAVAILABLE' })
  t.same(region.rows.get(1)?.members, ['a', 'b'])
  region.heal('b')
  t.match(await leaveGroup(1, drainOptions(region, 'a')), { handedOver: 1, group: { members: ['b'] } })
})

t.test('a node of another region leaves without closing the group for its home', async (t) => {
  const there = { ...group(['a', 'b']), remote: ['c'] }
  const region = await Region.open([{ id: 'a' }, { id: 'b' }, { id: 'c', region: 'r2' }], [there])
  const only = await region.stores.get('c')!.stage({ placement: { group: 1, version: 1 } })
  await only.write(upload())
  const copy = await only.commit({ pinMs: 0 })
  t.match(await leaveGroup(1, drainOptions(region, 'c')), {
    handedOver: 2,
    group: { members: ['a', 'b'], remote: [], writable: true },
  })
  t.same(await region.holdersOf(copy), ['a', 'b', 'c'])
  await t.rejects(region.nodes.get('c')!.stage({ placement: { group: 1, version: 1 } }), {
    code: 'STALE_PLACEMENT',
  })
})

t.test('a group with fewer members than possible gets another', async (t) => {
  const nodes = ['a', 'b'].map((id) => ({
    id,
    region: 'r1',
    machine: id,
    ready: true,
    lost: false,
    draining: false,
    freeBytes: 1,
  }))
  t.match(planGroups({ region: 'r1', regions: ['r1'], nodes, groups: [group(['b'])] }), [
    { number: 1, version: 2, members: ['b', 'a'], writable: true },
  ])
})

t.test('the groups of nodes that were lost together go to several others', async (t) => {
  const nodes = ['a', 'b', 'c', 'd', 'e', 'f'].map((id) => ({
    id,
    region: 'r1',
    machine: id,
    ready: id > 'b',
    lost: id <= 'b',
    draining: false,
    freeBytes: id === 'e' ? 1000 : 1,
  }))
  const groups = [group(['a', 'c']), group(['b', 'd'], { number: 2 })]
  const changes = planGroups({ region: 'r1', regions: ['r1'], nodes, groups })
  const members = changes.filter(({ number }) => number !== undefined).map((change) => change.members)
  t.same(members[0], ['c', 'e'], 'the first goes to the emptiest')
  t.notOk(members[1]?.includes('e'), 'which is not asked twice while others are not')
})

t.test('third copies of lost nodes are spread evenly, first to the nodes with the most room', async () => {
  const room = fc.uniqueArray(fc.nat(1_000), { minLength: 1, maxLength: 8 })
  fc.assert(
    fc.property(room, fc.integer({ min: 1, max: 20 }), (freeBytes, count) => {
      const ready = { machine: undefined, ready: true, lost: false, draining: false }
      const there = freeBytes.map((free, at) => ({ id: `x${at}`, region: 'r2', freeBytes: free, ...ready }))
      const gone = { ...ready, id: 'gone', region: 'r2', freeBytes: 2_000, ready: false, lost: true }
      const home = ['a', 'b'].map((id) => ({ id, region: 'r1', freeBytes: 2_000, ...ready }))
      const groups = Array.from({ length: count }, (_, at) =>
        group(['a', 'b'], { number: at + 1, remote: ['gone'] }),
      )
      const nodes = [...home, gone, ...there]
      const changes = planGroups({ region: 'r1', regions: ['r1', 'r2', 'r3'], nodes, groups })
      const emptiest = there.toSorted((one, other) => other.freeBytes - one.freeBytes)
      assert.deepEqual(
        changes.map(({ remote }) => remote),
        groups.map((_, at) => [emptiest[at % emptiest.length]?.id]),
      )
    }),
  )
})

t.test('a permanently lost node is replaced, and the new one fetches everything', async (t) => {
  const time = new VirtualTime()
  const region = await Region.open(three, [group(['a', 'b'])])
  const copies: BlobInfo[] = []
  for (let n = 0; n < 20; n++) copies.push(await put(region.frontend(), upload()))
  region.cut('a')
  region.silent.add('a')
  region.stores.delete('a')
  const nodes = ['a', 'b', 'c'].map((id) => ({
    id,
    region: 'r1',
    machine: id,
    ready: id !== 'a',
    lost: id === 'a',
    draining: false,
    freeBytes: 1,
  }))
  const [change] = planGroups({ region: 'r1', regions: ['r1'], nodes, groups: region.rows.all() })
  t.match(change, { number: 1, version: 2, members: ['b', 'c'] })
  await region.publish(change as PlacementGroup)
  const replicator = new Replicator({
    ...plainReplicator,
    node: region.nodes.get('c')!,
    peers: region,
    region: 'r1',
    clock: time,
    timers: time,
    random: () => 0,
  })
  replicator.start()
  await time.pass(5_000)
  for (const copy of copies) t.same(await region.holdersOf(copy), ['b', 'c'])
  await replicator.close()
})

t.test(
  'groups: every ready node of a region is in a writable one, nothing changes twice, nothing moves for new nodes',
  async (t) => {
    const node = (id: string, region = 'r1', more = {}) => ({
      id,
      region,
      machine: id,
      ready: true,
      lost: false,
      draining: false,
      freeBytes: 1,
      ...more,
    })
    const plan = (nodes: ReturnType<typeof node>[], groups: PlacementGroup[]) =>
      planGroups({ region: 'r1', regions: ['r1', 'r2', 'r3'], nodes, groups })
    const numbered = (groups: PlacementGroup[], changes: ReturnType<typeof plan>) => {
      const byNumber = new Map(groups.map((one) => [one.number, one]))
      for (const change of changes) {
        const number = change.number ?? byNumber.size + 1
        byNumber.set(number, { ...change, number })
      }
      return [...byNumber.values()]
    }
    t.same(plan([], []), [])
    let groups = numbered([], plan([node('a'), node('b'), node('x', 'r2')], []))
    t.match(groups, [{ members: ['a', 'b'], remote: ['x'], writable: true, version: 1 }])
    t.same(plan([node('a'), node('b'), node('x', 'r2')], groups), [])
    const more = [node('a'), node('b'), node('c'), node('d'), node('x', 'r2')]
    groups = numbered(groups, plan(more, groups))
    t.match(groups, [{ members: ['a', 'b'], version: 1 }, { members: ['c', 'd'] }])
    t.same(plan(more, groups), [])
    const [closed] = plan([node('a', 'r1', { draining: true }), ...more.slice(1)], groups)
    t.match(closed, { number: 1, version: 2, members: ['a', 'b'], writable: false })
    const alone = numbered([], plan([node('a')], []))
    t.match(alone, [{ members: ['a'], remote: [] }])
    const grown = numbered(alone, plan([node('a'), node('b')], alone))
    t.ok(
      grown.some(({ members, writable }) => writable && members.length === 2),
      'two nodes share a group of two',
    )
    t.match(
      plan([node('a', 'r1', { lost: true }), node('b', 'r1', { lost: true })], groups).find(
        ({ number }) => number === 1,
      ),
      {
        members: [],
      },
    )
  },
)

// ---- collecting

t.test(
  'a copy marked for deletion stays when it is pinned or referenced before the end; else each node deletes it',
  async (t) => {
    const time = new VirtualTime()
    const region = await Region.open(
      three.map(({ id }) => ({ id, options: { clock: time } })),
      [group(['a', 'b'])],
    )
    const references = new Set<string>()
    let onQuestion: ((blob: BlobName) => Promise<void>) | undefined
    const collector = new Collector({
      ...plainCollector,
      blobs: region.nodes.get('a')!,
      referenced: async (blobs) => {
        const answers = blobs.map((blob) => references.has(copyKey(blob)))
        for (const blob of blobs) await onQuestion?.(blob)
        return answers
      },
      distrust: () => undefined,
      graceMs: 3_600_000,
      everyMs: 1_000,
      everything: true,
      clock: time,
      log: quiet,
    })
    const bytes = upload()
    const info = await put(region.frontend(), bytes, { pinMs: 0 })
    t.match(await collector.collect(), { waiting: 1, deleted: 0 })
    await time.pass(3_700_000)

    // An upload of known content comes between the last check of the references and the deletion.
    onQuestion = async () => {
      onQuestion = undefined
      const again = await put(region.frontend(), bytes, { pinMs: 600_000 })
      t.same(again.incarnation, info.incarnation)
    }
    t.match(await collector.collect(), { pinned: 1, deleted: 0 })

    // The node is paused after its check, longer than the pin.
    await time.pass(700_000)
    onQuestion = async () => {
      onQuestion = undefined
      await put(region.frontend(), bytes, { pinMs: 600_000 })
      references.add(copyKey(info))
      await time.pass(700_000)
    }
    await collector.collect()
    t.same(await region.holdersOf(info), ['a', 'b'], 'an old answer is not acted upon')

    references.clear()
    await collector.collect()
    await time.pass(3_700_000)
    t.match(await collector.collect(), { deleted: 1 })
    t.same(await region.holdersOf(info), ['b'])
  },
)

// ---- absence

t.test(
  'a node that was away for longer than tombstones are kept is no source until its copies were checked',
  async (t) => {
    const time = new VirtualTime()
    const region = await Region.open(
      [{ id: 'a', options: { clock: time } }, { id: 'b' }],
      [group(['a', 'b'])],
    )
    const references = new Set<string>()
    const node = region.nodes.get('a')!
    const absence = () =>
      new RejoinCheck({ node, referenced: async (blob) => references.has(copyKey(blob)), clock: time })
    await absence().begin()
    t.equal(node.unverified, undefined, 'new')
    const gone = await put(node.store, upload(), { pinMs: 0 })
    const kept = await put(node.store, upload(), { pinMs: 0 })
    references.add(copyKey(kept))
    await time.pass(4 * 24 * 3_600_000)
    await absence().begin()
    t.equal(node.unverified, undefined)
    await time.pass(30 * 24 * 3_600_000)
    await absence().begin()
    await absence().noteAlive()
    await absence().begin()
    t.match(node.unverified, /was away/)
    await t.rejects(node.pull({ limit: 1 }), { code: 'UNVERIFIED' })
    t.same(await absence().verify(), { checked: 2, removed: 1 })
    t.equal(await node.stat(gone), undefined)
    t.ok(await node.stat(kept))
    t.equal((await node.pull({ limit: 1 })).kind, 'unknown position')
  },
)

// ---- servers

t.test('servers are those that hold the file, the nearest healthy first', async (t) => {
  const time = new VirtualTime()
  const region = await Region.open(
    [{ id: 'a' }, { id: 'b' }, { id: 'x', region: 'r2' }],
    [group(['a', 'b'], { remote: ['x'] })],
  )
  const holders = (r: string) => new Holders({ region: r, groups: region.rows, peers: region, clock: time })
  const here = holders('r1')
  const there = holders('r2')
  const report = (id: string, coveredMs: Record<string, number>, suspect = false) => {
    for (const one of [here, there]) one.learn({ id, suspect, coveredMs: new Map(Object.entries(coveredMs)) })
  }
  const created = time.now()
  t.same(here.serversOf(1, created), ['a', 'b'])
  t.same(here.serversOf(9, created), [])
  report('x', { a: created - 1, b: created - 1 })
  t.same(there.serversOf(1, created), ['a', 'b'], 'the remote one has not pulled it')
  report('a', { b: created + 9_000 })
  report('b', { a: created + 9_000 })
  report('x', { a: created + 9_000, b: created - 1 })
  t.same(there.serversOf(1, created), ['a', 'b'], 'nor from both')
  report('x', { a: created + 9_000, b: created + 9_000 })
  t.same(there.serversOf(1, created), ['x', 'a', 'b'])
  t.same(here.serversOf(1, created), ['a', 'b', 'x'])
  region.silent.add('a')
  t.same(here.serversOf(1, created), ['b', 'x'])
  report('b', { a: created + 9_000 }, true)
  t.same(here.serversOf(1, created), ['x'], 'a suspect node is not named')
  t.same(here.serversOf(1, time.now()), ['x'])
  region.silent.delete('a')
  await time.pass(120_000)
  report('a', { b: created })
  report('b', { a: time.now() })
  t.same(here.serversOf(1, time.now()), ['b'], 'a member that was away is catching up')
})
