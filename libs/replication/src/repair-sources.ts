import type { BlobInfo } from '@holdfast/blob-store'
import { nearestFirst, type Peers } from './peers.ts'
import { type GroupView, nodesOf } from './placement-groups.ts'

/** Nodes outside the copy's group that are asked for the same content under another name. */
const othersMax = 16

/**
 * Possible sources of whole bytes for a damaged copy: its group's nodes, then others of the region,
 * which may have the content from another upload.
 */
export function repairSources(
  copy: BlobInfo,
  { self, region, groups, peers }: { self: string; region: string; groups: GroupView; peers: Peers },
): string[] {
  const group = groups.get(copy.placementGroup ?? 0)
  const own = group === undefined ? [] : nodesOf(group).filter((id) => id !== self)
  const near = groups.all().filter((other) => other.region === region)
  const others = nearestFirst(
    near.flatMap(({ members }) => members),
    { peers, region },
  ).filter((id) => id !== self && !own.includes(id) && peers.isAlive(id))
  return [...own, ...others.slice(0, othersMax)]
}
