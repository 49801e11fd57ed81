/**
 * The copies of a cluster for a backup: group by group, from the lists of enough of its nodes that
 * no acknowledged copy is missing in all of them.
 */

import { BackupFault } from '@holdfast/backup'
import { BlobFault, type BlobInfo } from '@holdfast/blob-store'
import { hex } from '@holdfast/kernel'
import { absenceQuorumOf, nodesOf, type PlacementGroup } from '@holdfast/replication'
import type { ClusterPart } from '../cluster-part.ts'

export interface ClusterCopiesOptions {
  cluster: Pick<ClusterPart, 'groups' | 'peers' | 'nodes'>
  /** A group whose other nodes are removed for good lists what it has. */
  onIncomplete: (message: string) => void
}

/** @throws BackupFault `UNUSABLE` when too few nodes of a group answer. */
export async function* copiesOfCluster(options: ClusterCopiesOptions): AsyncGenerator<BlobInfo> {
  const { groups } = options.cluster
  await groups.refresh()
  const all = [...groups.map.all()].sort((one, other) => one.number - other.number)
  for (const group of all) yield* copiesOfGroup(group, options)
}

interface List {
  node: string
  rows: AsyncIterator<BlobInfo>
  next: BlobInfo | undefined
}

/** Nodes list in the order of ids. */
async function* copiesOfGroup(
  group: PlacementGroup,
  { cluster: { peers, nodes }, onIncomplete }: ClusterCopiesOptions,
): AsyncGenerator<BlobInfo> {
  const needed = absenceQuorumOf(group)
  const removed = nodesOf(group).filter((id) => nodes.of(id) === 'removed')
  const faults = new Map<string, string>()
  let lists: List[] = []
  const assertEnough = () => {
    if (lists.length >= needed) return
    const said = [...faults].map(([id, fault]) => `${id}: ${fault}`).join('; ')
    const message = `placement group ${group.number}: ${lists.length} of ${needed} nodes list their copies (${said})`
    if (lists.length + removed.length < needed) throw new BackupFault('UNUSABLE', message)
    onIncomplete(message)
  }
  const advance = async (list: List) => {
    try {
      const { done, value } = await list.rows.next()
      list.next = done === true ? undefined : value
    } catch (error) {
      if (!(error instanceof BlobFault)) throw error
      faults.set(list.node, error.message)
      lists = lists.filter((one) => one !== list)
      assertEnough()
    }
  }
  try {
    for (const node of nodesOf(group)) {
      const store = peers.isAlive(node) ? peers.node(node) : undefined
      if (store === undefined) {
        faults.set(node, 'is not heard')
        continue
      }
      lists.push({
        node,
        rows: store.inventory({ groups: [group.number] })[Symbol.asyncIterator](),
        next: undefined,
      })
    }
    assertEnough()
    await Promise.all(lists.map(advance))
    for (;;) {
      const least = lists.reduce<BlobInfo | undefined>((found, { next }) => lower(found, next), undefined)
      if (least === undefined) return
      // All copies of one content, each of them once.
      const copies = new Map<string, BlobInfo>()
      for (const list of [...lists])
        while (list.next !== undefined && Buffer.compare(list.next.id, least.id) === 0) {
          const name = hex(list.next.incarnation)
          if (copies.get(name)?.damaged !== undefined || !copies.has(name)) copies.set(name, list.next)
          await advance(list)
        }
      yield* [...copies].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, copy]) => copy)
    }
  } finally {
    for (const { rows } of lists) await rows.return?.()
  }
}

function lower(one: BlobInfo | undefined, other: BlobInfo | undefined): BlobInfo | undefined {
  if (one === undefined || other === undefined) return one ?? other
  return Buffer.compare(one.id, other.id) <= 0 ? one : other
}
