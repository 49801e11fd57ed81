/**
 * Removes a node from a group without losing a copy: it closes the group, waits for open uploads,
 * makes sure that others hold everything that this node holds, and only then leaves. A node outside
 * the home region closes only itself: the others continue to accept uploads.
 *
 * Every step can be repeated after a crash: the rows and the node's own note record the progress.
 * Replacing a lost node needs none of this: the group's next version names another member, which
 * compares inventories with the remaining ones (`Replicator`).
 */
import { BlobFault, nameOfCopy, pinMsMax } from '@holdfast/blob-store'
import type { LocalNode } from './local-node.ts'
import { nearestFirst, type Peers } from './peers.ts'
import { nodesOf, type PlacementGroup, quorumOf } from './placement-groups.ts'
import { answerOf } from './replicated-blob-store.ts'

export interface DrainOptions {
  node: LocalNode
  peers: Peers
  region: string
  /**
   * Writes the row of a new version, unless another writer was first. @returns the current version,
   * this one or the other's.
   */
  publish: (group: PlacementGroup) => Promise<PlacementGroup>
  /** A node to replace this one; undefined: the group continues with fewer. */
  replacement: (group: PlacementGroup) => string | undefined
}

export interface DrainResult {
  /** Copies that this node held. */
  copies: number
  /** Copies that others lacked and received. */
  handedOver: number
  group: PlacementGroup
}

/**
 * Leaves the group. Resolves when this node is no longer a member. What it still holds of the group
 * is then unused and may be removed.
 * @throws BlobFault `UNAVAILABLE` when copies cannot be sent to others: the node stays a member;
 *   call it again.
 */
export async function leaveGroup(number: number, options: DrainOptions): Promise<DrainResult> {
  const { node, publish } = options
  const self = node.id
  let group = known(node, number)
  // Closed first, in its own version: requests with an older version are refused from here on.
  if (group.members.includes(self) && group.writable)
    group = await advance(group, { writable: false }, options)
  node.groups.close(number)
  await node.groups.quiet(number)

  const replacement = group.members.includes(self) ? options.replacement(group) : undefined
  if (replacement !== undefined && !nodesOf(group).includes(replacement))
    group = await advance(group, { members: [...group.members, replacement] }, options)

  const { copies, handedOver } = await handOver(group, options)
  const without = (ids: string[]) => ids.filter((id) => id !== self)
  const members = without(group.members)
  if (group.members.includes(self) && members.length === 0)
    throw new BlobFault('UNAVAILABLE', `${self} is the last member of group ${number}: no node replaces it`)
  group = await advance(group, { members, remote: without(group.remote) }, { node, publish })
  return { copies, handedOver, group }
}

/** Everything this node holds of the group is whole at as many others as an upload needs. */
async function handOver(
  group: PlacementGroup,
  { node, peers, region }: DrainOptions,
): Promise<{ copies: number; handedOver: number }> {
  const placement = { group: group.number, version: group.version }
  const home = group.members.filter((id) => id !== node.id)
  const others = nearestFirst([...home, ...group.remote.filter((id) => id !== node.id)], { peers, region })
  const needed = Math.min(quorumOf({ ...group, members: home }), others.length)
  let copies = 0
  let handedOver = 0
  for await (const info of node.store.inventory({ groups: [group.number] })) {
    if (info.damaged) continue // a whole copy, if there is one, is at another node
    copies++
    let holders = 0
    const lacking: string[] = []
    for (const id of others) {
      const there = await answerOf(peers.node(id)?.stat(info) ?? Promise.resolve(undefined))
      if (there instanceof BlobFault) continue
      if (there !== undefined && there.damaged === undefined) holders++
      else lacking.push(id)
    }
    for (const id of lacking) {
      if (holders >= needed) break
      const given = await answerOf(
        peers.node(id)?.copyFrom(node.id, info, { pinMs: pinMsMax, placement }) ?? Promise.resolve(undefined),
      )
      if (given === undefined || given instanceof BlobFault) continue
      holders++
      handedOver++
    }
    if (holders < needed || holders === 0)
      throw new BlobFault('UNAVAILABLE', `${nameOfCopy(info)} is at ${holders} of ${needed} other nodes only`)
  }
  return { copies, handedOver }
}

async function advance(
  group: PlacementGroup,
  change: Partial<PlacementGroup>,
  { node, publish }: Pick<DrainOptions, 'node' | 'publish'>,
): Promise<PlacementGroup> {
  const wanted = { ...group, ...change, version: group.version + 1 }
  const holds = await publish(wanted)
  await node.groups.learn(holds)
  if (JSON.stringify(canonical(holds)) !== JSON.stringify(canonical(wanted)))
    throw new BlobFault('UNAVAILABLE', `group ${group.number} was changed meanwhile`)
  return holds
}

function canonical({ number, version, region, members, remote, writable }: PlacementGroup): unknown[] {
  return [number, version, region, [...members].sort(), [...remote].sort(), writable]
}

function known(node: LocalNode, number: number): PlacementGroup {
  const group = node.groups.get(number)
  if (group === undefined || !nodesOf(group).includes(node.id))
    throw new BlobFault('INVALID', `${node.id} is no member of group ${number}`)
  return group
}
