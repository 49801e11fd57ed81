/**
 * Which nodes hold a file, asked synchronously by frontends for `servers`, `serverSelected` and
 * links.
 *
 * A node is named when it is one of the members that acknowledged the upload, as far as this
 * process made it, or when it says that it has followed every other member of the group up to a
 * moment behind the upload. Suspect and silent nodes come last or not at all. It is a view: a node
 * that lost a copy a second ago may be named still, and reads through.
 */
import type { Clock } from '@holdfast/kernel'
import { nearestFirst, type Peers } from './peers.ts'
import { type GroupView, nodesOf, type PlacementGroup } from './placement-groups.ts'

/** What a node says of itself in its heartbeats. */
export interface NodeReport {
  id: string
  /** Finds too much damage, or is not verified. */
  suspect: boolean
  /** For each node it follows: everything that one held at this moment (Unix ms) is here too. */
  coveredMs: ReadonlyMap<string, number>
}

export interface HoldersOptions {
  region: string
  localNode?: string
  groups: GroupView
  peers: Peers
  clock: Clock
  /** How far clocks of nodes may be apart, ms. Default 2,000. */
  skewMs?: number
}

export class Holders {
  readonly #options: Required<Omit<HoldersOptions, 'localNode'>> & Pick<HoldersOptions, 'localNode'>
  readonly #reports = new Map<string, NodeReport>()

  constructor(options: HoldersOptions) {
    this.#options = { skewMs: 2_000, ...options }
  }

  /** Takes a node's newest word. */
  learn(report: NodeReport): void {
    this.#reports.set(report.id, report)
  }

  /** The node is no member of the cluster any more. */
  forget(id: string): void {
    this.#reports.delete(id)
  }

  /**
   * Nodes that hold the group's copies, nearest healthy first; at least one as long as the group is
   * known.
   * @param createdMs the copies were made by then, Unix ms. When no mark covers that yet: the
   *   members of the home region that are alive, which are those that take uploads.
   */
  serversOf(placementGroup: number, createdMs: number): string[] {
    const { groups, peers, region, localNode } = this.#options
    const group = groups.get(placementGroup)
    if (group === undefined) return []
    const healthy = (id: string) =>
      (id === localNode || peers.isAlive(id)) && this.#reports.get(id)?.suspect !== true
    const sure = nodesOf(group).filter((id) => this.#holds(id, group, createdMs))
    const home = group.members.filter((id) => this.#isCurrent(id, group))
    const named = [sure, home, group.members, nodesOf(group)]
      .map((ids) => ids.filter(healthy))
      .find((ids) => ids.length > 0)
    return nearestFirst(named ?? group.members, { peers, region, self: localNode })
  }

  /** Its marks cover the copy at every home member but itself: copies start there. */
  #holds(id: string, group: PlacementGroup, createdMs: number): boolean {
    const report = this.#reports.get(id)
    if (report === undefined) return false
    const others = group.members.filter((other) => other !== id)
    return others.every((other) => (report.coveredMs.get(other) ?? 0) - this.#options.skewMs >= createdMs)
  }

  /**
   * Follows the others closely, so it takes part in new uploads. A node that never reported is
   * believed.
   */
  #isCurrent(id: string, group: PlacementGroup): boolean {
    const report = this.#reports.get(id)
    if (report === undefined) return true
    const { clock, peers } = this.#options
    return group.members
      .filter((other) => other !== id && peers.isAlive(other))
      .every((other) => clock.now() - (report.coveredMs.get(other) ?? 0) <= currentMs)
  }
}

/** A member whose marks are older than this was away and is catching up. */
const currentMs = 30_000
