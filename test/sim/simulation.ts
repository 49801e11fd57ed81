/** One run: a cluster, its users, its faults, healing, and the checks. */

import type { AccountState } from '@holdfast/content-tree'
import { hex } from '@holdfast/kernel'
import type { AccountReply, Item } from '@holdfast/wire'
import { Chaos } from './chaos.ts'
import { check } from './checker.ts'
import { Cluster } from './cluster.ts'
import { History } from './history.ts'
import { checkCodes, checkReports, checkRest, checkUnasked, walk, watchReferences } from './invariants.ts'
import type { ClusterPlants } from './planted.ts'
import { Dice } from './random.ts'
import { Scheduler, startMs } from './scheduler.ts'
import { Storage } from './storage.ts'
import { type KnownAccount, namedBlobs, Workload } from './workload.ts'

export interface Run {
  /** Which simulation it was. */
  kind: 'cluster' | 'evacuation' | 'disk'
  seed: number
  violations: string[]
  digest: string
  simulatedMs: number
  events: number
  asked: number
  changes: number
}

export interface RunOptions {
  seed: number
  plants?: ClusterPlants
  printLine?: (line: string) => void
}

const restMs = 30_000

export async function simulate({ seed, plants = {}, printLine }: RunOptions): Promise<Run> {
  const scheduler = new Scheduler(printLine)
  const dice = new Dice(seed)
  const history = new History()
  const cluster = new Cluster(scheduler, dice.fork(), plants)
  const stored = dice.chance(0.4) || plants.storage !== undefined
  const storage = stored ? new Storage(cluster, dice.fork(), plants.storage) : undefined
  const workload = new Workload(cluster, history, {
    dice: dice.fork(),
    uploads: storage ?? namedBlobs,
    accounts: 1 + dice.roll(3),
    answered: (reply) => void checkCodes(cluster, history, reply),
  })
  watchReferences(cluster, history)
  let changes = 0
  try {
    await scheduler.until(live(cluster, workload, { dice, storage }))
    changes = await scheduler.until(judge(cluster, workload, { history, storage }))
  } catch (error) {
    history.violated(`the run failed: ${(error as Error).stack}`)
  }
  return {
    kind: 'cluster',
    seed,
    violations: history.violations,
    digest: scheduler.digest(),
    simulatedMs: scheduler.nowMs - startMs,
    events: scheduler.events,
    asked: history.asked.length,
    changes,
  }
}

async function live(
  cluster: Cluster,
  workload: Workload,
  { dice, storage }: { dice: Dice; storage: Storage | undefined },
): Promise<void> {
  const { scheduler } = cluster
  cluster.start()
  await storage?.start()
  await workload.begin()
  const chaos = new Chaos(cluster, dice.fork())
  chaos.more.push(...(storage?.troubles() ?? []))
  const timers: Promise<void>[] = []
  if (dice.chance(0.4)) chaos.more.push(() => void timers.push(workload.timer((host) => chaos.stale(host))))
  const least = storage === undefined ? 20_000 : 50_000
  const untilMs = scheduler.nowMs + dice.between(least, least + 40_000)
  const eagerMs = dice.pick([100, 400, 1_500])
  const users = Array.from({ length: 2 + dice.roll(5) }, () => workload.user(untilMs, eagerMs))
  await Promise.all([chaos.run(untilMs), ...users])
  await Promise.all(timers)
  // What is acknowledged by now is carried out without further requests.
  if (dice.chance(0.5)) for (const id of cluster.hostIds) cluster.crash(id)
  cluster.heal()
  await storage?.heal()
  await scheduler.wait(restMs)
}

async function judge(
  cluster: Cluster,
  workload: Workload,
  { history, storage }: { history: History; storage: Storage | undefined },
): Promise<number> {
  const final = new Map<string, { state: AccountState; tree: Item; view: AccountReply }>()
  await checkUnasked(cluster, history)
  checkReports(cluster, history)
  history.settledFrom = cluster.scheduler.note('users look')
  const looks: [KnownAccount, Awaited<ReturnType<Workload['look']>>][] = []
  for (const account of workload.accounts) looks.push([account, await workload.look(account)])
  const { states, changes } = check(history, cluster.shared.appended, cluster.decided)
  for (const [account, look] of looks) {
    const state = states.get(account.id)
    if (look === undefined) history.violated(`${account.id.slice(0, 4)} does not answer after healing`)
    else if (state !== undefined) final.set(account.id, { state, ...look })
  }
  await checkRest(cluster, history, final)
  if (storage !== undefined) await checkCopies(storage, history, final)
  return changes
}

/** Every file's bytes are whole at every node that should hold them. */
async function checkCopies(
  storage: Storage,
  history: History,
  final: ReadonlyMap<string, { tree: Item }>,
): Promise<void> {
  for (const [account, { tree }] of final)
    for (const { blob, id } of walk(tree)) {
      if (blob === undefined) continue
      const faults = await storage.faultsOf(blob)
      if (faults.length > 0)
        history.violated(
          `${account.slice(0, 4)}: the bytes ${hex(blob.incarnation).slice(0, 6)} of ${id} are missing: ${faults.join(', ')}`,
        )
    }
}
