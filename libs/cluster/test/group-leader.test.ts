/** When the planner of placement groups reads their rows. */

import { MemoryBus } from '@holdfast/bus'
import { MemoryLookupStore } from '@holdfast/journal/testing'
import { systemClock } from '@holdfast/kernel'
import type { Heartbeat } from '@holdfast/wire/cluster'
import t, { type Test } from 'tap'
import { until } from '../../../test/support/until.ts'
import { GroupLeader, type GroupLeaderOptions, GroupRows } from '../src/index.ts'

const region = 'eu-par'

function beat(id: string): Partial<Heartbeat> {
  return { id, region, ready: true, freeBytes: 1_000_000 }
}

interface Leading {
  lookups: MemoryLookupStore
  monotonic: () => number
  machineOf: (id: string) => string
}

/** A planner in storage-1. @returns what it hears, and how often it looked */
function leading(t: Test, { lookups, monotonic, machineOf }: Leading) {
  const faults: unknown[] = []
  const onFault = (error: unknown) => {
    faults.push(error)
    t.fail(String(error))
  }
  const rows = new GroupRows({
    lookups,
    bus: new MemoryBus(),
    regions: [region],
    onFault,
    onGroup: undefined,
  })
  t.teardown(() => rows.close())
  const beats = [beat('storage-1')]
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
      machineOf,
    } as unknown as GroupLeaderOptions['peers'],
    states: { of: () => undefined } as unknown as GroupLeaderOptions['states'],
    clock: { now: systemClock.now, monotonic },
    lostMs: 600_000,
    onFault,
    everyMs: 1,
  })
  t.teardown(() => leader.close())
  return { rows, beats, looks: () => looks, faults }
}

t.test('a planner with nothing to change reads no rows', async (t) => {
  const lookups = new MemoryLookupStore()
  let scans = 0
  const scan = lookups.scan.bind(lookups)
  lookups.scan = (...given) => {
    scans++
    return scan(...given)
  }
  let aheadMs = 0
  const { rows, beats, looks } = leading(t, {
    lookups,
    monotonic: () => systemClock.monotonic() + aheadMs,
    machineOf: () => '127.0.0.1',
  })
  beats.push(beat('storage-2'))
  aheadMs = 10_000
  await until(() => rows.map.all().length > 0)
  await rows.refresh()
  const read = scans
  const from = looks()
  await until(() => looks() > from + 20)
  t.equal(scans, read, 'ten plans, and none of them reads')
  beats.push(beat('storage-3'))
  await until(() => rows.map.all().some(({ members }) => members.includes('storage-3')))
  t.ok(scans > read, 'before it proposes')
})

t.test('nodes of several machines get groups when no new one came for a minute', async (t) => {
  let nowMs = 0
  const { rows, beats, looks, faults } = leading(t, {
    lookups: new MemoryLookupStore(),
    monotonic: () => nowMs,
    machineOf: (id) => `10.0.0.${id.at(-1)}`,
  })
  const planned = async () => {
    const from = looks()
    await until(() => looks() > from + 4)
    return rows.map.all().map(({ members }) => members)
  }
  nowMs = 10_000
  t.same(await planned(), [])
  beats.push(beat('storage-2'))
  t.same(await planned(), [])
  nowMs = 69_000
  t.same(await planned(), [], '59 s after the second one')
  nowMs = 70_000
  t.same(await planned(), [['storage-1', 'storage-2']])
  // One comes every 50 s: they wait ten minutes at most.
  for (let at = 3; at < 9; at++) {
    beats.push(beat(`storage-${at}`))
    t.equal((await planned()).length, 1)
    nowMs += 50_000
  }
  t.equal((await planned()).length, 1, '300 s after the first of them')
  nowMs += 10_000
  t.same(
    (await planned()).slice(1),
    [
      ['storage-3', 'storage-4'],
      ['storage-5', 'storage-6'],
      ['storage-7', 'storage-8'],
    ],
    '60 s after the last one',
  )
  for (let at = 0; at < 13; at++) {
    beats.push(beat(`storage-x${String.fromCharCode(97 + at)}${at % 10}`))
    await planned()
    nowMs += 50_000
  }
  t.ok((await planned()).length > 4, 'ten minutes after the first of them, although others came')
  t.same(faults, [])
})
