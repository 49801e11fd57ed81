/**
 * Each fault during the users' work, then the comparison of the history with the promises; and the
 * table of results.
 */
import { LocalCluster } from '../local-cluster.ts'
import { check, type Verdict } from './checker.ts'
import type { Fault } from './fault.ts'
import { History } from './history.ts'
import { type Kind, Load } from './load.ts'
import { arrive, type Person } from './people.ts'
import { Stage } from './stage.ts'
import { smallNode } from './storage-faults.ts'

export interface FaultRow extends Omit<Verdict, 'unknown'> {
  fault: string
  runs: number
  unknown: { happened: number; absent: number }
  /** Stale writes that the journal refused. */
  fenced: number
  /** The longest time without success for a user whom the fault does not affect, ms. */
  untouchedOutMs: number
  /** Until the acknowledgement of the first change that the last affected user requested. */
  recoveryMs: number | undefined
  tookMs: number
  /** It was not over in time, or could not be carried out. */
  failed: string[]
  /** Why this machine cannot do it. */
  skipped: string | undefined
}

export interface FaultOptions {
  faults: readonly Fault[]
  runs: number
  seed: number
  long: boolean
  /** Files that are read after the run, per account and run. */
  filesMax: number
  report: (line: string) => void
}

const peopleEach = 3
const allKinds: readonly Kind[] = ['change', 'look', 'upload', 'download']
const warmMs = 1_500
const coolMs = 1_000

/** On a separate cluster. @throws Error when that cannot be started */
export async function runFaultSuite(options: FaultOptions): Promise<FaultRow[]> {
  const cluster = await LocalCluster.start({
    smallDisk: { node: smallNode, mebibytes: options.long ? 2_048 : 512 },
  })
  try {
    return await runFaults(cluster, options)
  } finally {
    await cluster.stop()
  }
}

/** On a cluster that runs, and that others had before. */
export async function runFaults(cluster: LocalCluster, options: FaultOptions): Promise<FaultRow[]> {
  const { faults, runs, report } = options
  const regions = await cluster.regions()
  const people = await Promise.all(
    regions.flatMap((region) => Array.from({ length: peopleEach }, () => arrive(region))),
  )
  const rows: FaultRow[] = []
  const histories: { row: FaultRow; history: History; load: Load }[] = []
  let seed = options.seed
  for (const fault of faults) {
    const row = emptyRow(fault.name, runs)
    rows.push(row)
    for (let run = 0; run < runs; run++) {
      const history = new History()
      const load = new Load({ people, regions, history, seed: seed++, doubled: fault.doubled ?? false })
      const stage = new Stage({ cluster, regions, people, long: options.long, load })
      row.skipped = fault.impossible?.(stage)
      if (row.skipped !== undefined) break
      const startedMs = performance.now()
      await runOne(fault, { stage, row, filesMax: options.filesMax })
      for (const ended of await cluster.ended()) {
        row.failed.push(`${ended.name} ended by itself: ${ended.lastWords}`)
        await cluster.restart(ended.name)
      }
      row.tookMs += performance.now() - startedMs
      histories.push({ row, history, load })
      const { operations, lost, stale, wrongBytes, other } = check(history)
      const broken = [...lost, ...stale, ...wrongBytes, ...other]
      report(`${fault.name}: ${operations} operations, ${broken.length} broken promises`)
      for (const promise of broken.slice(0, 5)) report(`  ${promise}`)
    }
    report(lineOf(row))
  }
  // Effects of later faults on the results of earlier ones.
  for (const { row, history, load } of histories) {
    try {
      await load.lookAtRest({ filesMax: options.filesMax })
    } catch (error) {
      row.failed.push((error as Error).message)
    }
    add(row, check(history))
  }
  return rows
}

async function runOne(
  fault: Fault,
  { stage, row, filesMax }: { stage: Stage; row: FaultRow; filesMax: number },
): Promise<void> {
  const { load, people } = stage
  const fencedBefore = await stage.fencedWrites()
  await load.prepare()
  load.start()
  try {
    await stage.untilServed(people, { since: 0, kinds: ['change', 'look'] })
    await stage.pause(warmMs)
    const loadedMs = performance.now()
    await fault.run(stage)
    const since = fault.recovers === 'itself' ? stage.beganMs : stage.endedMs
    await stage.untilServed(people, { since: Math.max(since, stage.endedMs), kinds: fault.kinds ?? allKinds })
    const touched = people.filter((person) => fault.touches(person, stage))
    await stage.pause(coolMs)
    const recovering = fault.touchesAbroad ? people : touched
    if (fault.touchesAbroad) await stage.untilServed(people, { since, kinds: ['change'], abroad: true })
    for (const person of recovering) {
      const notBy = fault.touchesAbroad ? person.region : undefined
      const servedMs = stage.firstSuccess(person.id, { kind: 'change', since, notBy }) ?? Infinity
      row.recoveryMs = Math.max(row.recoveryMs ?? 0, servedMs - since)
    }
    const untouched = people.filter((person) => !touched.includes(person))
    row.untouchedOutMs = Math.max(
      row.untouchedOutMs,
      ...untouched.map((person) => outOf(load, { person, loadedMs })),
    )
  } catch (error) {
    row.failed.push((error as Error).message)
  }
  await load.stop()
  try {
    await fault.atRest?.(stage)
    await load.lookAtRest({ filesMax })
  } catch (error) {
    row.failed.push((error as Error).message)
  }
  row.fenced += (await stage.fencedWrites()) - fencedBefore
}

/** The longest time without success at the frontends of the account's region. */
function outOf({ successes }: Load, { person, loadedMs }: { person: Person; loadedMs: number }): number {
  const times = successes
    .filter(({ account, by }) => account === person.id && by === person.region)
    .map(({ answered }) => answered)
  const since = [
    loadedMs,
    ...times.filter((time) => time > loadedMs).sort((a, b) => a - b),
    performance.now(),
  ]
  return Math.max(...since.slice(1).map((time, at) => time - (since[at] as number)))
}

function emptyRow(fault: string, runs: number): FaultRow {
  return {
    fault,
    runs,
    operations: 0,
    acknowledged: 0,
    unknown: { happened: 0, absent: 0 },
    lost: [],
    stale: [],
    wrongBytes: [],
    other: [],
    fenced: 0,
    untouchedOutMs: 0,
    recoveryMs: undefined,
    tookMs: 0,
    failed: [],
    skipped: undefined,
  }
}

function add(row: FaultRow, verdict: Verdict): void {
  row.operations += verdict.operations
  row.acknowledged += verdict.acknowledged
  row.unknown.happened += verdict.unknown.happened
  row.unknown.absent += verdict.unknown.absent
  for (const kind of ['lost', 'stale', 'wrongBytes', 'other'] as const) row[kind].push(...verdict[kind])
}

/** What must be empty. */
export function faultsOf(row: FaultRow): string[] {
  return [...row.lost, ...row.stale, ...row.wrongBytes, ...row.other, ...row.failed]
}

export function tableOf(rows: readonly FaultRow[]): string {
  const heads = [
    'fault',
    'runs',
    'operations',
    'acknowledged',
    'no answer: happened / not',
    'acknowledged but lost',
    'wrong bytes',
    'stale',
    'refused stale writes',
    'longest out, untouched',
    'recovery',
  ]
  const cells = rows.map((row) =>
    [
      row.fault,
      row.skipped === undefined ? row.runs : 'skipped',
      row.operations,
      row.acknowledged,
      `${row.unknown.happened} / ${row.unknown.absent}`,
      row.lost.length,
      row.wrongBytes.length,
      row.stale.length + row.other.length,
      row.fenced,
      seconds(row.untouchedOutMs),
      seconds(row.recoveryMs),
    ].map(String),
  )
  const widths = heads.map((head, at) =>
    Math.max(head.length, ...cells.map((line) => (line[at] as string).length)),
  )
  return [heads, ...cells]
    .map((line) =>
      line
        .map((cell, at) =>
          at === 0 ? cell.padEnd(widths[at] as number) : cell.padStart(widths[at] as number),
        )
        .join(' | '),
    )
    .join('\n')
}

function lineOf(row: FaultRow): string {
  if (row.skipped !== undefined) return `${row.fault}: skipped, ${row.skipped}`
  return `${row.fault}: recovered after ${seconds(row.recoveryMs)}, untouched accounts out for ${seconds(row.untouchedOutMs)} at most; took ${seconds(row.tookMs)}${row.failed.map((reason) => `; ${reason}`).join('')}`
}

function seconds(ms: number | undefined): string {
  return ms === undefined ? '–' : `${(ms / 1_000).toFixed(1)} s`
}
