/** Open uploads: their memory and their number. */

import { randomBytes } from 'node:crypto'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { get } from '@holdfast/blob-store/testing'
import t from 'tap'
import { ChunkStore } from '../src/index.ts'
import { testChunkStore } from '../src/testing.ts'
import { realOptions as small } from './support/crash-history.ts'
import { MiB, machineOn, openWith } from './support/faulty-store.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/** Reachable memory. */
function memoryUsed(): number {
  collect()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}

t.test('bytes that come one by one take little more memory than in one piece', async (t) => {
  const store = await ChunkStore.open({ ...testChunkStore, path: t.testdir(), ...small })
  const stages = await Promise.all([1, 2, 3, 4].map(() => store.stage()))
  const before = memoryUsed()
  for (const stage of stages)
    for (let at = 0; at < 60_000; at++) {
      const room = stage.write(Buffer.of(at))
      if (room !== undefined) await room
    }
  const each = (memoryUsed() - before) / stages.length
  t.ok(each < 512 * 1024, `${Math.round(each / 1024)} KiB a stage`)
  const expected = Buffer.from(Array.from({ length: 60_000 }, (_, at) => at & 0xff))
  for (const stage of stages) {
    const blob = await stage.commit({ pinMs: 1_000 })
    t.ok((await get(store, blob)).equals(expected))
  }
  await store.close()
})

t.test('no more stages than allowed are open at once, however many are requested in one turn', async (t) => {
  const store = await ChunkStore.open({ ...testChunkStore, path: t.testdir(), ...small, stagesMax: 2 })
  const asked = await Promise.allSettled([1, 2, 3, 4].map(() => store.stage()))
  t.same(
    asked.map((one) => (one.status === 'fulfilled' ? 'open' : one.reason.code)),
    ['open', 'open', 'UNAVAILABLE', 'UNAVAILABLE'],
  )
  for (const one of asked) if (one.status === 'fulfilled') await one.value.abort()
  await (await store.stage()).abort()
  await store.close()
})

t.test('more slow uploads than there is memory for all complete', async (t) => {
  const machine = machineOn()
  const store = await openWith(machine, { extentBytes: 64 * MiB })
  const uploads = await Promise.all(
    Array.from({ length: 40 }, async () => ({ stage: await store.stage(), bytes: randomBytes(600_000) })),
  )
  // All in small steps, side by side: each holds a partly filled block most of the time.
  for (let at = 0; at < 600_000; at += 30_000)
    await Promise.all(uploads.map(async ({ stage, bytes }) => stage.write(bytes.subarray(at, at + 30_000))))
  const infos = await Promise.all(uploads.map(({ stage }) => stage.commit({ pinMs: 0 })))
  for (const [n, copy] of infos.entries()) t.ok(uploads[n]?.bytes.equals(await get(store, copy)))
  t.match(await store.usage(), { stagedBytes: 0, openStages: 0 })
  await store.close()
})

t.test('too many uploads are refused, silent ones are dropped, busy ones are not', async (t) => {
  let nowMs = 0
  const clock = { now: () => Date.now(), monotonic: () => nowMs }
  const store = await openWith(machineOn(), { stagesMax: 2, stageIdleMs: 1000, clock })
  const silent = await store.stage()
  const busy = await store.stage()
  await silent.write(randomBytes(200_000))
  await t.rejects(store.stage(), { code: 'UNAVAILABLE' })
  nowMs += 900
  await busy.write(randomBytes(10))
  nowMs += 900
  t.equal(store.sweep(), 1)
  await t.rejects(silent.commit({ pinMs: 0 }), { code: 'UNAVAILABLE' })
  t.match(await store.usage(), { openStages: 1, stagedBytes: 10 })
  t.ok(await busy.commit({ pinMs: 0 }))
  await store.close()
})
