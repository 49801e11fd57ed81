/** The simulated year of `infra/CAPACITY.md`, in a small deployment. */
import t from 'tap'
import { plan } from '../infra/capacity/cases.ts'
import { simulateYear, type Year } from '../infra/capacity/year.ts'

const small: Year = { ...plan, hostsPerRegion: 4, disksPerHost: 4 }
const seeds = Array.from({ length: 5 }, (_, at) => at + 1)
const outcomesOf = (year: Year) => seeds.map((seed) => simulateYear(year, seed))

t.test('a seed gives the same year again, another seed another', async (t) => {
  const busy = { ...small, losses: { disk: 0.5, host: 0.2, region: 0 } }
  t.strictSame(outcomesOf(busy), outcomesOf(busy))
  t.not(simulateYear(busy, 1).lostDisks, simulateYear(busy, 2).lostDisks)
})

t.test('without losses nothing is copied and nothing is lost', async (t) => {
  for (const outcome of outcomesOf({ ...small, losses: { disk: 1e-12, host: 1e-12, region: 1e-12 } }))
    t.match(outcome, { lostDisks: 0, lostGroups: 0, repairedBytes: 0, longestRepairHours: 0 })
})

t.test('disks fail about as often as they are said to', async (t) => {
  const lost = outcomesOf({ ...small, losses: { disk: 0.5, host: 1e-12, region: 1e-12 } })
  const mean = lost.reduce((sum, { lostDisks }) => sum + lostDisks, 0) / lost.length
  const expected = (1 - Math.exp(-0.5)) * 48
  t.ok(Math.abs(mean - expected) < expected / 3, `${mean} of ${expected}`)
})

t.test('two copies on one host are lost together: one copy is left until the repair', async (t) => {
  const hosts = { ...small, losses: { disk: 1e-12, host: 0.3, region: 1e-12 } }
  for (const { pairsOnOneHost } of outcomesOf(hosts)) t.equal(pairsOnOneHost, 0)
  for (const { pairsOnOneHost, groups } of outcomesOf({ ...hosts, order: 'host first' }))
    t.equal(pairsOnOneHost, groups)
  const alone = (year: Year) =>
    Math.max(...outcomesOf(year).map(({ longestAloneHours }) => longestAloneHours))
  t.ok(alone({ ...hosts, order: 'host first' }) > 0)
})

t.test('repair that is slower than the losses loses groups', async (t) => {
  const fast = { ...small, losses: { disk: 3, host: 1e-12, region: 1e-12 } }
  const lost = (year: Year) => outcomesOf(year).reduce((sum, { lostGroups }) => sum + lostGroups, 0)
  const slow = lost({ ...fast, repairBytesPerSecond: 1e6 })
  t.ok(slow > 0)
  t.ok(slow > lost(fast))
})
