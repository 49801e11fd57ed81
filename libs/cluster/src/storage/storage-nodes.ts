/** The operator's calls on storage nodes. */
import { RefusalError } from '@holdfast/http-kit'
import { nodesOf } from '@holdfast/replication'
import type { ClusterPart } from '../cluster-part.ts'

/**
 * Moves away what the node holds; then it may be stopped permanently. `ctl status` shows how many
 * groups it is still in.
 * @throws RefusalError `error-node` when no such node is alive.
 */
export async function drainNode(cluster: ClusterPart, node: string) {
  if (!isAlive(cluster, node)) throw new RefusalError('error-node')
  await cluster.nodes.set(node, 'draining')
  return { node, order: 'draining', groups: groupsOf(cluster, node) }
}

/**
 * The node is permanently gone: others replace it at once, instead of after
 * HOLDFAST_NODE_LOST_SECONDS.
 * @throws RefusalError `error-node` when it is unknown; `error-nodeAlive` when it is alive and
 *   still in groups: drain it first.
 */
export async function removeNode(cluster: ClusterPart, node: string) {
  const groups = groupsOf(cluster, node)
  // The last heartbeat of a node that was just killed is still recent.
  await cluster.membership.suspect(node)
  const alive = isAlive(cluster, node)
  if (alive && groups.length > 0) throw new RefusalError('error-nodeAlive')
  if (!alive && groups.length === 0 && cluster.nodes.of(node) === undefined)
    throw new RefusalError('error-node')
  await cluster.nodes.set(node, 'removed')
  return { node, order: 'removed', groups }
}

/**
 * An ordinary node again, which gets groups like a new one. Changes nothing for an ordinary one.
 * @throws RefusalError `error-node` when it is unknown.
 */
export async function returnNode(cluster: ClusterPart, node: string) {
  const isOrdinary = isAlive(cluster, node) || groupsOf(cluster, node).length > 0
  if (cluster.nodes.of(node) === undefined && !isOrdinary) throw new RefusalError('error-node')
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
