import { MemoryBus } from '@holdfast/bus'
import { MemoryLookupStore } from '@holdfast/journal/testing'
import { systemClock } from '@holdfast/kernel'
import t from 'tap'
import { shareBlockLists } from '../src/sharing/shared-block-lists.ts'

t.test('an act of one process reaches another by its announcement', async (t) => {
  const bus = new MemoryBus()
  const lookups = new MemoryLookupStore()
  const onFault = (error: unknown) => t.fail(String(error))
  const open = () => shareBlockLists({ lookups, bus: bus.connect(), clock: systemClock, onFault })
  const [one, two] = [await open(), await open()]
  t.teardown(() => {
    one.close()
    two.close()
  })
  const read = Promise.withResolvers<void>()
  const refresh = two.lists.refresh.bind(two.lists)
  two.lists.refresh = async () => {
    await refresh()
    read.resolve()
  }
  await one.lists.block('content', ['a'.repeat(32)], { by: 'ann', reason: '' })
  await read.promise
  t.ok(two.lists.blocksBlob(Buffer.alloc(48, 0xaa)))
})
