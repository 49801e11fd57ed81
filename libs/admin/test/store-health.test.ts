import { MemoryBlobStore, type StoreHealth } from '@holdfast/blob-store'
import { Registry } from 'prom-client'
import t from 'tap'
import { storeMetrics, storeStatus } from '../src/index.ts'

t.test('quarantined, failed and retried deps are in metrics and status', async (t) => {
  const health: StoreHealth = {
    failure: undefined,
    recovering: false,
    quarantined: [],
    extentFailures: 0,
    gap: undefined,
    sendsDirectly: true,
    catalogue: 'level',
  }
  const store = Object.assign(new MemoryBlobStore(), { health })
  const registry = new Registry()
  storeMetrics(registry, store)
  const shown = async () => (await registry.metrics()).split('\n').filter((line) => !line.startsWith('#'))
  const well = await shown()
  for (const line of [
    'holdfast_store_quarantined_extents{reason="foreign"} 0',
    'holdfast_store_quarantined_extents{reason="damaged"} 0',
    'holdfast_store_quarantined_extents{reason="unreadable"} 0',
    'holdfast_store_quarantined_extents{reason="missing"} 0',
    'holdfast_store_gap 0',
    'holdfast_store_failed 0',
    'holdfast_store_recovering 0',
    'holdfast_store_direct_sends 1',
  ])
    t.ok(well.includes(line), line)
  t.match(await storeStatus(store), {
    blobs: 0,
    quarantined: [],
    recovering: false,
    failure: undefined,
    catalogue: 'level',
  })

  const file = { file: '00000001.extent', reason: 'damaged', bytes: 10, liveBytes: 3 } as const
  Object.assign(health, {
    failure: new Error('the catalogue is gone'),
    recovering: true,
    quarantined: [file],
    extentFailures: 2,
    gap: 'not all is known',
    sendsDirectly: false,
  })
  const ill = await shown()
  for (const line of [
    'holdfast_store_quarantined_extents{reason="damaged"} 1',
    'holdfast_store_quarantined_extents{reason="foreign"} 0',
    'holdfast_store_extent_failures_total 2',
    'holdfast_store_gap 1',
    'holdfast_store_failed 1',
    'holdfast_store_recovering 1',
    'holdfast_store_direct_sends 0',
  ])
    t.ok(ill.includes(line), line)
  t.match(await storeStatus(store), {
    failure: 'the catalogue is gone',
    recovering: true,
    quarantined: [file],
    gap: 'not all is known: nothing is collected',
  })
  await store.close()
})
