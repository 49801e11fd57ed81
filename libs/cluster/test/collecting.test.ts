import { Collector, MemoryBlobStore } from '@holdfast/blob-store'
import { plainCollector, put } from '@holdfast/blob-store/testing'
import { MemoryBus } from '@holdfast/bus'
import { JournalFault, type LookupStore, referencedOf, referencesOf } from '@holdfast/journal'
import { MemoryLookupStore } from '@holdfast/journal/testing'
import type { RegionCode } from '@holdfast/kernel'
import pino from 'pino'
import t from 'tap'
import { serveCollecting } from '../src/index.ts'
import { RegionalLookups } from '../src/regions/regional-lookups.ts'
import { collectingStatus } from '../src/storage/collecting.ts'

const regions: RegionCode[] = ['eu-par', 'na-nyc']
const log = pino({ level: 'silent' })

t.test('while a region is lost no copy is deleted that it may refer to, and status says so', async (t) => {
  const eu = new MemoryLookupStore()
  const us = new MemoryLookupStore()
  let lost = false
  const reached = new Proxy<LookupStore>(us, {
    get(target, name) {
      if (lost) throw new JournalFault('UNAVAILABLE', 'na-nyc cannot be reached')
      const value = Reflect.get(target, name, target) as unknown
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
  const lookups = new RegionalLookups({
    region: 'eu-par',
    homes: new Map(),
    regions,
    founders: regions,
    stores: new Map<RegionCode, LookupStore>([
      ['eu-par', eu],
      ['na-nyc', reached],
    ]),
  })
  let nowMs = Date.UTC(2030, 0, 1)
  const clock = { now: () => nowMs, monotonic: () => nowMs }
  const blobs = new MemoryBlobStore({ clock })
  const collector = new Collector({
    ...plainCollector,
    blobs,
    referenced: (some) => referencedOf(lookups, some),
    distrust: () => undefined,
    graceMs: 0,
    everyMs: 3_600_000,
    clock,
    log,
  })
  const bus = new MemoryBus()
  const words = serveCollecting(
    { bus, log, config: { nodeName: 'node-1' } },
    {
      collect: async (options) => ({ ...(await collector.collect(options)) }),
      paused: () => collector.paused,
    },
  )
  t.teardown(() => words.close())
  const status = () => collectingStatus({ bus, peers: { beats: () => [{ id: 'node-1' }, { id: 'silent' }] } })
  t.same(await status(), { goesOn: true, says: 'goes on' })

  const ours = await put(blobs, Buffer.from('an account here has it'), { pinMs: 0 })
  const theirs = await put(blobs, Buffer.from('an account there copied it'), { pinMs: 0 })
  const nobodys = await put(blobs, Buffer.from('no node has it'), { pinMs: 0 })
  await lookups.write([{ put: `${referencesOf(ours)}a`, value: Buffer.alloc(0) }])
  await us.write([{ put: `${referencesOf(theirs)}b`, value: Buffer.alloc(0) }])

  lost = true
  for (const _ of ['first', 'second']) {
    nowMs += 60_000
    await t.rejects(collector.collect(), { code: 'UNAVAILABLE' })
  }
  t.equal((await blobs.usage()).blobs, 3)
  t.same(await status(), {
    goesOn: false,
    says: 'paused on node-1 since 2030-01-01T00:01:00.000Z: the references in na-nyc cannot be read: na-nyc cannot be reached',
  })

  lost = false
  nowMs += 1
  t.match(await collector.collect(), { deleted: 1 })
  t.same(
    [await blobs.stat(ours), await blobs.stat(theirs), await blobs.stat(nobodys)],
    [ours, theirs, undefined],
  )
  t.same(await status(), { goesOn: true, says: 'goes on' })
})
