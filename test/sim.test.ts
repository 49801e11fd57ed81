/** A short form of `npm run sim`: some seeds, and every planted fault found. */
import t from 'tap'
import { planted } from './sim/planted.ts'
import { runBroken, runSeed } from './sim/seeds.ts'

t.setTimeout(600_000)

t.test('a cluster under every trouble keeps its promises', async (t) => {
  for (let seed = 1; seed <= 8; seed++)
    for (const { kind, violations } of await runSeed(seed))
      t.strictSame(violations, [], `${kind}, seed ${seed}`)
})

t.test('a seed gives its run again, event by event', async (t) => {
  const one = await runSeed(20)
  const two = await runSeed(20)
  t.equal(new Set(one.map(({ kind }) => kind)).size, 3, 'all three simulations')
  t.strictSame(
    one.map(({ digest, events }) => [digest, events]),
    two.map(({ digest, events }) => [digest, events]),
  )
  const other = await runSeed(21)
  t.not(other[0]?.digest, one[0]?.digest)
})

/** A seed that found it lately: tried first, as a change anywhere may give the seeds other runs. */
const near: Record<string, number> = {
  fence: 32,
  'unfenced-page': 6,
  'reused-log-position': 89,
  'stop-at-first-hole': 25,
}
const seedsMax = 500

for (const name of Object.keys(planted))
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
