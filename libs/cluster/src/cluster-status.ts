/** The cluster as one process sees it. */
import { nodesOf, quorumOf } from '@holdfast/replication'
import type { ClusterPart } from './join-cluster.ts'

export function clusterStatus({ membership, groups, peers, config, regions }: ClusterPart) {
  const nodes = membership.beats().map((beat) => ({
    id: beat.id,
    role: beat.roles[0],
    region: beat.region,
    ready: beat.ready,
    load: beat.load,
    ...(beat.roles.includes('actor-host') ? { accounts: beat.accounts } : {}),
    ...(beat.roles.includes('storage-node') ? { freeBytes: beat.freeBytes, lagMs: beat.lagMs } : {}),
    admin: beat.addresses.admin,
  }))
  const all = groups.map.all().map((group) => {
    const alive = nodesOf(group).filter((id) => peers.isAlive(id))
    const members = group.members.filter((id) => peers.isAlive(id))
    const full = members.length >= quorumOf(group) && alive.length === nodesOf(group).length
    return { ...group, alive, full }
  })
  return {
    regions: config.regions.map((code) => ({ code, ...regions.homeOf(code) })),
    nodes,
    placementGroups: all,
    full: all.every(({ full }) => full),
  }
}
