/**
 * Moves the homes of a region's accounts.
 *
 * Takes a region over: the homes of its accounts move to the region that also keeps their journals,
 * under the next term.
 *
 * The old region cannot be stopped from here. The term fences it: the successor writes to other
 * partitions, the old hosts refuse as soon as any region sends them the term, and a starting host
 * learns it before it serves. Two kinds of changes are lost: those that the old hosts acknowledge
 * until then, and earlier ones that did not reach the successor. So the operator must assure that
 * the region is off or isolated, unless more than half of all regions answer, not counting this
 * one.
 *
 * Moves homes back while the region that serves the accounts is alive: then nothing is lost. Each
 * account is closed there before it is opened here, by its first request, and finally by a pass
 * over all of them. Until then both regions are asked for what was not opened yet.
 */

import { setTimeout as delay } from 'node:timers/promises'
import { RefusalError } from '@holdfast/http-kit'
import type { PassStep, TakeFailure, TakenJournal } from '@holdfast/journal-cassandra'
import type { Clock, RegionCode, Subscription } from '@holdfast/kernel'
import { CheckpointRoot } from '@holdfast/wire'
import type { ClusterPart } from '../cluster-part.ts'
import { jsonAnswer } from '../json-answer.ts'
import { takeoverKey } from '../row-keys.ts'
import { heardByAll, takeoverSubjectOf } from '../subjects.ts'
import { backupOf } from './region-order.ts'

/** The successor's findings. Accounts are named up to `namedMax`. */
export interface TakenOver {
  accounts: number
  /** Rows known to have been written that did not arrive. */
  lostRows: number
  /** Accounts with such rows. */
  cutShort: { account: string; cut: number; known: number }[]
  /** Accounts that could not be opened: they answer unavailable. */
  failures: { account: string; fault: string }[]
  /** Time of the newest change known here; later ones, if any, did not arrive. */
  newestChange: string | null
}

const namedMax = 100
/**
 * After this time no account is made at the old home any more: a host reads the region map again
 * after 15 s at most, and its callers give up after the same time.
 */
const settleMsDefault = 30_000
/** A host works on accounts for this long, and then reports its progress. */
const portionMs = 15_000
/** After this time it answers what it has, even while a slow account is not done. */
const portionAnswerMs = portionMs + 45_000
/**
 * An operator's call begins no portion after this time; the next call continues where it ended. The
 * wait until homes have settled and the last portion come on top. The sum is below the time-outs on
 * the way of the answer.
 */
const takeMs = 60_000
/** A host may be lost, or its data out of reach for a moment: another one continues. */
const portionAttempts = 3
const againMsDefault = 2_000

/** Lets the actor hosts of this region accept requests to take over; one of them does it. */
export function serveTakeover(cluster: ClusterPart): Subscription {
  const { bus, config, regions, log, clock } = cluster
  return bus.serve(takeoverSubjectOf(config.region), async (message) => {
    try {
      const { birth, after } = JSON.parse(Buffer.from(message).toString()) as {
        birth: RegionCode
        after?: string
      }
      await regions.refresh()
      return jsonAnswer<Portion>(
        await portionOf(cluster.takeAll(birth, after), { clock, ms: portionMs, after }),
      )
    } catch (error) {
      log.warn({ err: error }, 'the accounts of a region could not be taken over')
      return jsonAnswer<Portion>({ fault: (error as Error).message })
    }
  })
}

/**
 * @returns what moved, and what may have been lost. Safe to repeat: it then reports what is known
 *   by now. When it is not `complete` there are more accounts than one call handles: the next call
 *   continues and adds up.
 * @throws RefusalError `error-region` no such region, or no other keeps its journals;
 *   `error-regionAlive` while its actor hosts are heard; `error-notFenced` when too few regions
 *   answer and the operator gave no assurance.
 */
export async function evacuate(cluster: ClusterPart, code: string, { fenced }: { fenced: boolean }) {
  const { config, regions, bus } = cluster
  const birth = config.regions.find((region) => region === code)
  if (birth === undefined || backupOf(regions.order, birth) === undefined)
    throw new RefusalError('error-region')
  await regions.refresh()
  const known = regions.homeOf(birth)
  if (known.serving === birth) {
    await assertSilent(cluster, birth)
    const majority = Math.floor(config.regions.length / 2) + 1
    const others = regions.answering.filter((region) => region !== birth)
    if (!fenced && others.length < majority) throw new RefusalError('error-notFenced')
  }
  const { home, heard } = await regions.moveHome(birth)
  bus.publish(heardByAll.homes, new Uint8Array())
  return {
    region: birth,
    serving: home.serving,
    term: home.term,
    moved: known.serving === birth,
    regionsThatKnow: heard,
    ...(await takenOver(cluster, { birth, ...home })),
    files: filesOf(cluster, birth),
  }
}

/**
 * Moves the accounts of a region back home.
 * @param options.fenced the operator's assurance that the region that serves them now is off or
 *   isolated: then only data that has arrived counts.
 * @returns what moved. Safe to repeat: it continues with what could not be taken over.
 * @throws RefusalError `error-region` no such region, or no other keeps its journals;
 *   `error-regionHome` when its accounts were never served elsewhere; `error-regionAway` while it
 *   has no actor hosts, or the one that serves its accounts does not answer; `error-regionAlive`
 *   with `fenced`, while that one's actor hosts are heard.
 */
export async function returnHome(
  cluster: ClusterPart,
  code: string,
  { fenced, settleMs = settleMsDefault }: { fenced: boolean; settleMs?: number },
) {
  const { config, regions, bus } = cluster
  const birth = config.regions.find((region) => region === code)
  const other = birth && backupOf(regions.order, birth)
  if (birth === undefined || other === undefined) throw new RefusalError('error-region')
  await regions.refresh()
  const known = regions.homeOf(birth)
  if (known.term === 1) throw new RefusalError('error-regionHome')
  if (known.serving !== birth || known.handedOver) await assertReturnable(cluster, { birth, other, fenced })
  const { home, heard } = await regions.moveHome(birth, { to: birth, handedOver: !fenced })
  const change = new Uint8Array()
  bus.publish(heardByAll.homes, change)
  if (home.handedOver && fenced) await regions.endHandover(birth)
  else if (home.handedOver && !(await hasBegun(cluster, birth, home))) await delay(settleMs)
  const found = await takenOver(cluster, { birth, ...home, serving: birth })
  if (home.handedOver && found.complete && found.failures.length === 0) await regions.endHandover(birth)
  bus.publish(heardByAll.homes, change)
  return {
    region: birth,
    serving: home.serving,
    term: home.term,
    moved: known.serving !== birth,
    regionsThatKnow: heard,
    ...found,
  }
}

async function assertReturnable(
  cluster: ClusterPart,
  { birth, other, fenced }: { birth: RegionCode; other: RegionCode; fenced: boolean },
): Promise<void> {
  if (hostsOf(cluster, birth).length === 0) throw new RefusalError('error-regionAway')
  if (!fenced && !cluster.regions.answering.includes(other)) throw new RefusalError('error-regionAway')
  if (fenced) await assertSilent(cluster, other)
}

/** @throws RefusalError `error-regionAlive` */
async function assertSilent(cluster: ClusterPart, region: RegionCode): Promise<void> {
  await Promise.all(hostsOf(cluster, region).map(({ id }) => cluster.membership.suspect(id)))
  if (hostsOf(cluster, region).length > 0) throw new RefusalError('error-regionAlive')
}

function hostsOf({ membership }: ClusterPart, code: RegionCode) {
  return membership.beats().filter(({ region, roles }) => region === code && roles.includes('actor-host'))
}

/** An earlier call has waited, and visited some of the accounts. */
async function hasBegun(
  { lookups }: ClusterPart,
  birth: RegionCode,
  { term }: { term: number },
): Promise<boolean> {
  return (await lookups.get(takeoverKey(birth, { term }))) !== undefined
}

/**
 * Visits all accounts, in portions. Its progress is a row `takeover/<birth>/<term>` until it is
 * done, so that the next call continues an interrupted one.
 */
export async function takenOver(
  { bus, clock, lookups }: Pick<ClusterPart, 'bus' | 'clock' | 'lookups'>,
  { birth, serving, term }: { birth: RegionCode; serving: RegionCode; term: number },
  againMs = againMsDefault,
): Promise<TakenOver & { complete: boolean }> {
  const key = takeoverKey(birth, { term })
  const row = await lookups.get(key)
  const begun = row && (JSON.parse(Buffer.from(row).toString()) as { sum: TakenOver; next: string })
  let sum = begun?.sum ?? nothingTaken()
  let next = begun?.next
  const endsMs = clock.monotonic() + takeMs
  const portionBehind = async (after: string | undefined) => {
    for (let attempt = 1; ; attempt++)
      try {
        return await askPortion(bus, { birth, serving, after })
      } catch (error) {
        if (attempt === portionAttempts || clock.monotonic() >= endsMs) throw error
        await delay(againMs)
      }
  }
  do {
    const portion = await portionBehind(next)
    sum = sumOf(sum, portion.taken)
    next = portion.next
    if (next === undefined) await lookups.write([{ delete: key }])
    else await lookups.write([{ put: key, value: Buffer.from(JSON.stringify({ sum, next })) }])
  } while (next !== undefined && clock.monotonic() < endsMs)
  return { ...sum, complete: next === undefined }
}

/** @throws Error `unavailable` when the region does not answer, or answers with a fault */
async function askPortion(
  bus: ClusterPart['bus'],
  { birth, serving, after }: { birth: RegionCode; serving: RegionCode; after: string | undefined },
): Promise<Portion> {
  const question = Buffer.from(JSON.stringify({ birth, after }))
  const answer = await bus.request(takeoverSubjectOf(serving), question, { timeoutMs: portionAnswerMs })
  const portion = JSON.parse(Buffer.from(answer).toString()) as Portion | { fault: string }
  if ('taken' in portion) return portion
  throw Object.assign(new Error(`the homes of ${birth} have moved, but ${serving} says: ${portion.fault}`), {
    category: 'unavailable',
  })
}

/**
 * The time up to which other regions have copies of the region's files. A file that was uploaded
 * later may be only on nodes of the region.
 */
function filesOf({ groups, peers }: ClusterPart, birth: RegionCode) {
  const beats = new Map(peers.beats().map((beat) => [beat.id, beat]))
  return groups.map
    .all()
    .filter(({ region }) => region === birth)
    .map(({ number, members, remote }) => {
      const marks = remote.flatMap((id) => {
        const covered = beats.get(id)?.coveredMs
        return covered === undefined ? [] : [Math.min(...members.map((member) => covered[member] ?? 0))]
      })
      const coveredMs = Math.max(0, ...marks)
      const completeUntil = coveredMs === 0 ? null : new Date(coveredMs).toISOString()
      return { placementGroup: number, heldBy: remote.filter((id) => beats.has(id)), completeUntil }
    })
}

interface Portion {
  taken: TakenOver
  /** Where the next one continues; undefined: it was the last. */
  next: string | undefined
}

/** Takes accounts over for this time. It gets at least one place beyond `after`. */
export async function portionOf(
  all: AsyncIterable<PassStep>,
  { clock, ms, after }: { clock: Pick<Clock, 'monotonic'>; ms: number; after: string | undefined },
): Promise<Portion> {
  const endsMs = clock.monotonic() + ms
  let taken = nothingTaken()
  for await (const step of all) {
    if ('account' in step) taken = sumOf(taken, takenOf(step))
    if (clock.monotonic() >= endsMs && step.place !== after) return { taken, next: step.place }
  }
  return { taken, next: undefined }
}

function nothingTaken(): TakenOver {
  return { accounts: 0, lostRows: 0, cutShort: [], failures: [], newestChange: null }
}

function takenOf(step: TakenJournal | TakeFailure): TakenOver {
  if ('fault' in step) {
    const failure = { account: step.account, fault: (step.fault as Error).message }
    return { ...nothingTaken(), failures: [failure] }
  }
  const { account, cut, known, changedMs } = step
  const lostRows = Math.max(0, known - cut)
  const cutShort = lostRows > 0 ? [{ account, cut, known }] : []
  const newestChange = changedMs > 0 ? new Date(changedMs).toISOString() : null
  return { accounts: 1, lostRows, cutShort, failures: [], newestChange }
}

function sumOf(one: TakenOver, other: TakenOver): TakenOver {
  const newest = [one.newestChange, other.newestChange].filter((change) => change !== null).sort()
  return {
    accounts: one.accounts + other.accounts,
    lostRows: one.lostRows + other.lostRows,
    cutShort: [...one.cutShort, ...other.cutShort].slice(0, namedMax),
    failures: [...one.failures, ...other.failures].slice(0, namedMax),
    newestChange: newest.at(-1) ?? null,
  }
}

/** Names of the pages that a checkpoint needs. */
export function pagesNamedBy(root: Uint8Array): readonly string[] {
  return CheckpointRoot.decode(root).pages
}
