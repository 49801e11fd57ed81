/**
 * The other nodes, as far as this process knows them. Hints: nothing is correct because of them.
 */
import type { StorageNode } from '@holdfast/blob-store'

export interface Peers {
  /**
   * How to reach the node; undefined when nothing is known of it. The same object each time, as
   * long as its address is the same.
   */
  node(id: string): StorageNode | undefined
  /** Heard of lately, and ready. */
  isAlive(id: string): boolean
  /** Undefined when nothing is known of it. */
  regionOf(id: string): string | undefined
}

/**
 * The nodes in the order in which to ask them: alive before silent, then this very node, then its
 * region, then others; within those as given. Repeated ones once.
 */
export function nearestFirst(
  ids: Iterable<string>,
  { peers, region, self }: { peers: Peers; region: string; self?: string | undefined },
): string[] {
  const distance = (id: string) => {
    const near = id === self ? 0 : peers.regionOf(id) === region ? 1 : 2
    return near + (id === self || peers.isAlive(id) ? 0 : 10)
  }
  return [...new Set(ids)]
    .map((id) => ({ id, distance: distance(id) }))
    .sort((one, other) => one.distance - other.distance)
    .map(({ id }) => id)
}
