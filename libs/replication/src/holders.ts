/**
 * Which nodes hold a file. Frontends ask synchronously for `servers`, `serverSelected` and links.
 *
 * A node is listed when its heartbeat says that it has followed every other member of the group to
 * a time after the upload. Suspect and silent nodes come last or are left out. This is a view: a
 * node that lost a copy a second ago may still be listed, and then reads the copy from another
 * node. An upload's own answer names the nodes that acknowledged it instead.
 */
import type { Clock } from '@holdfast/kernel'
import { nearestFirst, type Peers } from './peers.ts'
import { type GroupView, nodesOf, type PlacementGroup } from './placement-groups.ts'

/** The report in a node's heartbeat. */
export interface NodeReport {
  id: string
  /** It finds too much damage, or is not verified. */
  suspect: boolean
  /** For each node it follows: everything that node held at this time (Unix ms) is here too. */
  coveredMs: ReadonlyMap<string, number>
}

export interface HoldersOptions {
  region: string
  groups: GroupView
  peers: Peers
  clock: Clock
}

/** How far clocks of nodes may be apart. */
const skewMs = 2_000

export class Holders {
  readonly #options: HoldersOptions
  readonly #reports = new Map<string, NodeReport>()

  constructor(options: HoldersOptions) {
    this.#options = options
  }

  /** Stores a node's newest report. */
  learn(report: NodeReport): void {
    this.#reports.set(report.id, report)
  }

  /** The node is no longer a member of the cluster. */
  forget(id: string): void {
    this.#reports.delete(id)
  }

  /**
   * Nodes that hold the group's copies, nearest healthy first; at least one while the group is
   * known.
   * @param createdMs the copies were made by then, Unix ms. When no mark covers that yet: the
   *   living members of the home region, which take the uploads.
   */
  serversOf(placementGroup: number, createdMs: number): string[] {
    const { groups, peers, region } = this.#options
    const group = groups.get(placementGroup)
    if (group === undefined) return []
    const healthy = (id: string) => peers.isAlive(id) && this.#reports.get(id)?.suspect !== true
    const sure = nodesOf(group).filter((id) => this.#holds(id, group, createdMs))
    const home = group.members.filter((id) => this.#isCurrent(id, group))
    const named = [sure, home, group.members, nodesOf(group)]
      .map((ids) => ids.filter(healthy))
      .find((ids) => ids.length > 0)
    return nearestFirst(named ?? group.members, { peers, region })
  }

  /** Its marks cover the copy at every other home member: copies start there. */
  #holds(id: string, group: PlacementGroup, createdMs: number): boolean {
    const report = this.#reports.get(id)
    if (report === undefined) return false
    const others = group.members.filter((other) => other !== id)
    return others.every((other) => (report.coveredMs.get(other) ?? 0) - skewMs >= createdMs)
  }

  /**
   * It follows the others closely, so it takes part in new uploads. A node that has not reported
   * yet counts as close.
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

/** A member with older marks was away and is catching up. */
const currentMs = 30_000
