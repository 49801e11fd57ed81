/**
 * Comparing references with accounts in a cluster: each region's first actor host does it, for the
 * accounts that the region serves.
 */

import { Reconciler, type Round, reconcileAnsweredMs, roundInWords } from '@holdfast/actor-runtime'
import { Fault, type RegionCode, systemTimers } from '@holdfast/kernel'
import type { ClusterPart } from '../cluster-part.ts'
import { jsonAnswer } from '../json-answer.ts'
import { roundsKey } from '../row-keys.ts'
import { RateLimitedLog } from '../servers/rate-limited-log.ts'
import { heardByAll, reconcileSubjectOf } from '../subjects.ts'
import { scopeOf } from './account-rounds.ts'

const answerMs = reconcileAnsweredMs + 20_000

class ReconcileFault extends Fault {
  override readonly name = 'ReconcileFault'
  readonly code = 'RECONCILE'
  readonly category = 'unavailable'
}

/**
 * For an actor host: makes the rounds of its region while it is the first of its hosts, and accepts
 * requests for one.
 */
export function startReconciling(cluster: ClusterPart): { reconciler: Reconciler; close(): Promise<void> } {
  const { accounts, bus, clock, config, lookups, regions } = cluster
  const { nodeName, region } = config
  const log = cluster.log.child({ part: 'reconciler' })
  const map = regions
  const bornNowhere = new RateLimitedLog<string>((account, count) =>
    log.warn({ account, count }, 'references stay: their accounts were born in no region of this cluster'),
  )
  const reconciler = new Reconciler({
    accounts,
    listAccounts: (after) => cluster.listAccounts(after),
    listReferences: (after) => cluster.listReferences(after),
    isOurs: (account) => {
      const serving = servingOf(cluster, account)
      if (serving === undefined) bornNowhere.add(account)
      return serving === region
    },
    // Cassandra has its own copies.
    losses: () => 0,
    scope: () => scopeOf(region, { regions: config.regions, map }),
    notes: {
      read: () => lookups.get(roundsKey(region)),
      write: (value) => lookups.write([{ put: roundsKey(region), value }]),
    },
    leads: () => leaderOf(cluster, region) === nodeName && !cluster.isClockOff(),
    ...config.reconcile,
    clock,
    timers: systemTimers,
    log,
  })
  reconciler.start()
  const wanted = bus.subscribe(heardByAll.reconcileWanted, () => reconciler.wanted())
  const served = bus.serve(reconcileSubjectOf(nodeName), async (message) => {
    try {
      const { dryRun } = JSON.parse(Buffer.from(message).toString()) as { dryRun: boolean }
      const round = await reconciler.reconcile({ dryRun, signal: AbortSignal.timeout(reconcileAnsweredMs) })
      return jsonAnswer<{ round: Round }>({ round })
    } catch (error) {
      log.warn({ err: error }, 'references could not be compared with the accounts')
      return jsonAnswer<{ round: Round }>({ fault: (error as Error).message })
    }
  })
  return {
    reconciler,
    async close() {
      wanted.close()
      served.close()
      await reconciler.close()
      bornNowhere.close()
    },
  }
}

/** Sent to the hosts that make the rounds. The next pass repeats a lost message. */
export function wantRound({ bus }: Pick<ClusterPart, 'bus'>): void {
  bus.publish(heardByAll.reconcileWanted, new Uint8Array())
}

/**
 * A round in every region that serves accounts: each region's result, and the sums.
 * @throws ReconcileFault when a region could not do it; the others may have.
 */
export async function reconcileEverywhere(
  cluster: ClusterPart,
  { dryRun }: { dryRun: boolean },
): Promise<object> {
  const { bus, config, regions } = cluster
  const serving = [...new Set(config.regions.map((birth) => regions.homeOf(birth).serving))]
  const each = await Promise.all(
    serving.map(async (region): Promise<[RegionCode, Round]> => {
      const host = leaderOf(cluster, region)
      if (host === undefined) throw new ReconcileFault(`${region} has no actor host that is ready`)
      const question = Buffer.from(JSON.stringify({ dryRun }))
      const answer = await bus.request(reconcileSubjectOf(host), question, { timeoutMs: answerMs })
      const { round, fault } = JSON.parse(Buffer.from(answer).toString()) as { round?: Round; fault?: string }
      if (round === undefined) throw new ReconcileFault(`${region}: ${fault}`)
      return [region, round]
    }),
  )
  const sums: Record<string, number> = {}
  for (const [, { beganMs: _, endedMs: __, ...figures }] of each)
    for (const [name, value] of Object.entries(figures))
      if (typeof value === 'number') sums[name] = (sums[name] ?? 0) + value
  return {
    dryRun,
    ...sums,
    regions: Object.fromEntries(each.map(([code, round]) => [code, roundInWords(round)])),
  }
}

type Beat = ReturnType<ClusterPart['membership']['beats']>[number]
type LeaderBeat = Pick<Beat, 'id' | 'region' | 'roles' | 'ready'>

/**
 * The first ready one, by name, in the local view. Two for a moment do the same work twice, without
 * harm.
 */
export function leaderOf(
  { membership }: { membership: { beats(): readonly LeaderBeat[] } },
  region: RegionCode,
): string | undefined {
  return membership
    .beats()
    .filter((beat) => beat.region === region && beat.roles.includes('actor-host') && beat.ready)
    .map(({ id }) => id)
    .sort()[0]
}

/**
 * Undefined for an account that was born in no region of this installation: no account can own its
 * rows here. Its references stay, as the settings may lack a region that there was.
 */
function servingOf({ config, keyring, regions }: ClusterPart, account: string): RegionCode | undefined {
  const id = keyring.ids.parseAccount(account)
  const birth = id && keyring.ids.birthRegion(id)
  return birth && config.regions.includes(birth) ? regions.homeOf(birth).serving : undefined
}
