/** The operator's calls on storage nodes. */
import { Refusal } from '@holdfast/http-kit'
import { nodesOf } from '@holdfast/replication'
import type { ClusterPart } from './join-cluster.ts'

/**
 * Hands over what the node holds, then it may be stopped for good; `ctl status` tells how many
 * groups it is in still.
 * @throws Refusal `error-node` when no such node is alive.
 */
export async function drainNode(cluster: ClusterPart, node: string) {
  if (!isAlive(cluster, node)) throw new Refusal('error-node')
  await cluster.nodes.set(node, 'draining')
  return { node, order: 'draining', groups: groupsOf(cluster, node) }
}

/**
 * The node is gone for good: others take its place at once, instead of after
 * HOLDFAST_NODE_LOST_SECONDS.
 * @throws Refusal `error-node` when nobody knows it; `error-nodeAlive` when it lives and still is
 *   in groups: it is to be drained.
 */
export async function removeNode(cluster: ClusterPart, node: string) {
  const groups = groupsOf(cluster, node)
  // Heartbeats of one that was killed just now are not old yet.
  await cluster.membership.doubt(node)
  const alive = isAlive(cluster, node)
  if (alive && groups.length > 0) throw new Refusal('error-nodeAlive')
  if (!alive && groups.length === 0 && cluster.nodes.of(node) === undefined) throw new Refusal('error-node')
  await cluster.nodes.set(node, 'removed')
  return { node, order: 'removed', groups }
}

/**
 * An ordinary node again, that gets groups as a new one would. Nothing changes for one that is.
 * @throws Refusal `error-node` when nobody knows it.
 */
export async function returnNode(cluster: ClusterPart, node: string) {
  const isOrdinary = isAlive(cluster, node) || groupsOf(cluster, node).length > 0
  if (cluster.nodes.of(node) === undefined && !isOrdinary) throw new Refusal('error-node')
  await cluster.nodes.set(node, undefined)
  return { node, order: null, groups: groupsOf(cluster, node) }
}

function groupsOf({ groups }: ClusterPart, node: string): number[] {
  return groups.map
    .all()
    .filter((group) => nodesOf(group).includes(node))
    .map(({ number }) => number)
}

function isAlive({ peers }: ClusterPart, node: string): boolean {
  return peers.beats().some(({ id }) => id === node)
}
