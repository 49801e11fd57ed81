/** The operator's calls on storage nodes. */
import { RefusalError } from '@holdfast/http-kit'
import { nodesOf } from '@holdfast/replication'
import type { ClusterPart } from '../cluster-part.ts'

type NodeParts = Pick<ClusterPart, 'peers' | 'nodes' | 'groups'>

/**
 * Moves away what the node holds; then it may be stopped permanently. `ctl status` shows how many
 * groups it is still in.
 * @throws RefusalError `error-node` when no such node is alive; `error-nodeLast` when no other node
 *   of its region could take what it holds: that drain would never end, and its groups would take
 *   no uploads.
 */
export async function drainNode(cluster: NodeParts, node: string) {
  const { nodes } = cluster
  if (!isAlive(cluster, node)) throw new RefusalError('error-node')
  await nodes.refresh()
  const before = nodes.of(node)
  assertOthers(cluster, node)
  await nodes.set(node, 'draining')
  try {
    // Another process may drain the other node at this moment. The one that wrote last sees both.
    assertOthers(cluster, node)
  } catch (error) {
    await nodes.set(node, before)
    throw error
  }
  return { node, order: 'draining', groups: groupsOf(cluster, node) }
}

/** By the orders that were read last. */
function assertOthers({ peers, nodes }: NodeParts, node: string): void {
  const beats = peers.beats()
  const region = beats.find(({ id }) => id === node)?.region
  const isOther = (beat: (typeof beats)[number]) =>
    beat.id !== node && beat.region === region && beat.ready && nodes.of(beat.id) === undefined
  if (!beats.some(isOther)) throw new RefusalError('error-nodeLast')
}

/**
 * The node is permanently gone: others replace it at once, instead of after
 * HOLDFAST_NODE_LOST_SECONDS.
 * @throws RefusalError `error-node` when it is unknown; `error-nodeAlive` when it is alive and
 *   still in groups: drain it first.
 */
export async function removeNode(cluster: NodeParts & Pick<ClusterPart, 'membership'>, node: string) {
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
export async function returnNode(cluster: NodeParts, node: string) {
  const isOrdinary = isAlive(cluster, node) || groupsOf(cluster, node).length > 0
  if (cluster.nodes.of(node) === undefined && !isOrdinary) throw new RefusalError('error-node')
  await cluster.nodes.set(node, undefined)
  return { node, order: null, groups: groupsOf(cluster, node) }
}

function groupsOf({ groups }: NodeParts, node: string): number[] {
  return groups.map
    .all()
    .filter((group) => nodesOf(group).includes(node))
    .map(({ number }) => number)
}

function isAlive({ peers }: NodeParts, node: string): boolean {
  return peers.beats().some(({ id }) => id === node)
}
