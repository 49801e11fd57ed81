/** The simulated year of `infra/CAPACITY.md`, in a small deployment, and what the page counts. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { plan } from '../infra/capacity/cases.ts'
import { simulateYear, type Year } from '../infra/capacity/year.ts'

const disks = 3 * 4 * 4
/** As full as the plan: a disk has two groups at most, and room for a third. */
const storedBytes = (disks / 1_836) * plan.storedBytes
const small: Year = { ...plan, hostsPerRegion: 4, disksPerHost: 4, storedBytes }
const seeds = Array.from({ length: 5 }, (_, at) => at + 1)
const outcomesOf = (year: Year) => seeds.map((seed) => simulateYear(year, seed))

t.test('a seed gives the same year again, another seed another', async (t) => {
  const busy = { ...small, losses: { disk: 0.5, host: 0.2, region: 0 } }
  t.strictSame(outcomesOf(busy), outcomesOf(busy))
  t.not(simulateYear(busy, 1).lostDisks, simulateYear(busy, 2).lostDisks)
})

t.test('without losses nothing is copied and nothing is lost', async (t) => {
  for (const outcome of outcomesOf({ ...small, losses: { disk: 1e-12, host: 1e-12, region: 1e-12 } }))
    t.match(outcome, {
      lostDisks: 0,
      lostGroups: 0,
      repairedBytes: 0,
      longestRepairHours: 0,
      unplacedCopies: 0,
    })
})

t.test('disks fail about as often as they are said to', async (t) => {
  const lost = outcomesOf({ ...small, losses: { disk: 0.5, host: 1e-12, region: 1e-12 } })
  const mean = lost.reduce((sum, { lostDisks }) => sum + lostDisks, 0) / lost.length
  const expected = (1 - Math.exp(-0.5)) * 48
  t.ok(Math.abs(mean - expected) < expected / 3, `${mean} of ${expected}`)
})

t.test('no two copies of a region are on one host, and are lost together', async (t) => {
  const hosts = { ...small, losses: { disk: 1e-12, host: 0.3, region: 1e-12 } }
  for (const { pairsOnOneHost } of outcomesOf(hosts)) t.equal(pairsOnOneHost, 0)
})

t.test('copies never exceed a disk, however many are lost', async (t) => {
  const losses = { disk: 2, host: 0.5, region: 0.3 }
  for (const stored of [0.3, 0.6, 0.9, 1].map((part) => part * disks * plan.nodeBytes))
    for (const { fullestDisk } of outcomesOf({ ...small, storedBytes: stored, losses }))
      t.ok(fullestDisk <= 1 - plan.reserve, `${fullestDisk}`)
})

t.test('in the plan each copy finds room after the loss of a host, and of a region', async (t) => {
  for (const losses of [
    { disk: 1e-12, host: 0.1, region: 1e-12 },
    { disk: 1e-12, host: 1e-12, region: 0.3 },
  ]) {
    const outcomes = outcomesOf({ ...small, losses })
    t.ok(outcomes.some(({ lostDisks }) => lostDisks > 0))
    for (const { unplacedCopies } of outcomes) t.equal(unplacedCopies, 0)
  }
})

t.test('third copies of lost disks go where there is room for them', async (t) => {
  const losses = { disk: 0.05, host: 0.1, region: 1e-12 }
  for (let seed = 1; seed <= 10; seed++)
    t.equal(simulateYear({ ...small, losses }, seed).unplacedCopies, 0, `seed ${seed}`)
})

t.test('a plan that is too full has copies without room, and says so', async (t) => {
  const none = { disk: 1e-12, host: 1e-12, region: 1e-12 }
  for (const outcome of outcomesOf({ ...small, storedBytes: disks * plan.nodeBytes, losses: none }))
    t.match(outcome, { unplacedCopies: 24, unplacedAtEnd: 24 }, 'third copies, from the start')
  // It has three copies of everything, and no room for another on most disks.
  const crowded = { ...small, storedBytes: 0.7 * disks * plan.nodeBytes, losses: { ...none, disk: 0.3 } }
  t.ok(outcomesOf(crowded).some(({ unplacedCopies }) => unplacedCopies > 0))
})

t.test('what crosses between regions is counted: third copies', async (t) => {
  const lost = outcomesOf({ ...small, losses: { disk: 1e-12, host: 1e-12, region: 0.3 } })
  t.ok(lost.some(({ betweenRegionsBytes }) => betweenRegionsBytes > 0))
  for (const { repairedBytes, betweenRegionsBytes } of lost) t.ok(betweenRegionsBytes <= repairedBytes)
})

t.test('repair that is slower than the losses loses groups', async (t) => {
  const fast = { ...small, losses: { disk: 3, host: 1e-12, region: 1e-12 } }
  const lost = (year: Year) => outcomesOf(year).reduce((sum, { lostGroups }) => sum + lostGroups, 0)
  const slow = lost({ ...fast, repairBytesPerSecond: 1e6 })
  t.ok(slow > 0)
  t.ok(slow > lost(fast))
})

t.test('the plan counts TLS, by figures that a script measures', async (t) => {
  const root = join(import.meta.dirname, '..')
  const page = readFileSync(join(root, 'infra/CAPACITY.md'), 'utf8')
  const row =
    /TLS of downloads \| ([\d.]+) GiB\/s × \(3 × ([\d.]+) \+ 2 × ([\d.]+)\).* (\d+) cores/.exec(page) ?? []
  const [rate = 0, encrypt = 0, decrypt = 0, cores] = row.slice(1).map(Number)
  t.equal(Math.round(rate * (3 * encrypt + 2 * decrypt)), cores)
  const script = join(root, 'bench/tls-cost.ts')
  const { status, stdout } = spawnSync(process.execPath, [script, '0.01'], { cwd: root, encoding: 'utf8' })
  t.equal(status, 0)
  t.match(stdout, /^CPU, TLS to plain: sender [\d.]+, receiver [\d.]+$/m)
})
