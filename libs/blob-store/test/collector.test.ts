import type { Clock } from '@holdfast/kernel'
import t from 'tap'
import { until } from '../../../test/support/until.ts'
import { type BlobInfo, type BlobName, Collector, copyKey, MemoryBlobStore } from '../src/index.ts'
import { plainCollector } from '../src/testing.ts'

const silent = { info() {}, warn() {} }
const hour = 3_600_000

class HandClock implements Clock {
  ms = 1_800_000_000_000
  now = () => this.ms
  monotonic = () => this.ms
}

function world({ distrust = () => undefined as string | undefined } = {}) {
  const clock = new HandClock()
  const blobs = new MemoryBlobStore({ clock })
  const references = new Set<string>()
  const asked: string[] = []
  const referenced = async (blobs: readonly BlobName[]) => {
    asked.push(...blobs.map(copyKey))
    return blobs.map((blob) => references.has(copyKey(blob)))
  }
  const collector = new Collector({
    ...plainCollector,
    blobs,
    referenced,
    distrust,
    graceMs: hour,
    everyMs: hour,
    clock,
    log: silent,
  })
  const store = async (text: string, { pinMs = 0 } = {}): Promise<BlobInfo> => {
    const stage = await blobs.stage()
    await stage.write(Buffer.from(text))
    return stage.commit({ pinMs })
  }
  return { clock, blobs, references, asked, collector, store }
}

t.test('referenced copies stay, others are deleted when their grace is over, and not before', async (t) => {
  const { clock, blobs, references, collector, store } = world()
  const kept = await store('kept')
  const gone = await store('gone!')
  references.add(copyKey(kept))
  clock.ms += 1
  t.match(await collector.collect(), { examined: 2, deleted: 0, waiting: 1 })
  clock.ms += hour - 1
  t.match(await collector.collect(), { deleted: 0, waiting: 1 })
  clock.ms += 1
  t.match(await collector.collect(), { deleted: 1, freedBytes: 5, waiting: 0 })
  t.ok(await blobs.stat(kept))
  t.equal(await blobs.stat(gone), undefined)
  t.match(await collector.collect(), { examined: 1, deleted: 0 })
})

t.test('while the collector is held nothing is deleted, even with a grace of 0', async (t) => {
  const { clock, blobs, collector, store } = world()
  const gone = await store('gone!')
  clock.ms += 1
  const letGo = await collector.hold()
  t.match(await collector.collect({ graceMs: 0 }), { deleted: 0, held: /reads everything/ })
  t.ok(await blobs.stat(gone))
  letGo()
  t.match(await collector.collect({ graceMs: 0 }), { deleted: 1 })
})

t.test(
  'a reference that appears during the grace keeps the copy; a later release begins a new grace',
  async (t) => {
    const { clock, references, collector, store } = world()
    const blob = await store('x')
    clock.ms += 1
    await collector.collect()
    references.add(copyKey(blob))
    clock.ms += hour
    t.match(await collector.collect(), { deleted: 0, waiting: 0 })
    references.delete(copyKey(blob))
    t.match(await collector.collect(), { deleted: 0, waiting: 1 })
  },
)

t.test('a pinned copy outlives every grace, because an upload is about to refer to it', async (t) => {
  const { clock, references, collector, store } = world()
  const blob = await store('x', { pinMs: 10_000 })
  t.match(await collector.collect({ graceMs: 0 }), { deleted: 0, pinned: 1 })
  references.add(copyKey(blob))
  clock.ms += 10_001
  t.match(await collector.collect({ graceMs: 0 }), { deleted: 0, pinned: 0 })
})

t.test('a copy that is pinned between the last check and the delete stays', async (t) => {
  const { clock, blobs, collector, store } = world()
  const blob = await store('x')
  clock.ms += 1
  const remove = blobs.delete.bind(blobs)
  blobs.delete = async (name) => {
    await blobs.pin(blob, { ttlMs: 1000 })
    return remove(name)
  }
  t.match(await collector.collect({ graceMs: 0 }), { deleted: 0, pinned: 1 })
  t.ok(await blobs.stat(blob))
})

t.test('a reference that appears at the second check keeps the copy', async (t) => {
  const { clock, blobs, store } = world()
  const blob = await store('x')
  clock.ms += 1
  let looks = 0
  const collector = new Collector({
    ...plainCollector,
    blobs,
    referenced: async (blobs) => {
      looks++
      return blobs.map(() => looks > 1)
    },
    distrust: () => undefined,
    graceMs: 0,
    everyMs: hour,
    clock,
    log: silent,
  })
  t.match(await collector.collect(), { deleted: 0 })
  t.ok(await blobs.stat(blob))
})

t.test('nothing is deleted while the references cannot be trusted, and the answer says why', async (t) => {
  let reason: string | undefined = 'acknowledged rows are missing'
  const { clock, blobs, collector, store } = world({ distrust: () => reason })
  t.teardown(() => collector.close())
  const sinceMs = clock.ms
  collector.start()
  t.same(collector.paused, { reason, sinceMs }, 'an operator sees it before the first pass')
  const blob = await store('x')
  clock.ms += 1
  t.match(await collector.collect({ graceMs: 0 }), { deleted: 0, held: 'acknowledged rows are missing' })
  t.ok(await blobs.stat(blob))
  clock.ms += hour
  reason = 'still missing'
  await collector.collect({ graceMs: 0 })
  t.same(collector.paused, { reason: 'still missing', sinceMs }, 'since it was first found')
  reason = undefined
  t.match(await collector.collect({ graceMs: 0 }), { deleted: 1 })
  t.equal(collector.paused, undefined)
})

t.test('a restart continues a pause, until a pass completes', async (t) => {
  const { clock, blobs } = world()
  let reason: string | undefined = 'acknowledged rows are missing'
  const life = () => {
    const collector = new Collector({
      ...plainCollector,
      blobs,
      referenced: async (some) => some.map(() => true),
      distrust: () => reason,
      notes: blobs,
      clock,
      log: silent,
    })
    t.teardown(() => collector.close())
    return collector
  }
  const sinceMs = clock.ms
  const first = life()
  await first.collect()
  t.same(first.paused, { reason, sinceMs })
  await first.close()
  clock.ms += 20 * hour
  const second = life()
  second.start()
  await until(() => second.paused?.sinceMs === sinceMs)
  await second.close()
  clock.ms += 20 * hour
  reason = undefined
  const third = life()
  third.start()
  await until(() => third.paused !== undefined)
  t.same(third.paused, { reason: 'acknowledged rows are missing', sinceMs }, 'the last one that was stored')
  await third.collect()
  t.equal(third.paused, undefined)
  await third.close()
  reason = 'another reason'
  const fourth = life()
  await fourth.collect()
  t.same(fourth.paused, { reason, sinceMs: clock.ms }, 'the note was removed')
})

t.test('periodic passes check only new, released and marked copies, and delete unreferenced', async (t) => {
  const { clock, blobs, references, asked, store } = world()
  const old = await store('old')
  const other = await store('other')
  references.add(copyKey(old)).add(copyKey(other))
  clock.ms += 10 * hour
  const collector = new Collector({
    ...plainCollector,
    blobs,
    referenced: async (blobs) => {
      asked.push(...blobs.map(copyKey))
      return blobs.map((blob) => references.has(copyKey(blob)))
    },
    distrust: () => undefined,
    graceMs: 0,
    everyMs: 1,
    clock,
    log: silent,
  })
  t.teardown(() => collector.close())
  collector.start()
  await until(() => asked.length >= 2)
  const orphan = await store('orphan')
  references.delete(copyKey(old))
  collector.released(old)
  clock.ms += 1
  asked.length = 0
  await until(async () => (await blobs.usage()).blobs === 1)
  t.notOk(asked.includes(copyKey(other)), 'a referenced copy that was not released is not queried again')
  t.equal(await blobs.stat(orphan), undefined)
  t.equal(await blobs.stat(old), undefined)
  await collector.close()
})

t.test('a pin begins a new grace: the reference it protected may have been removed since', async (t) => {
  const { clock, blobs, collector, store } = world()
  const blob = await store('x')
  await collector.collect()
  clock.ms += hour
  await blobs.pin(blob, { ttlMs: 1000 })
  t.match(await collector.collect(), { deleted: 0, pinned: 1 })
  clock.ms += hour - 1
  t.match(await collector.collect(), { deleted: 0, waiting: 1 }, 'a whole grace from then on')
  clock.ms += 1
  t.match(await collector.collect(), { deleted: 1 })
})

t.test('references are read in batches, and twice for each copy that is deleted', async (t) => {
  const { clock, references, store, blobs } = world()
  for (let count = 0; count < 1_200; count++) references.add(copyKey(await store(`kept ${count}`)))
  await store('gone')
  clock.ms += 1
  const questions: number[] = []
  const collector = new Collector({
    ...plainCollector,
    blobs,
    referenced: async (some) => {
      questions.push(some.length)
      return some.map((blob) => references.has(copyKey(blob)))
    },
    distrust: () => undefined,
    graceMs: 0,
    everyMs: hour,
    clock,
    log: silent,
  })
  t.match(await collector.collect(), { examined: 1_201, deleted: 1 })
  t.same(
    questions.sort((one, other) => one - other),
    [1, 177, 512, 512],
  )
})

t.test('a copy is deleted only after a round over all accounts that began after it was marked', async (t) => {
  const { clock, references, store, blobs } = world()
  let confirmedMs: number | undefined
  let wanted = 0
  const options = {
    ...plainCollector,
    blobs,
    referenced: async (some: readonly BlobName[]) => some.map((blob) => references.has(copyKey(blob))),
    distrust: () => undefined,
    graceMs: hour,
    everyMs: hour,
    clock,
    log: silent,
    accounts: { confirmedMs: async () => confirmedMs, wanted: () => void wanted++ },
  }
  const collector = new Collector(options)
  const lost = await store('its reference is lost')
  const gone = await store('not in use')
  confirmedMs = clock.ms
  clock.ms += 1
  t.match(await collector.collect(), { waiting: 2, unconfirmed: 0 })
  t.equal(wanted, 1)
  clock.ms += hour
  t.match(await collector.collect(), { deleted: 0, unconfirmed: 2 }, 'the last round began before')
  t.equal(wanted, 2)
  references.add(copyKey(lost))
  confirmedMs = clock.ms
  t.match(await collector.collect(), { deleted: 1 })
  t.ok(await blobs.stat(lost), 'the round brought the reference back')
  t.equal(await blobs.stat(gone), undefined)

  const named = await store('the operator sets the grace')
  clock.ms += 1
  t.match(await collector.collect({ graceMs: 0 }), { deleted: 1 })
  t.equal(await blobs.stat(named), undefined)
})

t.test('a store that fails during a pass loses nothing, and the next one does the work', async (t) => {
  const { clock, blobs, collector, store } = world()
  await store('x')
  clock.ms += 1
  const remove = blobs.delete.bind(blobs)
  blobs.delete = () => Promise.reject(new Error('planted'))
  await t.rejects(collector.collect({ graceMs: 0 }), { message: 'planted' })
  t.match(collector.paused, { reason: 'planted' })
  blobs.delete = remove
  t.match(await collector.collect({ graceMs: 0 }), { deleted: 1 })
})
