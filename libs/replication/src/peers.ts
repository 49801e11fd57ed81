/**
 * The other nodes, as far as this process knows them. Only hints: no correctness depends on them.
 */
import type { StorageNode } from '@holdfast/blob-store'

export interface Peers {
  /**
   * How to reach the node; undefined for an unknown node. The same object while its address stays
   * the same.
   */
  node(id: string): StorageNode | undefined
  /** Recently heard of, and ready. */
  isAlive(id: string): boolean
  /** Undefined for an unknown node. */
  regionOf(id: string): string | undefined
}

/**
 * The nodes in the order of preference: alive before silent, then this node, then its region, then
 * others; otherwise the given order. Each once.
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
