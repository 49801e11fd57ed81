/**
 * `npm run bench`: starts the service on fresh data and measures it beside its references, interleaved.
 *
 *   --quick        short phases and small sizes, within 3 minutes
 *   --cluster      measures a cluster that it starts (`npm run cluster`) instead of the embedded service
 *   --check        compares with the committed baseline, exit 1 on a regression
 *   --save         writes the baseline
 *   --only TEXT    scenarios whose name contains the text; several times: any of them
 *   --rounds N     interleaved rounds (3)
 *   --json FILE    writes the results
 *   --profile DIR  writes profiles of the service's threads there and shows where the time went; rates are lower then
 *   --data DIR     where fresh data lives (a real disk, not a tmpfs)
 *   --api URL --upload URL --admin URL [--pids N,N]   measures a running service
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
  machineCpuSeconds,
  peakMiB,
  resetPeak,
  type Service,
  startCluster,
  startEmbedded,
  startReference,
  writtenBytes,
} from './processes.ts'
import { profiling, whereTimeGoes } from './profile.ts'
import {
  type Baseline,
  type Beside,
  faultsOf,
  figureOf,
  keptOf,
  type Result,
  type Round,
  summarise,
  table,
  workOf,
} from './report.ts'
import { type Bench, type Scenario, scenarios } from './scenarios.ts'

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    cluster: { type: 'boolean', default: false },
    check: { type: 'boolean', default: false },
    save: { type: 'boolean', default: false },
    only: { type: 'string', multiple: true, default: [''] },
    rounds: { type: 'string' },
    json: { type: 'string' },
    profile: { type: 'string' },
    data: { type: 'string', default: join(import.meta.dirname, '..', 'data') },
    api: { type: 'string' },
    upload: { type: 'string' },
    admin: { type: 'string' },
    pids: { type: 'string', default: '' },
  },
})

const quick = values.quick
const rounds = Number(values.rounds ?? 3)
mkdirSync(values.data, { recursive: true })
const directory = mkdtempSync(join(values.data, 'bench-'))
const reference = await startReference(directory)
const service = await target()
const bench: Bench = {
  service,
  reference,
  client: new Client(service),
  payloads: new Payloads(),
  seconds: quick ? 0.6 : 4,
  quick,
}
const baselineFile = join(import.meta.dirname, `baseline-${service.mode}${quick ? '-quick' : ''}.json`)
const baseline = values.check ? readBaseline() : undefined
/** A scenario that fell behind is measured again, so often: a busy machine passes, a slow path stays. */
const secondLooks = 2
const results: Result[] = []
const faults: string[] = []
try {
  for (const scenario of scenarios(quick)) {
    if (!values.only.some((text) => scenario.name.includes(text))) continue
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

const commit = commitOf(import.meta.dirname)
const machine = {
  cpu: cpus()[0]?.model,
  cores: cpus().length,
  memoryGiB: Math.round(totalmem() / 2 ** 30),
  node: process.version,
}
console.log(table(results))
if (values.profile) console.log(whereTimeGoes(values.profile))
console.log(`measured in ${(performance.now() / 1000).toFixed(0)} s`)
if (values.json) {
  const report = { commit, machine, mode: service.mode, quick, rounds, results }
  writeFileSync(values.json, JSON.stringify(report, null, 2))
}
if (values.save) {
  // Some scenarios measured anew leave the others as they were.
  const others = values.only[0] === '' ? {} : readBaseline().scenarios
  const saved: Baseline = { commit, machine, scenarios: { ...others, ...keptOf(results) } }
  writeFileSync(baselineFile, `${JSON.stringify(saved, null, 2)}\n`)
}
if (values.check) {
  for (const fault of faults) console.log(`regression: ${fault}`)
  console.log(faults.length === 0 ? 'no regression against the baseline' : `${faults.length} regressions`)
  process.exitCode = faults.length === 0 ? 0 : 1
}

async function measured(scenario: Scenario): Promise<Result> {
  const own = scenario.own ? await ownService() : undefined
  try {
    const here = own === undefined ? bench : { ...bench, service: own, client: new Client(own) }
    const { pids, kinds = {} } = here.service
    const measure = await scenario.prepare(here)
    const besides = async (): Promise<Record<string, Beside>> => {
      const all: Record<string, Beside> = {}
      for (const [name, run] of Object.entries(scenario.references)) {
        const before = cpuSeconds(reference.pids)
        const given = await run(here)
        const spent = cpuSeconds(reference.pids) - before
        all[name] =
          typeof given === 'number'
            ? { figure: given, cpuEach: undefined }
            : {
                figure: figureOf(scenario.unit, given),
                cpuEach: spent / workOf(scenario.unit, given),
              }
      }
      return all
    }
    // Neither cold code nor cold caches are part of the figures. On a busy machine a phase is a few requests: several of them then.
    if (!scenario.own) {
      await besides()
      const until = performance.now() + 10 * bench.seconds * 1000
      for (let warm = 0; warm < (scenario.warm ?? 1) && performance.now() < until; )
        warm += (await measure()).count
    }
    const all: Round[] = []
    for (let round = 0; round < (scenario.rounds ?? rounds); round++) {
      const load = otherLoad([...reference.pids, process.pid, ...pids])
      const references = await besides()
      resetPeak(pids)
      const pidBefore = pids[0]
      const cpuBefore = cpuSeconds(pids)
      const cpuByKindBefore = mapped(kinds, cpuSeconds)
      const writtenBefore = writtenBytes(pids)
      const measured = await measure()
      all.push({
        measured,
        references,
        // A process that was started anew in the round counts from its start.
        cpuSeconds: cpuSeconds(pids) - (pids[0] === pidBefore ? cpuBefore : 0),
        cpuSecondsByKind: mapped(kinds, (of, kind) => cpuSeconds(of) - (cpuByKindBefore[kind] ?? 0)),
        peakMiB: peakMiB(pids),
        writtenBytes: writtenBytes(pids) - writtenBefore,
        otherLoad: load(),
      })
    }
    const figures = all.map((round) => figureOf(scenario.unit, round.measured).toFixed(1))
    console.error(`${scenario.name}: ${figures.join(', ')}`)
    return summarise(scenario.name, scenario.unit, all)
  } finally {
    await own?.stop()
  }
}

/** @returns tells which part of the machine's CPU time others had since: neither the bench nor what it measures. */
function otherLoad(ours: readonly number[]): () => number {
  const others = () => machineCpuSeconds() - cpuSeconds(ours)
  const from = performance.now()
  const before = others()
  return () => Math.max(0, (others() - before) / ((performance.now() - from) / 1000) / cpus().length)
}

/** `-dirty` behind it where files differ from it. */
function commitOf(cwd: string): string {
  try {
    return execFileSync('git', ['describe', '--always', '--dirty', '--abbrev=40'], {
      cwd,
      encoding: 'utf8',
    }).trim()
  } catch {
    return 'not known: no repository'
  }
}

function mapped<In, Out>(of: Record<string, In>, map: (value: In, key: string) => Out): Record<string, Out> {
  return Object.fromEntries(Object.entries(of).map(([key, value]) => [key, map(value, key)]))
}

function readBaseline(): Baseline {
  return JSON.parse(readFileSync(baselineFile, 'utf8')) as Baseline
}

/** A service that has done nothing yet: for what the memory of earlier scenarios would hide. */
function ownService(): Promise<Service> {
  return startEmbedded(mkdtempSync(join(directory, 'own-')))
}

async function target(): Promise<Service> {
  if (values.cluster) return startCluster(directory)
  const { profile } = values
  if (values.api === undefined)
    return startEmbedded(directory, profile === undefined ? {} : { NODE_OPTIONS: profiling(profile) })
  return {
    api: new URL(values.api),
    upload: new URL(values.upload ?? values.api),
    admin: new URL(values.admin ?? values.api),
    pids: values.pids.split(',').filter(Boolean).map(Number),
    dataDirectory: directory,
    mode: 'given',
    stop: async () => undefined,
  }
}
