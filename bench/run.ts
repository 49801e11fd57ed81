/**
 * `npm run bench`: starts the service on fresh data and measures it beside its references,
 * interleaved.
 *
 *   --quick        short phases and small sizes, within 3 minutes
 *   --cluster      measures a cluster that it starts instead of the embedded service
 *   --check        compares with the committed baseline, exit 1 on a regression
 *   --save         writes the baseline
 *   --only TEXT    scenarios whose name contains the text; several times: any of them
 *   --rounds N     interleaved rounds (3)
 *   --json FILE    writes the results
 *   --history DIR  adds a line to a file of all runs there and draws them (or BENCH_HISTORY)
 *   --profile DIR  writes profiles of the service's threads there and shows where the time went;
 *                  rates are lower then.
 *                  Of a cluster: of one process of each kind, from its start
 *   --against DIR  measures the service of another checkout, with its packages installed, and this
 *                  one in turn, and shows new by old (24 rounds)
 *   --traced N     measures this service and the same one that traces one request in N, to a
 *                  collector that takes everything, in turn: traced by untraced (24 rounds)
 *   --slowed PLANT burn=MICROS or wait=MS: slows the service on purpose; --check must find it
 *   --data DIR     where fresh data lives (a real disk, not a tmpfs)
 *   --api URL --upload URL --admin URL [--pids N,N]   measures a running service
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { commandLine, headOf } from '../infra/command-line.ts'
import { againstTable, compared, type ScenarioComparison, starts, together } from './against.ts'
import { budgetTable, judged } from './budgets.ts'
import { Client } from './client.ts'
import { addToHistory } from './history.ts'
import { startNginx } from './nginx.ts'
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
  faultsOf,
  figureOf,
  keptOf,
  type ReferenceResult,
  type Result,
  type Round,
  summarise,
  table,
  workOf,
  written,
} from './report.ts'
import { type Bench, type Scenario, scenarios } from './scenarios.ts'

const { values, refuse } = commandLine('bench', headOf(import.meta.filename), {
  quick: { type: 'boolean', default: false },
  cluster: { type: 'boolean', default: false },
  check: { type: 'boolean', default: false },
  save: { type: 'boolean', default: false },
  only: { type: 'string', multiple: true, default: [''] },
  rounds: { type: 'string' },
  json: { type: 'string' },
  history: { type: 'string', default: process.env.BENCH_HISTORY ?? '' },
  profile: { type: 'string' },
  slowed: { type: 'string' },
  against: { type: 'string' },
  traced: { type: 'string' },
  data: { type: 'string', default: join(import.meta.dirname, '..', 'data') },
  api: { type: 'string' },
  upload: { type: 'string' },
  admin: { type: 'string' },
  pids: { type: 'string', default: '' },
})

/** Holdfast processes in a cluster of two regions. */
const clusterProcesses = 12
const quick = values.quick
/** Two services side by side, measured in turn. */
const inTurn = values.against !== undefined || values.traced !== undefined
const rounds = Number(values.rounds ?? (inTurn ? 24 : 3))
if (!Number.isInteger(rounds) || rounds < 1) refuse(`--rounds ${values.rounds} is no number of rounds`)
const mode = values.cluster ? 'cluster' : values.api === undefined ? 'embedded' : 'given'
const baselineFile = join(import.meta.dirname, `baseline-${mode}${quick ? '-quick' : ''}.json`)
if (values.check && !existsSync(baselineFile))
  refuse(`${baselineFile} is not there to compare with: --save makes it`)
if (values.save && values.slowed !== undefined) refuse('a slowed service makes no baseline')
if (values.save && values.check) refuse('--check compares with the baseline that --save would replace')
if (values.cluster && values.api !== undefined)
  refuse('--cluster starts a cluster, --api names a service that runs')
if (values.slowed !== undefined && !/^(burn|wait)=\d*[1-9]\d*$/.test(values.slowed))
  refuse(`--slowed takes burn=MICROS or wait=MS, not ${values.slowed}`)
if (inTurn && (mode !== 'embedded' || values.check || values.save))
  refuse('--against and --traced compare two embedded services, not with the baseline')
if (values.against !== undefined && values.traced !== undefined)
  refuse('--against compares two checkouts, --traced this one with itself')
if (values.traced !== undefined && !/^[1-9]\d{0,5}$/.test(values.traced))
  refuse(`--traced takes how many requests have one that is traced, not ${values.traced}`)
const chosen = scenarios(quick).filter(
  ({ name, own = false }) =>
    values.only.some((text) => name.includes(text)) && !(own && (mode !== 'embedded' || inTurn)),
)
for (const text of values.only)
  if (!chosen.some(({ name }) => name.includes(text))) refuse(`no scenario's name contains "${text}"`)
const baseline = values.check ? readBaseline() : undefined
const unknown = chosen.filter(({ name }) => baseline !== undefined && !(name in baseline.scenarios))
if (chosen.length === unknown.length && baseline !== undefined)
  refuse(`nothing to compare: ${baselineFile} has none of these scenarios`)
if (unknown.length > 0)
  console.error(`not in the baseline, so not compared: ${unknown.map(({ name }) => name).join(', ')}`)
mkdirSync(values.data, { recursive: true })
const directory = mkdtempSync(join(values.data, 'bench-'))
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void leave(signal))
/** Processes that we started. */
const running = new Set<{ stop(): Promise<void> }>()
const reference = started(await startReference(directory))
const nginx = started(await startNginx(directory))
const referencePids = [...reference.pids, ...(nginx?.pids ?? [])]
const service = started(
  await target().catch(async (error: unknown) => {
    await end()
    throw error
  }),
)
const bench: Bench = {
  service,
  reference,
  nginx,
  client: new Client(service),
  payloads: new Payloads(),
  seconds: quick ? 0.6 : 3,
  quick,
}
/**
 * Pauses before a second attempt at a scenario that fell behind: a busy moment passes, a slow path
 * stays.
 */
const looksAtOnce = 2
if (inTurn) {
  try {
    await turns()
  } finally {
    await end()
  }
  process.exit()
}
const results: Result[] = []
const faults: string[] = []
try {
  const behind: Scenario[] = []
  for (const scenario of chosen) {
    let result = await measured(scenario)
    for (let look = 1; look < looksAtOnce && faultsIn(result).length > 0; look++)
      result = await measured(scenario)
    if (faultsIn(result).length > 0) behind.push(scenario)
    results.push(result)
  }
  // A disturbance that lasts seconds has ended by the time all other scenarios are measured.
  for (const scenario of behind) {
    const result = await measured(scenario)
    results[chosen.indexOf(scenario)] = result
    faults.push(...faultsIn(result))
  }
} finally {
  await end()
}

const commit = commitOf(import.meta.dirname)
const machine = {
  cpu: cpus()[0]?.model,
  cores: cpus().length,
  memoryGiB: Math.round(totalmem() / 2 ** 30),
  node: process.version,
}
console.log(table(results))
const budgets = mode === 'embedded' && values.slowed === undefined ? judged(results) : []
if (budgets.length > 0) console.log(`\n${budgetTable(budgets)}\n`)
if (values.profile) console.log(whereTimeGoes(values.profile, service.kinds))
console.log(`measured in ${elapsedSeconds()} s`)
if (values.json) {
  const report = { commit, machine, mode, quick, rounds, results, budgets }
  writeFileSync(values.json, JSON.stringify(report, null, 2))
}
if (values.history !== '' && values.slowed === undefined && mode !== 'given') {
  const time = new Date().toISOString()
  const name = `${mode}${quick ? '-quick' : ''}`
  addToHistory(values.history, name, { version: 1, time, commit, machine, scenarios: keptOf(results) })
}
if (values.save) {
  // If only some scenarios were measured, the baseline keeps its figures of the others.
  const others = values.only[0] === '' || !existsSync(baselineFile) ? {} : readBaseline().scenarios
  const saved: Baseline = { commit, machine, scenarios: { ...others, ...keptOf(results) } }
  writeFileSync(baselineFile, `${JSON.stringify(saved, null, 2)}\n`)
}
if (values.check) {
  for (const fault of faults) console.log(`regression: ${fault}`)
  console.log(faults.length === 0 ? 'no regression against the baseline' : `${faults.length} regressions`)
  process.exitCode = faults.length === 0 ? 0 : 1
}

/** By the baseline, if one is given; reported as they are found. */
function faultsIn(result: Result): string[] {
  const found = baseline === undefined ? [] : faultsOf(result, baseline)
  if (found.length > 0) console.error(`${found.join('; ')}: to be measured again`)
  return found
}

function started<T extends { stop(): Promise<void> } | undefined>(one: T): T {
  if (one !== undefined) running.add(one)
  return one
}

async function end(): Promise<void> {
  await Promise.allSettled([...running].map((one) => one.stop()))
  rmSync(directory, { recursive: true, force: true })
}

/** Compares all chosen scenarios: shows each as it is measured, and a table at the end. */
async function turns(): Promise<void> {
  const { against: checkout, traced } = values
  const tracing =
    traced === undefined ? {} : { HOLDFAST_TRACE_URL: reference.http.href, HOLDFAST_TRACE_ONE_IN: traced }
  const all: ScenarioComparison[] = []
  for (let start = 0; start < starts; start++) {
    const both = {
      old: { checkout, env: ofService() },
      new: { checkout: undefined, env: { ...ofService(), ...tracing } },
    }
    const services = {} as Record<'old' | 'new', Service>
    for (const which of start % 2 === 0 ? (['old', 'new'] as const) : (['new', 'old'] as const))
      services[which] = started(
        await startEmbedded(mkdtempSync(join(directory, `${which}-`)), both[which].env, both[which].checkout),
      )
    const benchOf = (service: Service): Bench => ({ ...bench, service, client: new Client(service) })
    const benches = { old: benchOf(services.old), new: benchOf(services.new) }
    for (const scenario of chosen) {
      const one = await compared(scenario, benches, Math.ceil(rounds / starts))
      all.push(one)
      const place = `start ${start + 1}/${starts}, ${elapsedSeconds()} s`
      console.error(
        `${place}: ${againstTable(together([one]))
          .split('\n')
          .at(-1)}`,
      )
    }
    for (const service of Object.values(services)) {
      await service.stop()
      running.delete(service)
    }
  }
  const here = commitOf(import.meta.dirname)
  const pair =
    checkout === undefined
      ? `${here}, untraced and one in ${traced} traced`
      : `${commitOf(checkout)} and ${here}`
  console.log(`${pair}, ${rounds} rounds`)
  console.log(againstTable(together(all)))
}

/** On a signal: nothing is left behind. */
async function leave(signal: 'SIGINT' | 'SIGTERM'): Promise<void> {
  console.error(`${signal}: stopping what was started`)
  await end()
  process.exit(signal === 'SIGINT' ? 130 : 143)
}

/** Since the start. */
function elapsedSeconds(): string {
  return (performance.now() / 1000).toFixed(0)
}

async function measured(scenario: Scenario): Promise<Result> {
  const own = scenario.own ? await ownService() : undefined
  try {
    const here = own === undefined ? bench : { ...bench, service: own, client: new Client(own) }
    const { pids, kinds = {} } = here.service
    const measure = await scenario.prepare(here)
    const besides = async (): Promise<Record<string, ReferenceResult>> => {
      const all: Record<string, ReferenceResult> = {}
      for (const [name, run] of Object.entries(scenario.references)) {
        const before = cpuSeconds(referencePids)
        const given = await run(here)
        if (given === undefined) continue
        const spent = cpuSeconds(referencePids) - before
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
    // Neither cold code nor cold caches are part of the figures. On a busy machine a phase is a few
    // requests: several of them then.
    if (!scenario.own) {
      await besides()
      const until = performance.now() + 10 * bench.seconds * 1000
      for (let warm = 0; warm < (scenario.warm ?? 1) && performance.now() < until; )
        warm += (await measure()).count
    }
    const all: Round[] = []
    for (let round = 0; round < (scenario.rounds ?? rounds); round++) {
      const load = otherLoad([...referencePids, process.pid, ...pids])
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
        // A process that was restarted in the round counts from its start.
        cpuSeconds: cpuSeconds(pids) - (pids[0] === pidBefore ? cpuBefore : 0),
        cpuSecondsByKind: mapped(kinds, (of, kind) => cpuSeconds(of) - (cpuByKindBefore[kind] ?? 0)),
        peakMiB: peakMiB(pids),
        writtenBytes: writtenBytes(pids) - writtenBefore,
        otherLoad: load(),
      })
    }
    const figures = all.map((round) => written(scenario.unit, figureOf(scenario.unit, round.measured)))
    const progress = `${chosen.indexOf(scenario) + 1}/${chosen.length}, ${elapsedSeconds()} s`
    console.error(`${progress}: ${scenario.name}: ${figures.join(', ')}`)
    return summarise(scenario.name, scenario.unit, all)
  } finally {
    await own?.stop()
  }
}

/**
 * @returns a function that reports the part of the machine's CPU time that other processes used
 *   since.
 */
function otherLoad(ours: readonly number[]): () => number {
  const others = () => machineCpuSeconds() - cpuSeconds(ours)
  const from = performance.now()
  const before = others()
  return () => Math.max(0, (others() - before) / ((performance.now() - from) / 1000) / cpus().length)
}

/** With `-dirty` appended where files differ from it. */
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

/**
 * A service that has done nothing yet: for figures that the memory of earlier scenarios would hide.
 */
async function ownService(): Promise<Service> {
  return started(await startEmbedded(mkdtempSync(join(directory, 'own-')), ofService()))
}

/** Environment of the services that are started here: for profiles or slowdowns. */
function ofService(): Record<string, string> {
  const { profile, slowed } = values
  const options =
    profile === undefined ? [] : [profiling(profile, { processes: values.cluster ? clusterProcesses : 1 })]
  if (slowed !== undefined) options.push(`--import=${pathToFileURL(join(import.meta.dirname, 'slowed.ts'))}`)
  return {
    ...(options.length > 0 ? { NODE_OPTIONS: options.join(' ') } : {}),
    ...(slowed === undefined ? {} : { BENCH_SLOWED: slowed }),
  }
}

async function target(): Promise<Service> {
  if (values.cluster) return startCluster(directory, ofService())
  if (values.api === undefined) return startEmbedded(mkdtempSync(join(directory, 'service-')), ofService())
  return {
    api: new URL(values.api),
    upload: new URL(values.upload ?? values.api),
    admin: new URL(values.admin ?? values.api),
    pids: values.pids.split(',').filter(Boolean).map(Number),
    dataDirectory: directory,
    stop: async () => undefined,
  }
}
