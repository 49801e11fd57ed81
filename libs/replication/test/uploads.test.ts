/** Uploads, dedup and reads against failing nodes and old maps: each race in its order. */

import {
  BlobFault,
  type BlobInfo,
  type BlobName,
  type BlobStage,
  digestOf,
  type StorageNode,
  type WholeBytes,
} from '@holdfast/blob-store'
import { get, put } from '@holdfast/blob-store/testing'
import t from 'tap'
import { until } from '../../../test/support/until.ts'
import { GroupMap, type LocalNode } from '../src/index.ts'
import { breaksAfter, group, losesCommitAnswers, Region, upload } from './region.ts'
import { VirtualTime } from './virtual-time.ts'

const MiB = 1024 * 1024
/** In one call per member, and staged at members. */
const ways = [
  ['small', 1000],
  ['large', 300_000],
] as const
const large = 300_000
const four = [{ id: 'a' }, { id: 'b' }, { id: 'c' }, { id: 'far', region: 'r2' }]

t.test('what is acknowledged has two synced copies, in the region', async (t) => {
  for (const [way, size] of ways) {
    const region = await Region.open(four, [group(['a', 'b'], { remote: ['far'] })])
    const info = await put(region.frontend(), upload(size))
    t.same(await region.holdersOf(info), ['a', 'b'], way)
    t.equal(info.placementGroup, 1)
    for (const id of ['a', 'b']) t.equal(await region.stores.get(id)?.delete(info), 'pinned')
  }
})

t.test('a stage names the nodes that acknowledged it, the nearest first', async (t) => {
  for (const [way, size] of ways) {
    const region = await Region.open(four, [group(['a', 'b', 'c'], { remote: ['far'] })])
    const frontend = region.frontend({ localNode: 'c' })
    const acknowledged = async (bytes: Buffer) => {
      const stage = await frontend.stage({ expectedBytes: size })
      t.same(stage.acknowledgedBy, [], 'empty before the commit')
      await stage.write(bytes)
      const info = await stage.commit({ pinMs: 60_000 })
      const holders = await region.holdersOf(info)
      t.ok(stage.acknowledgedBy.every((id) => holders.includes(id)))
      return stage.acknowledgedBy
    }
    const bytes = upload(size)
    t.same(await acknowledged(bytes), ['c', 'a'], way)
    t.equal((await acknowledged(bytes))[0], 'c', `${way}, known content`)
    region.cut('a')
    region.cut('b')
    t.same(await acknowledged(upload(size)), ['c', 'far'], `${way}, with one left in the region`)
  }
})

t.test('the node of this process takes the bytes first', async (t) => {
  const region = await Region.open(four, [group(['a', 'b', 'c'])])
  const info = await put(region.frontend({ localNode: 'c' }), upload())
  t.ok((await region.holdersOf(info)).includes('c'))
})

t.test(
  'an upload survives a node that fails at 4 of 5 MiB: the finished copy is sent to another member',
  async (t) => {
    const region = await Region.open(four, [group(['a', 'b', 'c'])])
    region.plant('b', breaksAfter(4 * MiB))
    const bytes = upload(5 * MiB)
    const info = await put(region.frontend(), bytes)
    t.same(await region.holdersOf(info), ['a', 'c'])
    t.ok(bytes.equals(await get(region.frontend(), info)))
  },
)

t.test(
  'with one of two local nodes down the second copy is made in the other region, before the reply',
  async (t) => {
    for (const [way, size] of ways) {
      const region = await Region.open(four, [group(['a', 'b'], { remote: ['far'] })])
      region.cut('b')
      const holders = async () => region.holdersOf(await put(region.frontend(), upload(size)))
      t.same(await holders(), ['a', 'far'], `${way}, unnoticed`)
      region.silent.add('b')
      t.same(await holders(), ['a', 'far'], `${way}, noticed`)
    }
  },
)

t.test('an upload that cannot have two copies is refused, not acknowledged', async (t) => {
  const region = await Region.open(four, [group(['a', 'b'])])
  region.cut('b')
  for (const [, size] of ways) await t.rejects(put(region.frontend(), upload(size)), { code: 'UNAVAILABLE' })
})

t.test('a group with one member left takes uploads on that one disk', async (t) => {
  for (const [way, size] of ways) {
    const region = await Region.open(four, [group(['a'], { remote: ['far'] })])
    region.cut('far')
    const bytes = upload(size)
    const info = await put(region.frontend(), bytes)
    t.same(await region.holdersOf(info), ['a'], way)
    t.ok(bytes.equals(await get(region.frontend(), info)))
  }
})

t.test('full nodes are reported as FULL, and the others are used', async (t) => {
  const small = { capacityBytes: 10 }
  const region = await Region.open(
    [{ id: 'a', options: small }, { id: 'b', options: small }, { id: 'c' }, { id: 'd' }],
    [group(['a', 'b']), group(['c', 'd'], { number: 2 })],
  )
  for (const [, size] of ways) {
    const stage = await region.frontend().stage({ expectedBytes: size })
    await stage.write(upload(size))
    t.equal((await stage.commit({ pinMs: 0 })).placementGroup, 2)
  }
  await region.publish(group(['c', 'd'], { number: 2, version: 2, writable: false }))
  await t.rejects(region.frontend().stage({ expectedBytes: large }), { code: 'FULL' }, 'before its bytes')
  await t.rejects(put(region.frontend(), upload(100)), { code: 'FULL' })
})

// ---- dedup

t.test('known content in a group of another region is no reason to drop an upload', async (t) => {
  const region = await Region.open(
    [...four, { id: 'far2', region: 'r2' }],
    [group(['a', 'b']), group(['far', 'far2'], { number: 2, region: 'r2' })],
  )
  for (const [, size] of ways) {
    const bytes = upload(size)
    const there = await put(region.frontend({ region: 'r2' }), bytes)
    t.equal(there.placementGroup, 2)
    const here = await put(region.frontend(), bytes)
    t.equal(here.placementGroup, 1)
    t.same(await region.holdersOf(here), ['a', 'b'])
  }
})

t.test('a later upload of small content finds it, and asks its group alone', async (t) => {
  const ids = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']
  const region = await Region.open(
    ids.map((id) => ({ id })),
    ids.map((id, at) => group([id, ids[(at + 1) % ids.length] as string], { number: at + 1 })),
  )
  const asked = new Set<string>()
  for (const id of ids)
    region.plant(id, (node) => ({
      put: (blob, options) => {
        asked.add(id)
        return node.put(blob, options)
      },
      find: async () => {
        t.fail('no node is searched')
        return []
      },
    }))
  const groups = new Set<number>()
  // The contents are random: forty of them miss one of the eight groups once in 26 runs.
  for (let n = 0; n < 40 || (n < 1_000 && groups.size < ids.length); n++) {
    const bytes = upload()
    const first = await put(region.frontend({ localNode: 'a' }), bytes)
    groups.add(first.placementGroup ?? 0)
    asked.clear()
    const again = await put(region.frontend({ localNode: 'e' }), bytes)
    t.same(again, first)
    t.same([...asked].sort(), await region.holdersOf(first))
  }
  t.equal(groups.size, ids.length, 'every group has its part')
})

t.test('a known small copy that only one node has is not relied on', async (t) => {
  const region = await Region.open(four, [group(['a', 'b'])])
  const bytes = upload()
  const first = await put(region.frontend(), bytes, { pinMs: 0 })
  await region.stores.get('b')?.delete(first)
  const second = await put(region.frontend(), bytes)
  t.notSame(second.incarnation, first.incarnation)
  t.same(await region.holdersOf(second), ['a', 'b'])
})

t.test('a known small copy is used wherever two members of the group have it', async (t) => {
  const region = await Region.open(four, [group(['a', 'b', 'c'])])
  const bytes = upload()
  const first = await put(region.frontend(), bytes, { pinMs: 0 })
  await region.nodes.get('c')?.fetch(first, ['b'], { pinMs: 0 })
  t.equal(await region.stores.get('a')?.delete(first), 'deleted')
  const second = await put(region.frontend(), bytes)
  t.same(second.incarnation, first.incarnation)
  for (const id of ['b', 'c']) t.equal(await region.stores.get(id)?.delete(first), 'pinned', `at ${id}`)
})

t.test('a small copy that is known to be damaged at a member is whole after the upload', async (t) => {
  const region = await Region.open(four, [group(['a', 'b'])])
  const bytes = upload()
  const first = await put(region.frontend(), bytes, { pinMs: 0 })
  region.stores.get('b')?.rot(first)
  const second = await put(region.frontend(), bytes)
  t.same(second.incarnation, first.incarnation)
  t.same(await region.holdersOf(first), ['a', 'b'])
})

t.test('a silent member is replaced, and counts when it still answers', async (t) => {
  const region = await Region.open(four, [group(['a', 'b', 'c'])])
  const timers = new VirtualTime()
  const gate = Promise.withResolvers<void>()
  const silent = (id: string) =>
    region.plant(id, (node) => ({
      put: async (blob, options) => {
        await gate.promise
        return node.put(blob, options)
      },
    }))
  silent('b')
  const first = put(region.frontend({ timers }), upload())
  await timers.pass(3_000)
  t.same(await region.holdersOf(await first), ['a', 'c'])

  silent('c')
  const second = put(region.frontend({ timers }), upload())
  await timers.pass(3_000) // b
  await timers.pass(3_000) // c
  gate.resolve()
  t.same(await region.holdersOf(await second), ['a', 'b', 'c'])
})

t.test('a small upload whose answers are lost is asked for, and counts where it was made', async (t) => {
  const region = await Region.open(four, [group(['a', 'b'])])
  for (const id of ['a', 'b']) region.plant(id, losesCommitAnswers)
  t.same(await region.holdersOf(await put(region.frontend(), upload())), ['a', 'b'])
})

t.test('a small blob that is sent a second time while the first is running is one copy', async (t) => {
  const region = await Region.open(four, [group(['a', 'b'])])
  const bytes = upload()
  const options = { uploadId: upload(16), placement: { group: 1, version: 1 }, pinMs: 0 }
  const node = region.nodes.get('a') as LocalNode
  const blob = { id: digestOf(bytes).id, bytes }
  const [one, other] = await Promise.all([node.put(blob, options), node.put(blob, options)])
  t.same(one, other)
  t.equal((await node.usage()).blobs, 1)
})

t.test('small uploads that find no memory are staged at the nodes', async (t) => {
  const region = await Region.open(four, [group(['a', 'b'])])
  const frontend = region.frontend()
  const bytes = Buffer.alloc(250_000, 7)
  const stages: BlobStage[] = []
  for (let n = 0; n < 140; n++) {
    const stage = await frontend.stage()
    await stage.write(bytes)
    stages.push(stage)
  }
  const open = (await region.stores.get('a')?.usage())?.openStages ?? 0
  t.equal(open, 140 - Math.floor((32 * MiB) / 250_000))
  t.ok((await frontend.usage()).stagedBytes >= 140 * 250_000)
  for (const stage of stages.slice(0, 139)) await stage.abort()
  t.same(await region.holdersOf((await stages[139]?.commit({ pinMs: 0 })) as BlobInfo), ['a', 'b'])
  const after = await frontend.stage()
  await after.write(bytes)
  t.equal((await region.stores.get('a')?.usage())?.openStages, 0, 'memory is released')
  await after.abort()
})

t.test('a known copy that only one node can pin is not relied on', async (t) => {
  for (const [name, spoil] of [
    ['deleted at the other', (region: Region, info: BlobInfo) => region.stores.get('b')?.delete(info)],
    [
      'damaged at the other',
      async (region: Region, info: BlobInfo) => {
        region.stores.get('b')?.rot(info)
        await get(region.nodes.get('b') as StorageNode, info).catch(() => {})
        region.plant('b', () => ({ pin: async () => false }))
      },
    ],
    [
      'the other does not answer the pin',
      async (region: Region) => {
        region.plant('b', () => ({
          pin: async () => {
            throw new BlobFault('UNKNOWN', 'no answer')
          },
        }))
      },
    ],
  ] as const) {
    const region = await Region.open(four, [group(['a', 'b'])])
    const bytes = upload(large)
    const first = await put(region.frontend(), bytes, { pinMs: 0 })
    await spoil(region, first)
    const second = await put(region.frontend(), bytes)
    t.notSame(second.incarnation, first.incarnation, name)
    t.same(await region.holdersOf(second), ['a', 'b'], name)
  }
})

t.test('a deletion between find and pin makes a new copy; one after the pin is refused', async (t) => {
  const region = await Region.open(four, [group(['a', 'b'])])
  const bytes = upload(large)
  const first = await put(region.frontend(), bytes, { pinMs: 0 })
  region.plant('b', (node) => ({
    pin: async (blob: BlobName, options: { ttlMs: number }) => {
      region.heal('b')
      t.equal(await region.stores.get('b')?.delete(blob), 'deleted', 'the collector comes first')
      return node.pin(blob, options)
    },
  }))
  const second = await put(region.frontend(), bytes)
  t.notSame(second.incarnation, first.incarnation)
  for (const id of ['a', 'b']) t.equal(await region.stores.get(id)?.delete(second), 'pinned', `at ${id}`)
  t.same(await region.holdersOf(second), ['a', 'b'])
})

// ---- old maps

t.test(
  'a frontend with an old map is refused by a node that left, learns, and uploads to the new group',
  async (t) => {
    for (const [way, size] of ways) {
      const region = await Region.open(four, [group(['a', 'b'])])
      const old = new GroupMap()
      old.learn(group(['a', 'b']))
      await region.publish(group(['a', 'c'], { version: 2 }))
      const info = await put(region.frontend({ groups: old }), upload(size))
      t.same(await region.holdersOf(info), ['a', 'c'], way)
      t.equal(old.get(1)?.version, 2)
    }
  },
)

t.test('a stage of an old map cannot be committed for a group that the node has left', async (t) => {
  const region = await Region.open(four, [group(['a', 'b'])])
  const b = region.nodes.get('b')
  const stage = await b?.stage({ placement: { group: 1, version: 1 } })
  await stage?.write(upload())
  await b?.groups.learn(group(['a', 'c'], { version: 2 }))
  await t.rejects(stage?.commit({ pinMs: 0 }) as Promise<BlobInfo>, { code: 'STALE_PLACEMENT' })
})

t.test(
  'a node that closed a group accepts no uploads to it, also after a restart with an old row',
  async (t) => {
    const region = await Region.open(four, [group(['a', 'b'])])
    await region.nodes.get('a')?.groups.learn(group(['a', 'b'], { version: 2, writable: false }))
    const store = region.stores.get('a')
    // Reads version 1 from the rows.
    const again = await region.add({ id: 'a', ...(store ? { store } : {}) })
    await t.rejects(again.stage({ placement: { group: 1, version: 1 } }), { code: 'STALE_PLACEMENT' })
    await t.rejects(again.stage({ placement: { group: 1, version: 2 } }), { code: 'STALE_PLACEMENT' })
  },
)

t.test("a node that does not know the caller's version reads it before it accepts anything", async (t) => {
  const region = await Region.open(four, [group(['a', 'b'])])
  region.rows.learn(group(['b', 'c'], { version: 2 }))
  const a = region.nodes.get('a')
  await t.rejects(a?.stage({ placement: { group: 1, version: 2 } }) as Promise<unknown>, {
    code: 'STALE_PLACEMENT',
  })
  await t.rejects(a?.stage({ placement: { group: 1, version: 3 } }) as Promise<unknown>, {
    code: 'UNAVAILABLE',
  })
})

// ---- reads

t.test('a reader continues at the same byte when its holder fails', async (t) => {
  const region = await Region.open(four, [group(['a', 'b'])])
  const bytes = upload(MiB + 77)
  const info = await put(region.frontend(), bytes)
  for (const code of ['IO', 'CORRUPT', 'UNAVAILABLE'] as const)
    for (const after of [0, 1, 100_000, MiB]) {
      region.plant('a', (node) => ({
        async *read(blob, range, options) {
          let sent = 0
          for await (const piece of node.read(blob, range, options)) {
            const room = Math.max(0, after - sent)
            sent += piece.length
            yield piece.subarray(0, room)
            if (sent > after) throw new BlobFault(code, 'planted')
          }
        },
      }))
      t.ok(bytes.equals(await get(region.frontend(), info)), `${code} after ${after}`)
      t.ok(bytes.subarray(5, 300_000).equals(await get(region.frontend(), info, 5, 300_000)))
      region.heal('a')
    }
})

t.test('a small read asks the nearest, and any other when that fails', async (t) => {
  const region = await Region.open(four, [group(['a', 'b'])])
  const bytes = upload()
  const info = await put(region.frontend(), bytes)
  const whole = (id: string, read: () => Promise<WholeBytes | undefined>) =>
    region.plant(id, () => ({ readWhole: read }) as Partial<StorageNode>)
  whole('a', async () => ({ bytes, release() {} }))
  const range = { start: 0, end: bytes.length }
  t.equal((await region.frontend().readWhole(info, range))?.bytes, bytes)
  for (const code of ['UNAVAILABLE', 'CORRUPT', 'NOT_FOUND'] as const) {
    whole('a', () => Promise.reject(new BlobFault(code, 'planted')))
    t.equal(await region.frontend().readWhole(info, range), undefined, code)
    t.ok(bytes.equals(await get(region.frontend(), info)))
  }
})

t.test('no node has it whole: the fault says what is known', async (t) => {
  const region = await Region.open(four, [group(['a', 'b'])])
  const info = await put(region.frontend(), upload())
  region.stores.get('a')?.rot(info)
  region.cut('b')
  await t.rejects(get(region.frontend(), info, 0, 5), { code: 'UNAVAILABLE' }, 'b may have it')
  region.heal('b')
  region.stores.get('b')?.rot(info)
  await t.rejects(get(region.frontend(), info, 0, 5), { code: 'CORRUPT' })
})

// ---- content whose copies are damaged

t.test(
  'an upload is not dropped for a copy that is damaged at one of its nodes, which is repaired',
  async (t) => {
    const region = await Region.open(four, [group(['a', 'b'])])
    const bytes = upload(70_000)
    const first = await put(region.frontend(), bytes)
    region.stores.get('a')!.rot(first)
    const second = await put(region.frontend(), bytes)
    t.same(await region.holdersOf(second), ['a', 'b'], 'two whole copies are acknowledged')
    await until(async () => (await region.holdersOf(first)).length === 2)
    for (const id of ['a', 'b']) t.ok(bytes.equals(await get(region.stores.get(id)!, first)), id)
  },
)

t.test('copies that are damaged everywhere are repaired from an upload to another group', async (t) => {
  const region = await Region.open(
    [{ id: 'a' }, { id: 'b' }, { id: 'c' }, { id: 'd' }],
    [group(['a', 'b']), group(['c', 'd'], { number: 2, writable: false })],
  )
  const bytes = upload(large)
  const first = await put(region.frontend(), bytes)
  for (const id of ['a', 'b']) region.stores.get(id)!.rot(first)
  await region.publish(group(['a', 'b'], { version: 2, writable: false }))
  await region.publish(group(['c', 'd'], { number: 2, version: 2 }))
  const second = await put(region.frontend(), bytes)
  t.same(await region.holdersOf(second), ['c', 'd'])
  await until(async () => (await region.holdersOf(first)).length === 2)
  t.same(await region.holdersOf(first), ['a', 'b'])
  t.ok(bytes.equals(await get(region.frontend(), first)))
})

t.test('a node that does not answer is not asked to verify', async (t) => {
  const region = await Region.open(four, [group(['a', 'b', 'c'])])
  const bytes = upload(large)
  const first = await put(region.frontend(), bytes)
  const pins: string[] = []
  for (const id of ['a', 'b', 'c'])
    region.plant(id, (node) => ({
      find: async (content) => {
        if (id === 'c') throw new BlobFault('UNAVAILABLE', 'planted')
        return node.find(content)
      },
      pin: async (blob, options) => {
        pins.push(id)
        return node.pin(blob, options)
      },
    }))
  t.same((await put(region.frontend(), bytes)).incarnation, first.incarnation)
  t.same(pins.sort(), ['a', 'b'])
})
