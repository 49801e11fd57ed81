/**
 * `npm run bench`: starts the service on fresh data and measures it beside its references, interleaved.
 *
 *   --quick        short phases and small sizes, within 3 minutes
 *   --check        compares with the committed baseline, exit 1 on a regression
 *   --save         writes the baseline
 *   --only TEXT    scenarios whose name contains the text
 *   --rounds N     interleaved rounds (3; 2 with --quick)
 *   --json FILE    writes the results
 *   --data DIR     where fresh data lives (a real disk, not a tmpfs)
 *   --api URL --upload URL --admin URL [--pids N,N]   measures a running service, a cluster for one
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Client } from './client.ts'
import { Payloads } from './payload.ts'
import {
  cpuSeconds,
  peakMiB,
  resetPeak,
  type Service,
  startEmbedded,
  startReference,
  writtenBytes,
} from './processes.ts'
import {
  type Baseline,
  baselineOf,
  faultsOf,
  figureOf,
  type Result,
  type Round,
  summarise,
  table,
} from './report.ts'
import { type Bench, type Scenario, scenarios } from './scenarios.ts'

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    check: { type: 'boolean', default: false },
    save: { type: 'boolean', default: false },
    only: { type: 'string', default: '' },
    rounds: { type: 'string' },
    json: { type: 'string' },
    data: { type: 'string', default: join(import.meta.dirname, '..', 'data') },
    api: { type: 'string' },
    upload: { type: 'string' },
    admin: { type: 'string' },
    pids: { type: 'string', default: '' },
  },
})

const quick = values.quick
const rounds = Number(values.rounds ?? (quick ? 2 : 3))
mkdirSync(values.data, { recursive: true })
const directory = mkdtempSync(join(values.data, 'bench-'))
const reference = await startReference(directory)
const service = await target()
const bench: Bench = {
  service,
  reference,
  client: new Client(service),
  payloads: new Payloads(),
  seconds: quick ? 1 : 4,
  quick,
}
const baselineFile = join(import.meta.dirname, `baseline-${service.mode}${quick ? '-quick' : ''}.json`)
const baseline = values.check ? (JSON.parse(readFileSync(baselineFile, 'utf8')) as Baseline) : undefined
/** A scenario that fell behind is measured again, so often: a busy machine passes, a slow path stays. */
const secondLooks = 2
const results: Result[] = []
const faults: string[] = []
try {
  for (const scenario of scenarios(quick)) {
    if (!scenario.name.includes(values.only)) continue
    if (scenario.own && service.mode !== 'embedded') continue
    let result = await measured(scenario)
    let found = baseline === undefined ? [] : faultsOf(result, baseline)
    for (let look = 0; baseline !== undefined && found.length > 0 && look < secondLooks; look++) {
      console.error(`${found.join('; ')}: measured again`)
      result = await measured(scenario)
      found = faultsOf(result, baseline)
    }
    results.push(result)
    faults.push(...found)
  }
} finally {
  await service.stop()
  await reference.stop()
  rmSync(directory, { recursive: true, force: true })
}

const report = {
  commit: execFileSync('git', ['rev-parse', 'HEAD'], { encoding: 'utf8' }).trim(),
  machine: {
    cpu: cpus()[0]?.model,
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    node: process.version,
  },
  mode: service.mode,
  quick,
  rounds,
  results,
}
console.log(table(results))
if (values.json) writeFileSync(values.json, JSON.stringify(report, null, 2))

if (values.save) writeFileSync(baselineFile, `${JSON.stringify(baselineOf(results), null, 2)}\n`)
if (values.check) {
  for (const fault of faults) console.log(`regression: ${fault}`)
  console.log(faults.length === 0 ? 'no regression against the baseline' : `${faults.length} regressions`)
  process.exitCode = faults.length === 0 ? 0 : 1
}

async function measured(scenario: Scenario): Promise<Result> {
  const own = scenario.own ? await ownService() : undefined
  try {
    const here = own === undefined ? bench : { ...bench, service: own, client: new Client(own) }
    const { pids } = here.service
    const measure = await scenario.prepare(here)
    const all: Round[] = []
    for (let round = 0; round < (scenario.rounds ?? rounds); round++) {
      const references: Record<string, number> = {}
      for (const [name, run] of Object.entries(scenario.references)) references[name] = await run(here)
      resetPeak(pids)
      const pidBefore = pids[0]
      const cpuBefore = cpuSeconds(pids)
      const writtenBefore = writtenBytes(pids)
      const measured = await measure()
      all.push({
        measured,
        references,
        // A process that was started anew in the round counts from its start.
        cpuSeconds: cpuSeconds(pids) - (pids[0] === pidBefore ? cpuBefore : 0),
        peakMiB: peakMiB(pids),
        writtenBytes: writtenBytes(pids) - writtenBefore,
      })
    }
    const figures = all.map((round) => figureOf(scenario.unit, round.measured).toFixed(1))
    console.error(`${scenario.name}: ${figures.join(', ')}`)
    return summarise(scenario.name, scenario.unit, all)
  } finally {
    await own?.stop()
  }
}

/** A service that has done nothing yet: for what the memory of earlier scenarios would hide. */
function ownService(): Promise<Service> {
  return startEmbedded(mkdtempSync(join(directory, 'own-')))
}

async function target(): Promise<Service> {
  if (values.api === undefined) return startEmbedded(directory)
  return {
    api: new URL(values.api),
    upload: new URL(values.upload ?? values.api),
    admin: new URL(values.admin ?? values.api),
    pids: values.pids.split(',').filter(Boolean).map(Number),
    dataDirectory: directory,
    mode: 'cluster',
    stop: async () => undefined,
  }
}
