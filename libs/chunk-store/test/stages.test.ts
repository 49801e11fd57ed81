import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { get } from '@holdfast/blob-store/testing'
import t from 'tap'
import { ChunkStore } from '../src/index.ts'
import { realOptions as small } from './support/crash-history.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/** Reachable memory. */
function memoryUsed(): number {
  collect()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}

t.test('bytes that come one by one take little more memory than in one piece', async (t) => {
  const store = await ChunkStore.open({ path: t.testdir(), ...small })
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
  const store = await ChunkStore.open({ path: t.testdir(), ...small, stagesMax: 2 })
  const asked = await Promise.allSettled([1, 2, 3, 4].map(() => store.stage()))
  t.same(
    asked.map((one) => (one.status === 'fulfilled' ? 'open' : one.reason.code)),
    ['open', 'open', 'UNAVAILABLE', 'UNAVAILABLE'],
  )
  for (const one of asked) if (one.status === 'fulfilled') await one.value.abort()
  await (await store.stage()).abort()
  await store.close()
})
