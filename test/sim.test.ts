/** A short form of `npm run sim`: some seeds, and in the long run every planted fault found. */
import { Worker } from 'node:worker_threads'
import t from 'tap'
import { sizeOf } from './forms.ts'
import { near, planted } from './sim/planted.ts'
import { differing, runBroken, runSeed } from './sim/seeds.ts'
import type { Run } from './sim/simulation.ts'

t.setTimeout(1_200_000)

t.test('a cluster under all faults keeps its promises', async (t) => {
  for (let seed = 1; seed <= sizeOf('simSeeds'); seed++)
    for (const { kind, violations } of await runSeed(seed))
      t.strictSame(violations, [], `${kind}, seed ${seed}`)
})

t.test('a seed reproduces its run, event by event, also on a busy machine', async (t) => {
  const seeds = [20, 40].slice(0, sizeOf('simTwice')) // each of them has all three simulations
  const first: Run[] = []
  for (const seed of seeds) first.push(...(await runSeed(seed)))
  t.equal(first.length, 3 * seeds.length)
  const spinning = Array.from({ length: sizeOf('simBusy') }, () => new Worker('for (;;);', { eval: true }))
  t.teardown(() => Promise.all(spinning.map((worker) => worker.terminate())))
  const second: Run[] = []
  for (const seed of seeds) second.push(...(await runSeed(seed)))
  await Promise.all(spinning.map((worker) => worker.terminate()))
  t.strictSame(differing(first, second), [])
  const [other] = await runSeed(21)
  t.not(other?.digest, first[0]?.digest)
})

const seedsMax = 1_000

for (const name of Object.keys(planted).slice(0, sizeOf('simPlanted')))
  t.test(`planted and found: ${name}`, async (t) => {
    const seeds = [near[name] ?? 1, ...Array.from({ length: seedsMax }, (_, at) => at + 1)]
    for (const [tried, seed] of seeds.entries()) {
      const { violations } = await runBroken(name, seed)
      if (violations.length === 0) continue
      t.pass(`by seed ${seed}, after ${tried} others: ${violations[0]}`)
      return
    }
    t.fail(`not found by ${seedsMax} seeds`)
  })
