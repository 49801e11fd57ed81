/** The cluster as one process sees it, and the progress of the copies. */

import { lagSubjectOf, quarantineSubjectOf } from '@holdfast/accounts'
import type { Lag, QuarantinedAccount } from '@holdfast/actor-runtime'
import type { Subscription } from '@holdfast/kernel'
import { isClockOff, type Member } from '@holdfast/membership'
import { nodesOf, type PlacementGroup, writeQuorum } from '@holdfast/replication'
import type { ClusterPart } from '../cluster-part.ts'
import { collectingStatus } from '../storage/collecting.ts'
import { groupsSubjectOf } from '../subjects.ts'

/** The report of a storage node about one of its groups. */
export interface GroupStatus {
  number: number
  /** Undefined when it has everything that the nodes it follows have; else the reason. */
  behind: string | undefined
}

const askMs = 2_000

/** Answers requests for a storage node's progress. */
export function serveGroupStatus(
  { bus, config }: ClusterPart,
  statuses: () => Promise<GroupStatus[]>,
): Subscription {
  return bus.serve(groupsSubjectOf(config.nodeName), async () =>
    Buffer.from(JSON.stringify(await statuses())),
  )
}

export async function clusterStatus(cluster: ClusterPart) {
  const { membership, groups, peers, config, regions, nodes: orders } = cluster
  const [statuses, collecting, quarantined, backup] = await Promise.all([
    groupStatuses(cluster, () => true),
    collectingStatus(cluster),
    quarantinedAccounts(cluster),
    backupStatus(cluster),
  ])
  const all = groups.map.all()
  const members = membership.members()
  const clockOffsetMs = new Map(members.map((member) => [member.id, Math.round(member.clockOffsetMs)]))
  const nodes = membership.beats().map((beat) => ({
    id: beat.id,
    role: beat.roles[0],
    region: beat.region,
    ready: beat.ready,
    load: beat.load,
    clockOffsetMs: clockOffsetMs.get(beat.id) ?? 0,
    ...(beat.roles.includes('actor-host') ? { accounts: beat.accounts } : {}),
    ...(beat.roles.includes('storage-node')
      ? {
          freeBytes: beat.freeBytes,
          lagMs: beat.lagMs,
          suspect: beat.suspect,
          placementGroups: all.filter((group) => nodesOf(group).includes(beat.id)).length,
          order: orders.of(beat.id) ?? null,
        }
      : {}),
    admin: beat.addresses.admin,
  }))
  const reported = all.map((group) => groupStatus(group, { cluster, statuses }))
  return {
    regions: config.regions.map((code) => ({
      code,
      ...regions.homeOf(code),
      reachable: code === config.region || regions.answering.includes(code),
      actorHosts: membership
        .beats()
        .filter(({ region, roles, ready }) => region === code && roles.includes('actor-host') && ready)
        .length,
    })),
    nodes,
    /** Nodes that a group names and that send no heartbeats. */
    silent: [...new Set(all.flatMap(nodesOf))]
      .filter((id) => !peers.beats().some((beat) => beat.id === id))
      .map((id) => ({ id, order: orders.of(id) ?? null })),
    placementGroups: reported,
    replication: {
      full: reported.every(({ full }) => full),
      says: summary(reported),
    },
    collecting,
    quarantined,
    backup,
    clocks: clocksStatus(members),
  }
}

/** Members whose wall clocks are far from the median of all. */
export function clocksStatus(members: readonly Member[]): { agree: boolean; says: string } {
  const off = members.filter(isClockOff)
  if (off.length === 0) return { agree: true, says: 'all clocks agree' }
  const named = off.map(({ id, clockOffsetMs }) => {
    const seconds = Math.abs(clockOffsetMs / 1_000).toFixed(1)
    return `${id} is ${seconds} s ${clockOffsetMs > 0 ? 'ahead' : 'behind'}`
  })
  const half = 2 * off.length >= members.length ? ' Which clocks are right is unknown.' : ''
  return {
    agree: false,
    says: `${named.join(', ')}. These fire no expiry until their clocks are right.${half}`,
  }
}

/** Less than the time of a queued request and a change in transit. */
const lagUsualMs = 2 * 60_000

/** How far second regions are behind acknowledged changes, as reported by hosts of accounts. */
export async function backupStatus({
  bus,
  membership,
  config,
}: Pick<ClusterPart, 'bus' | 'membership' | 'config'>): Promise<{
  accounts: number
  lagSeconds: number
  says: string
}> {
  if (config.regions.length === 1) return { accounts: 0, lagSeconds: 0, says: 'there is one region alone' }
  const hosts = membership.beats().filter(({ roles }) => roles.includes('actor-host'))
  const reported = hosts.map(async ({ id }): Promise<Lag & { id: string; silent?: true }> => {
    try {
      const answer = await bus.request(lagSubjectOf(id), new Uint8Array(), { timeoutMs: askMs })
      return { id, ...(JSON.parse(Buffer.from(answer).toString()) as Lag) }
    } catch {
      return { id, accounts: 0, ms: 0, silent: true }
    }
  })
  const lags = await Promise.all(reported)
  const farthest = lags.reduce((one, other) => (other.ms > one.ms ? other : one), {
    id: '',
    accounts: 0,
    ms: 0,
  })
  const accounts = lags.reduce((sum, lag) => sum + lag.accounts, 0)
  const lagSeconds = Math.round(farthest.ms / 1_000)
  const silent = lags.filter((lag) => lag.silent).map(({ id }) => id)
  const unknown = silent.length === 0 ? '' : `; ${silent.join(', ')} did not answer`
  const says =
    farthest.ms > lagUsualMs
      ? `${accounts} accounts have changes that are not known to be in their second region, the oldest for ${lagSeconds} s at ${farthest.id}`
      : 'what was acknowledged is in two regions'
  return { accounts, lagSeconds, says: `${says}${unknown}` }
}

/** The accounts that hosts have in quarantine. A host that does not answer is missing. */
async function quarantinedAccounts({
  bus,
  membership,
}: ClusterPart): Promise<(QuarantinedAccount & { host: string })[]> {
  const hosts = membership.beats().filter(({ roles }) => roles.includes('actor-host'))
  const reported = hosts.map(async ({ id: host }) => {
    try {
      const answer = await bus.request(quarantineSubjectOf(host), new Uint8Array(), { timeoutMs: askMs })
      const accounts = JSON.parse(Buffer.from(answer).toString()) as QuarantinedAccount[]
      return accounts.map((account) => ({ host, ...account }))
    } catch {
      return []
    }
  })
  return (await Promise.all(reported)).flat()
}

/**
 * The placement groups of this process's region with their copies, as `clusterStatus` has them.
 * Undefined: without a link to NATS nothing is known.
 */
export async function ownGroups(cluster: ClusterPart) {
  if (!cluster.bus.up) return undefined
  const own = cluster.groups.map.all().filter(({ region }) => region === cluster.config.region)
  const nodes = new Set(own.flatMap(nodesOf))
  const statuses = await groupStatuses(cluster, (id) => nodes.has(id))
  return own.map((group) => {
    const { full, copies, limited } = groupStatus(group, { cluster, statuses })
    return { full, copies, limited }
  })
}

/** By node, then by group; a node that does not answer is missing. */
async function groupStatuses(
  { bus, peers }: ClusterPart,
  isAsked: (node: string) => boolean,
): Promise<Map<string, Map<number, GroupStatus>>> {
  const nodes = peers.beats().filter(({ id }) => isAsked(id))
  const asked = nodes.map(async ({ id }): Promise<[string, Map<number, GroupStatus>] | undefined> => {
    try {
      const answer = await bus.request(groupsSubjectOf(id), new Uint8Array(), { timeoutMs: askMs })
      const statuses = JSON.parse(Buffer.from(answer).toString()) as GroupStatus[]
      return [id, new Map(statuses.map((status) => [status.number, status]))]
    } catch {
      return undefined
    }
  })
  return new Map((await Promise.all(asked)).filter((answer) => answer !== undefined))
}

function groupStatus(
  group: PlacementGroup,
  { cluster, statuses }: { cluster: ClusterPart; statuses: Map<string, Map<number, GroupStatus>> },
) {
  const { peers, nodes: orders } = cluster
  const usable = peers.beats().filter(({ id, ready }) => ready && orders.of(id) === undefined)
  const elsewhere = usable.filter(({ region }) => region !== group.region).length
  const possible = {
    home: Math.min(writeQuorum, usable.filter(({ region }) => region === group.region).length),
    remote: Math.min(1, elsewhere),
  }
  const lacking: string[] = []
  const whole = (ids: readonly string[]) =>
    ids.filter((id) => {
      const status = statuses.get(id)?.get(group.number)
      if (!peers.isAlive(id)) lacking.push(`${id} is silent or accepts nothing`)
      else if (status === undefined) lacking.push(`${id} has not joined the group yet`)
      else if (status.behind !== undefined) lacking.push(`${id} ${status.behind}`)
      else return true
      return false
    }).length
  const copies = { home: whole(group.members), remote: whole(group.remote) }
  if (group.members.length < possible.home)
    lacking.push(`another node of ${group.region} is going to replace it`)
  if (group.remote.length < possible.remote) lacking.push('a node of another region is going to replace it')
  const limited = [
    ...(possible.home < writeQuorum && group.members.length < writeQuorum
      ? [`${group.region} has no more storage nodes`]
      : []),
    ...(possible.remote < 1 && group.remote.length < 1 ? ['no other region has storage nodes'] : []),
  ]
  return {
    ...group,
    copies: { ...copies, wanted: { home: writeQuorum, remote: 1 } },
    full: lacking.length === 0,
    ...(lacking.length > 0 ? { lacking } : {}),
    ...(limited.length > 0 ? { limited } : {}),
  }
}

function summary(groups: readonly { number: number; full: boolean; limited?: string[] }[]): string {
  const short = groups.filter(({ full }) => !full)
  if (short.length > 0)
    return `${short.length} of ${groups.length} placement groups lack copies: ${short.map(({ number }) => number).join(', ')}`
  const limited = groups.filter(({ limited }) => limited !== undefined)
  if (limited.length === 0) return `all ${groups.length} placement groups have every copy`
  const why = [...new Set(limited.flatMap(({ limited }) => limited ?? []))].join(', ')
  return `all ${groups.length} placement groups have every copy that the nodes allow; ${limited.length} have fewer than wanted: ${why}`
}
