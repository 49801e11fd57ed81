/**
 * A region that is cut off and taken over, but not dead: its homes move to the other one under the
 * next term, while it continues to acknowledge until it learns of that. What it acknowledged behind
 * the cut is the loss window. What the successor acknowledged stays, also when the line is back and
 * everything delayed arrives.
 */
import { Centre } from './centres.ts'
import { check } from './checker.ts'
import { Cluster } from './cluster.ts'
import { History } from './history.ts'
import { Dice } from './random.ts'
import { Scheduler } from './scheduler.ts'
import type { Run } from './simulation.ts'
import { namedBlobs, Workload } from './workload.ts'

/** No checkpoints: their way to the other region is not simulated. */
const bounds = { checkpointBytesMin: 4_000_000, tailFlushesMax: 4_000 }

export async function evacuate({
  seed,
  merged = false,
  printLine,
}: {
  seed: number
  /** Planted: partitions without the term. */
  merged?: boolean
  printLine?: (line: string) => void
}): Promise<Run> {
  const scheduler = new Scheduler(printLine)
  const dice = new Dice(seed)
  const history = new History()
  const partitionKey = (account: string, term: number) => (merged ? account : `${account}/${term}`)
  const [eu, na] = ['eu', 'na'].map(() => {
    const centre = new Centre(scheduler, dice.fork(), partitionKey)
    const cluster = new Cluster(scheduler, dice.fork(), { sharedJournal: () => centre }, bounds)
    return { centre, cluster }
  }) as [{ centre: Centre; cluster: Cluster }, { centre: Centre; cluster: Cluster }]
  eu.centre.replicateTo(na.centre)
  na.centre.replicateTo(eu.centre)
  const common = { uploads: namedBlobs, answered: () => {} }
  const before = new Workload(eu.cluster, history, {
    ...common,
    dice: dice.fork(),
    accounts: 1 + dice.roll(2),
  })
  const after = new Workload(na.cluster, history, { ...common, dice: dice.fork(), accounts: before.accounts })

  let cutOff = Number.POSITIVE_INFINITY
  const run = async () => {
    eu.cluster.start()
    await before.begin()
    const users = (workload: Workload, untilMs: number) =>
      Promise.all([1, 2, 3].map(() => workload.user(untilMs, 300)))
    await users(before, scheduler.nowMs + dice.between(3_000, 10_000))
    cutOff = scheduler.note('the line between the regions is cut')
    eu.centre.connected = false
    na.centre.connected = false
    const stale = users(before, scheduler.nowMs + dice.between(1_000, 15_000))
    await scheduler.wait(dice.between(500, 6_000))
    scheduler.note('evacuated')
    na.centre.term = 2
    na.cluster.start()
    const work = users(after, scheduler.nowMs + dice.between(3_000, 12_000))
    await Promise.all([work, stale])
    scheduler.note('the line is back; the old region learns of the term and stops')
    for (const id of [...eu.cluster.hostIds, ...eu.cluster.frontendIds]) eu.cluster.crash(id)
    eu.centre.connected = true
    na.centre.connected = true
    await scheduler.wait(5_000)
    // Nothing from memory: everything is read back from the stores.
    for (const id of na.cluster.hostIds) na.cluster.crash(id)
    na.cluster.heal()
    await scheduler.wait(5_000)
    for (const account of before.accounts)
      if ((await after.look(account)) === undefined)
        history.violated(`${account.id.slice(0, 4)} does not answer after the evacuation`)
  }
  let changes = 0
  try {
    await scheduler.until(run())
    changes = judge(history, { eu, na, cutOff })
  } catch (error) {
    history.violated(`the run failed: ${(error as Error).stack}`)
  }
  return {
    kind: 'evacuation',
    seed,
    violations: history.violations,
    digest: scheduler.digest(),
    simulatedMs: scheduler.elapsedMs,
    events: scheduler.events,
    asked: history.asked.length,
    changes,
  }
}

type Region = { centre: Centre; cluster: Cluster }

/** One history: the old region's rows up to the cut, then the successor's. */
function judge(history: History, { eu, na, cutOff }: { eu: Region; na: Region; cutOff: number }): number {
  const kept = eu.cluster.shared.appended.filter(
    ({ account, seq }) => seq <= (na.centre.cuts.get(account) ?? 0),
  )
  const keptSteps = new Set(kept.map(({ step }) => step))
  const lost = eu.cluster.shared.appended.filter(({ step }) => !keptSteps.has(step))
  const firstLost = Math.min(...lost.map(({ step }) => step), cutOff)
  // What the old region answered from there on is the loss window.
  for (const one of history.asked)
    if (one.region === eu.cluster && one.responded >= firstLost) one.reply = undefined
  const rows = [...kept, ...na.cluster.shared.appended]
  const decided = new Map([...eu.cluster.decided, ...na.cluster.decided])
  return check(history, rows, decided).changes
}
