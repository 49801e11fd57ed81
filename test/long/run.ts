/**
 * The long suites, in full: `npm run test:long -- [--rounds 200] [--states 5000] [--seed N]
 * [--drains 0.1] [--gib 2] [--runs 5] [--fault <words>] [--pictures <folder>] [--attack <words>]
 * [--seconds 8] [--api-seconds 300] [--drill <words>] [--from <commit>] [--accounts 20000]
 * [--in <folder>] [--part <part>] [--only <suite>]`, where the suites are states, crash, large,
 * cluster, day-two, abuse, clients, schemathesis, container, upgrade, observed, regions, renewal,
 * upkeep and growth.
 * Prints what was tried and found; the exit code says whether every promise was kept.
 *
 * `npm run test:long -- --ci` runs what `npm test` leaves out (`test/forms.ts`) instead.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { commandLine, headOf } from '../../infra/command-line.ts'
import { searchCrashStates, statesUntilFound } from '../../libs/chunk-store/test/support/crash-search.ts'
import { plantedFaults } from '../../libs/chunk-store/test/support/planted-faults.ts'
import { runClients } from '../clients/run-clients.ts'
import { clientsTable } from '../clients/table.ts'
import { faults } from '../cluster/faults/faults.ts'
import { faultsOf, runFaultSuite, tableOf } from '../cluster/faults/run-faults.ts'
import { longFiles, sizedFiles } from '../forms.ts'
import { runTap } from '../support/tap-run.ts'
import { abuseCommand } from './abuse/own-network.ts'
import { containerTrial } from './container.ts'
import { crashRounds } from './crash.ts'
import { dayTwo } from './day-two/run-day-two.ts'
import { largeTransfers } from './large.ts'
import { observedCommand } from './observed/small-disk.ts'
import { growthTrial } from './regions/growth.ts'
import { renewalTrial } from './regions/renewal.ts'
import { regionsTrial } from './regions/trial.ts'
import { upkeepTrial } from './regions/upkeep.ts'
import { conformance } from './schemathesis.ts'
import { upgradeTrial } from './upgrade.ts'

const { values: options } = commandLine('test:long', headOf(import.meta.filename), {
  ci: { type: 'boolean', default: false },
  rounds: { type: 'string', default: '200' },
  states: { type: 'string', default: '5000' },
  drains: { type: 'string', default: '0.1' },
  gib: { type: 'string', default: '2' },
  // Cluster: how often each fault. Cluster and alerts: which faults, by words of their names.
  runs: { type: 'string', default: '5' },
  fault: { type: 'string', multiple: true, default: [''] },
  // Alerts: where the dashboards of the healthy service are drawn as pages.
  pictures: { type: 'string', default: '' },
  // Abuse table: which attacks, by words of their names, and how long each.
  attack: { type: 'string', multiple: true, default: [''] },
  seconds: { type: 'string', default: '8' },
  // OpenAPI document: how long requests are made.
  'api-seconds': { type: 'string', default: '300' },
  // Day two: which drills, by words of their names.
  drill: { type: 'string', multiple: true, default: [''] },
  // Both upgrades: the commit with whose code they begin. Default: the last tagged release.
  from: { type: 'string' },
  // Day two: how many accounts the region has that is evacuated.
  accounts: { type: 'string', default: '20000' },
  // Regions and upkeep: the folder of a deployment to keep for the next trial, and which parts.
  in: { type: 'string' },
  part: { type: 'string', multiple: true, default: [] },
  only: { type: 'string' },
  seed: { type: 'string', default: String(Date.now() % 1_000_000_000) },
})

if (options.ci) {
  const { passed, failed, exitCode } = await runTap([...Object.keys(longFiles), ...sizedFiles], 'full')
  console.log(`\n${passed} passed, ${failed} failed`)
  process.exit(exitCode)
}

const seed = Number(options.seed)
let passed = 0
let failed = 0

await suite('states', `crash states of the chunk store: ${options.states}, --seed ${seed}`, async () => {
  const { tried, histories, violations } = await searchCrashStates(
    seed,
    Number(options.states),
    everyTenth(console.log),
  )
  assert.deepEqual(violations, [], `${tried} states tried, the last one broken:\n${violations.join('\n')}`)
  const lines = [`  states              ${tried} of ${histories} random loads, 0 violations`]
  for (const fault of plantedFaults) {
    const found = await statesUntilFound(seed, fault)
    assert.ok(found !== undefined, `not found within ${fault.foundWithin} states: ${fault.name}`)
    lines.push(`  planted fault       ${fault.name}: found after ${found} states`)
  }
  return lines.join('\n')
})
await suite('crash', `kill -9 under load: ${options.rounds} rounds, --seed ${seed}`, async () =>
  describe(
    await crashRounds({
      rounds: Number(options.rounds),
      seed,
      drains: Number(options.drains),
      report: console.log,
    }),
  ),
)
await suite('large', `large files: 4 × ${options.gib} GiB`, async () => {
  const { uploadMs, downloadMs, peakRssBytes } = await largeTransfers({
    files: 4,
    bytesEach: Math.round(Number(options.gib) * 2 ** 30) + 1,
  })
  return `  ${Math.round(uploadMs)} ms up, ${Math.round(downloadMs)} ms down, all whole\n  peak memory         ${peakRssBytes} bytes`
})
await suite('cluster', `faults of a cluster: each ${options.runs} times, --seed ${seed}`, async () => {
  const rows = await runFaultSuite({
    faults: faults.filter(({ name }) => options.fault.some((words) => name.includes(words))),
    runs: Number(options.runs),
    seed,
    long: true,
    filesMax: 100,
    report: console.log,
  })
  const table = tableOf(rows)
  assert.deepEqual(rows.flatMap(faultsOf), [], table)
  return table
})
await suite('day-two', `an operator's work on a cluster under load, --seed ${seed}`, () =>
  dayTwo({
    words: options.drill,
    from: options.from,
    accounts: Number(options.accounts),
    seed,
    report: console.log,
  }),
)
await suite('abuse', `attacks beside ordinary users: ${options.seconds} s each`, async () => {
  const chosen = options.attack.flatMap((words) => ['--attack', words])
  const { command, args, env } = abuseCommand([...chosen, '--seconds', options.seconds])
  const [code] = await once(spawn(command, args, { env, stdio: 'inherit' }), 'exit')
  assert.equal(code, 0, 'not every attack was held, see the table')
  return ''
})
await suite('clients', 'third-party clients, unmodified, with default settings', async () => {
  const rows = await runClients({
    full: true,
    report: ({ client, what }) => console.log(`  ${client}: ${what}`),
  })
  const table = clientsTable(rows).join('\n')
  assert.ok(!rows.some(({ result }) => result === 'failed'), table)
  return table
})
await suite('schemathesis', `the OpenAPI document: ${options['api-seconds']} s, --seed ${seed}`, () =>
  conformance({ seconds: Number(options['api-seconds']), seed }),
)
await suite('container', 'the image of infra/deploy, by buildah and podman', () =>
  containerTrial(console.log),
)
await suite('upgrade', `upgrades and rollbacks under load, --seed ${seed}`, () =>
  upgradeTrial({ from: options.from, seed, report: console.log }),
)
await suite('observed', 'alerts and dashboards over a real Prometheus', async () => {
  const { command, args, env } = observedCommand(options.fault, options.pictures && resolve(options.pictures))
  const [code] = await once(spawn(command, args, { env, stdio: 'inherit' }), 'exit')
  assert.equal(code, 0, 'not every alert fired in its fault alone, see the table')
  return ''
})
await suite('regions', 'three regions in namespaces', () =>
  regionsTrial({
    parts: options.part,
    kept: options.in && resolve(options.in),
    words: options.fault,
    pictures: options.pictures ? resolve(options.pictures) : undefined,
    report: console.log,
  }),
)
await suite('renewal', 'certificates and secrets are replaced in namespaces', () => renewalTrial(console.log))
await suite('upkeep', "an operator's rarer work in namespaces", () =>
  upkeepTrial({ chosen: options.part, kept: options.in && resolve(options.in), report: console.log }),
)
await suite('growth', 'a region is added to a deployment in namespaces', () => growthTrial(console.log))
console.log(`\n${passed} passed, ${failed} failed`)
process.exitCode = failed === 0 ? 0 : 1

async function suite(name: string, title: string, run: () => Promise<string>): Promise<void> {
  if ((options.only ?? name) !== name) return
  console.log(`\n${title}`)
  const started = performance.now()
  try {
    console.log(`${await run()}\n  took ${Math.round((performance.now() - started) / 1_000)} s`)
    passed++
  } catch (error) {
    failed++
    console.log(error instanceof Error ? error.message : error)
  }
}

function everyTenth(report: (line: string) => void): (line: string) => void {
  let reported = 0
  return (line) => {
    if (++reported % 10 === 0) report(line)
  }
}

function describe(figures: Awaited<ReturnType<typeof crashRounds>>): string {
  const { unknown, restartMs } = figures
  return [
    `  rounds              ${figures.rounds} (${figures.kills} by SIGKILL, ${figures.drains} by SIGTERM)`,
    `  acknowledged        ${figures.acknowledged} changes, 0 lost`,
    `  without an answer   ${unknown.happened} happened whole, ${unknown.absent} not at all, ${unknown.retried} repeated with one effect`,
    `  accounts            ${figures.accounts}`,
    `  read and compared   ${figures.filesRead} files, ${figures.bytesRead} bytes`,
    `  restart             ${restartMs.median} ms median, ${restartMs.most} ms at most`,
    `  bytes on disk       ${figures.liveBytes} live, ${figures.orphanBytes} orphaned after cleaning`,
  ].join('\n')
}
