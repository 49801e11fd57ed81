/**
 * Placement groups: which nodes hold what was uploaded together. Pure: the input is the current
 * state, the output the changes. The caller that writes the rows makes sure that each version is
 * written once.
 *
 * A group has up to two members in its home region, which take the uploads, and one in the next
 * region with nodes, which pulls. The two are on different machines where the region has several.
 * Numbers are never reused, and nothing moves when nodes are added: new nodes get new groups. A
 * group changes in only four cases: a node is permanently lost (another replaces it and pulls what
 * is missing), a node is drained (first no new uploads, then it leaves), it has fewer members than
 * possible (another joins it), or all its members are on one machine (one on another machine joins
 * it, and it takes no new uploads).
 */
export interface PlacementGroup {
  number: number
  /** Rises by one with each change. */
  version: number
  region: string
  /** Nodes of the home region. */
  members: string[]
  /** Nodes elsewhere. */
  remote: string[]
  /** Accepts uploads. */
  writable: boolean
}

/** The known groups; a version is never replaced by an older one. */
export interface GroupView {
  get(number: number): PlacementGroup | undefined
  all(): readonly PlacementGroup[]
}

export class GroupMap implements GroupView {
  readonly #groups = new Map<number, PlacementGroup>()

  /** @returns whether it was new. */
  learn(group: PlacementGroup): boolean {
    const known = this.#groups.get(group.number)
    if (known !== undefined && known.version >= group.version) return false
    this.#groups.set(group.number, structuredClone(group))
    return true
  }

  get(number: number): PlacementGroup | undefined {
    return this.#groups.get(number)
  }

  all(): readonly PlacementGroup[] {
    return [...this.#groups.values()]
  }
}

/** All nodes of a group, home region first. */
export function nodesOf(group: PlacementGroup): string[] {
  return [...group.members, ...group.remote]
}

/** Copies that an upload needs before it is acknowledged. */
export const writeQuorum = 2

/** Copies that an upload to this group needs: fewer where the region has fewer nodes. */
export function quorumOf(group: PlacementGroup): number {
  return Math.max(1, Math.min(writeQuorum, group.members.length))
}

/**
 * This many nodes of the group must answer "not here" before an acknowledged copy counts as absent.
 */
export function absenceQuorumOf(group: PlacementGroup): number {
  return nodesOf(group).length - quorumOf(group) + 1
}

export interface GroupNode {
  id: string
  region: string
  /** What is lost together with it. Undefined: not known, and different from all others. */
  machine: string | undefined
  /** Accepts uploads: alive, not draining, not full. */
  ready: boolean
  /**
   * Silent for so long that its copies must be made again elsewhere, or removed by the operator.
   */
  lost: boolean
  draining: boolean
  freeBytes: number
}

/**
 * The changes that a region's groups need now; empty when all is well. Groups without a number are
 * new. Deterministic.
 *
 * @param regions in one order everywhere; the next one after `region` with nodes holds the remote
 *   copies.
 * @param arriving nodes are being added: only what was lost is replaced, and missing members in the
 *   home region are added. Plans for each new node alone would give the first ones most groups.
 */
export function planGroups({
  region,
  regions,
  nodes,
  groups,
  arriving = false,
}: {
  region: string
  regions: readonly string[]
  nodes: readonly GroupNode[]
  groups: readonly PlacementGroup[]
  arriving?: boolean
}): (Omit<PlacementGroup, 'number' | 'version'> & { number?: number; version: number })[] {
  const plan = new GroupPlan(region, regions, nodes)
  const own = groups.filter((group) => group.region === region)
  const current = own.map((group) => plan.mended(group, arriving))
  const changed = current.filter((group, at) => !sameGroup(group, own[at] as PlacementGroup))
  return [
    ...changed.map((group) => ({ ...group, version: group.version + 1 })),
    ...(arriving ? [] : plan.missing(current)).map((group) => ({ ...group, version: 1 })),
  ]
}

class GroupPlan {
  readonly #region: string
  readonly #regions: readonly string[]
  readonly #nodes: readonly GroupNode[]
  readonly #byId: Map<string, GroupNode>
  /** How many groups this plan gives a node: its free bytes do not include them yet. */
  readonly #given = new Map<string, number>()

  constructor(region: string, regions: readonly string[], nodes: readonly GroupNode[]) {
    this.#region = region
    this.#regions = regions
    this.#nodes = [...nodes].sort((one, other) => (one.id < other.id ? -1 : 1))
    this.#byId = new Map(nodes.map((node) => [node.id, node]))
  }

  /**
   * The target state of the group: lost nodes replaced, closed where a member drains or all are on
   * one machine, with a remote member where possible.
   */
  mended(group: PlacementGroup, arriving: boolean): PlacementGroup {
    const isLost = (id: string) => this.#byId.get(id)?.lost === true
    const isDraining = (id: string) => this.#byId.get(id)?.draining === true
    const members = group.members.filter((id) => !isLost(id))
    while (members.length < writeQuorum) {
      const node = this.#best(this.#region, { taken: [...members, ...group.remote], beside: members })
      if (node === undefined) break
      members.push(node)
    }
    const apart = arriving ? undefined : this.#apartFrom(members)
    if (apart !== undefined) members.push(apart)
    // A group without holders stays as it is: its nodes may return.
    if (members.length === 0) return { ...group, writable: false }
    const remote = group.remote.filter((id) => !isLost(id))
    const waits = arriving && group.remote.length === 0
    const elsewhere = remote.length === 0 && !waits ? this.#bestElsewhere(members) : undefined
    if (elsewhere !== undefined) remote.push(elsewhere)
    const closing = members.some(isDraining) || apart !== undefined
    return { ...group, members, remote, writable: !closing && group.writable }
  }

  /** New groups, so that each ready node of the region is in one that takes uploads. */
  missing(current: readonly PlacementGroup[]): Omit<PlacementGroup, 'number' | 'version'>[] {
    const ready = this.#nodes.filter((node) => node.region === this.#region && isUsable(node))
    const isReady = (id: string) => ready.some((node) => node.id === id)
    const open = current.filter(({ writable, members }) => writable && members.every(isReady))
    const counts = new Map<string, number>()
    const count = (members: readonly string[]) => {
      for (const id of members) counts.set(id, (counts.get(id) ?? 0) + 1)
    }
    for (const { members } of open) count(members)
    const served = new Set(
      open
        .filter(({ members }) => members.length >= Math.min(writeQuorum, ready.length))
        .flatMap(({ members }) => members),
    )
    const made: Omit<PlacementGroup, 'number' | 'version'>[] = []
    for (const [at, { id }] of ready.entries()) {
      if (served.has(id)) continue
      const others = [...ready.slice(at + 1), ...ready.slice(0, at)]
      // The machine with the most nodes left: the last ones would only have each other.
      const left = new Map<string, number>()
      for (const one of ready)
        if (!served.has(one.id)) left.set(machineOf(one), (left.get(machineOf(one)) ?? 0) + 1)
      const partner = lowest(others, (other) => [
        this.#isBeside(other, [id]),
        counts.get(other.id) ?? 0,
        -(left.get(machineOf(other)) ?? 0),
      ])
      const members = partner === undefined ? [id] : [id, partner.id]
      count(members)
      for (const member of members) served.add(member)
      const remote = this.#nextElsewhere(current.length + made.length)
      made.push({
        region: this.#region,
        members,
        remote: remote === undefined ? [] : [remote],
        writable: true,
      })
    }
    return made
  }

  /**
   * Spreads the groups of a lost node over several others. One node for all of them would need long
   * to copy, and would become full.
   * @param beside nodes on whose machine it should not be
   */
  #best(
    region: string,
    { taken, beside = [] }: { taken: readonly string[]; beside?: readonly string[] },
  ): string | undefined {
    const given = ({ id }: GroupNode) => this.#given.get(id) ?? 0
    const fit = this.#nodes.filter(
      (node) => node.region === region && isUsable(node) && !taken.includes(node.id),
    )
    const best = lowest(fit, (node) => [this.#isBeside(node, beside), given(node), -node.freeBytes])
    if (best !== undefined) this.#given.set(best.id, given(best) + 1)
    return best?.id
  }

  /** On another machine than all of these, if one machine has them all. */
  #apartFrom(members: readonly string[]): string | undefined {
    if (!this.#onOneMachine(members)) return undefined
    const there = this.#nodes.filter((node) => this.#isBeside(node, members))
    return this.#best(this.#region, { taken: there.map(({ id }) => id) })
  }

  /** A copy of a whole group goes where there is room for it: in the next region that has nodes. */
  #bestElsewhere(taken: readonly string[]): string | undefined {
    for (const region of this.#others()) {
      const best = this.#best(region, { taken })
      if (best !== undefined) return best
    }
    return undefined
  }

  /**
   * Takes the nodes in turn. New groups have no bytes yet, so by free bytes one node would get all
   * of them.
   */
  #nextElsewhere(turn: number): string | undefined {
    for (const region of this.#others()) {
      const there = this.#nodes.filter((node) => node.region === region && isUsable(node))
      if (there.length > 0) return there[turn % there.length]?.id
    }
    return undefined
  }

  #onOneMachine(members: readonly string[]): boolean {
    const machines = new Set(members.map((id) => this.#byId.get(id)?.machine))
    return members.length > 1 && machines.size === 1 && !machines.has(undefined)
  }

  /** 1: on the machine of one of these nodes. */
  #isBeside({ machine }: GroupNode, ids: readonly string[]): 0 | 1 {
    return machine !== undefined && ids.some((id) => this.#byId.get(id)?.machine === machine) ? 1 : 0
  }

  /** The other regions, the next one first. */
  #others(): string[] {
    const from = this.#regions.indexOf(this.#region)
    return [...this.#regions.slice(from + 1), ...this.#regions.slice(0, Math.max(from, 0))]
  }
}

function sameGroup(one: PlacementGroup, other: PlacementGroup): boolean {
  return (
    one.writable === other.writable &&
    one.members.join() === other.members.join() &&
    one.remote.join() === other.remote.join()
  )
}

/** It may get groups. */
function isUsable({ ready, lost, draining }: GroupNode): boolean {
  return ready && !lost && !draining
}

/** A node whose machine is not known is on one of its own. */
function machineOf({ id, machine }: GroupNode): string {
  return machine ?? `node ${id}`
}

/** The first of those with the lowest keys; an earlier key counts more. */
function lowest(
  nodes: readonly GroupNode[],
  keysOf: (node: GroupNode) => readonly number[],
): GroupNode | undefined {
  let found: { node: GroupNode; keys: readonly number[] } | undefined
  for (const node of nodes) {
    const keys = keysOf(node)
    const best = found?.keys
    const at = best === undefined ? 0 : keys.findIndex((key, index) => key !== best[index])
    if (best === undefined || (at >= 0 && (keys[at] ?? 0) < (best[at] ?? 0))) found = { node, keys }
  }
  return found?.node
}
