/** When the planner of placement groups reads their rows. */

import { MemoryBus } from '@holdfast/bus'
import { MemoryLookupStore } from '@holdfast/journal/testing'
import { systemClock } from '@holdfast/kernel'
import type { Heartbeat } from '@holdfast/wire/cluster'
import t from 'tap'
import { until } from '../../../test/support/until.ts'
import { GroupLeader, type GroupLeaderOptions, GroupRows } from '../src/index.ts'

const region = 'eu-par'

function beat(id: string): Partial<Heartbeat> {
  return { id, region, ready: true, freeBytes: 1_000_000 }
}

t.test('a planner with nothing to change reads no rows', async (t) => {
  const lookups = new MemoryLookupStore()
  let scans = 0
  const scan = lookups.scan.bind(lookups)
  lookups.scan = (...given) => {
    scans++
    return scan(...given)
  }
  const onFault = (error: unknown) => t.fail(String(error))
  const rows = new GroupRows({
    lookups,
    bus: new MemoryBus(),
    regions: [region],
    onFault,
    onGroup: undefined,
  })
  t.teardown(() => rows.close())
  let aheadMs = 0
  const clock = { now: systemClock.now, monotonic: () => systemClock.monotonic() + aheadMs }
  const beats = [beat('storage-1'), beat('storage-2')]
  let looks = 0
  const leader = new GroupLeader({
    self: 'storage-1',
    region,
    regions: [region],
    rows,
    peers: {
      beats: () => {
        looks++
        return beats
      },
      regionOf: () => region,
    } as unknown as GroupLeaderOptions['peers'],
    states: { of: () => undefined } as unknown as GroupLeaderOptions['states'],
    clock,
    lostMs: 60_000,
    onFault,
    everyMs: 5,
  })
  t.teardown(() => leader.close())
  aheadMs = 10_000
  await until(() => rows.map.all().length > 0)
  await rows.refresh()
  const read = scans
  const from = looks
  await until(() => looks > from + 20)
  t.equal(scans, read, 'ten plans, and none of them reads')
  beats.push(beat('storage-3'))
  await until(() => rows.map.all().some(({ members }) => members.includes('storage-3')))
  t.ok(scans > read, 'before it proposes')
})
