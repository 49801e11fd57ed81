/**
 * A year of a large deployment: disks, hosts and regions are lost at given rates, and the service's
 * own planner (`planGroups`) names who copies what. Pure: the same seed gives the same year.
 *
 * The model. A storage node is a disk. A group's bytes are equal for all groups. A lost node is
 * replaced by an empty one on the same host after some days. A copy is made from one node to one
 * other, and each of them works on one copy at a time. Bytes are lost when the last whole copy of a
 * group is lost.
 *
 * Room. As in the product, the planner sees the free bytes of a node and takes none that is full,
 * but does not ask whether a whole group fits; a node takes no bytes below its reserve. So a copy
 * begins only where the group fits. A copy that does not fit is counted. It waits on that node, and
 * is tried again whenever something changes. Nothing is written during the year.
 */
import { type GroupNode, type PlacementGroup, planGroups } from '@holdfast/replication'
import { Dice } from '../../test/sim/random.ts'

export interface Year {
  regions: readonly string[]
  hostsPerRegion: number
  disksPerHost: number
  /** Size of a disk. */
  nodeBytes: number
  /** Part of a disk that takes no files. */
  reserve: number
  /** All copies together. */
  storedBytes: number
  /** Expected losses of one in a year. */
  losses: { disk: number; host: number; region: number }
  /** Until a silent node counts as lost (HOLDFAST_NODE_LOST_SECONDS). */
  silentSeconds: number
  /** Until a lost disk, or all disks of a lost host, are replaced. */
  replaceDays: number
  /** How fast one copy is made again. */
  repairBytesPerSecond: number
}

export interface Outcome {
  lostDisks: number
  groups: number
  lostGroups: number
  /** Groups whose two home copies were on one host at the start. */
  pairsOnOneHost: number
  repairedBytes: number
  /** The part of them that went from one region to another. */
  betweenRegionsBytes: number
  /** Copies that found no room when the plan wanted them, at the start or after a loss. */
  unplacedCopies: number
  /** Those that still had none at the end. */
  unplacedAtEnd: number
  /** Most bytes on a disk at any time, of its size. */
  fullestDisk: number
  /** Longest time in which a group had one whole copy, hours. */
  longestAloneHours: number
  /** Longest time in which a group had fewer than three. */
  longestRepairHours: number
}

interface Node {
  id: string
  region: string
  host: string
  lost: boolean
  /** Whole copies, and those that are being made. */
  usedBytes: number
}

interface Loss {
  /** Seconds. */
  at: number
  hits: (node: Node) => boolean
}

type Event = Loss | { at: number; replace: readonly Node[] }

interface Copy {
  node: string
  /** Seconds; whole from then on. */
  wholeAt: number
  source: string | undefined
}

interface Group {
  plan: PlacementGroup
  copies: Copy[]
  /** Nodes that the plan names and that have no room for it. */
  waiting: Set<string>
  /**
   * For each wanted number of copies (2, or that of the plan): the time in seconds during which the
   * group has fewer whole copies than that.
   */
  short: { [wanted: number]: { from: number; until: number } }
}

const daySeconds = 86_400
const yearSeconds = 365 * daySeconds
const copiesWanted = 3

export function simulateYear(year: Year, seed: number): Outcome {
  return new Simulation(year, new Dice(seed)).run()
}

class Simulation {
  readonly #year: Year
  readonly #dice: Dice
  readonly #nodes = new Map<string, Node>()
  #groups: Group[] = []
  /** Until when a node copies. */
  readonly #busyUntil = new Map<string, number>()
  readonly #groupBytes: number
  #replacements = 0
  #numbers = 0
  readonly #outcome: Outcome

  constructor(year: Year, dice: Dice) {
    this.#year = year
    this.#dice = dice
    for (const region of year.regions)
      for (let host = 1; host <= year.hostsPerRegion; host++)
        for (let disk = 1; disk <= year.disksPerHost; disk++) this.#add(region, host, disk)
    this.#plan(0, true)
    // Each group is on two nodes at home and one elsewhere.
    this.#groupBytes = year.storedBytes / (this.#groups.length * copiesWanted)
    const hostOf = (id: string) => this.#nodes.get(id)?.host
    this.#outcome = {
      lostDisks: 0,
      groups: this.#groups.length,
      lostGroups: 0,
      pairsOnOneHost: this.#groups.filter(
        ({ plan: { members } }) => new Set(members.map(hostOf)).size < members.length,
      ).length,
      repairedBytes: 0,
      betweenRegionsBytes: 0,
      unplacedCopies: 0,
      unplacedAtEnd: 0,
      fullestDisk: 0,
      longestAloneHours: 0,
      longestRepairHours: 0,
    }
    this.#fill()
    this.#note(0)
  }

  run(): Outcome {
    const events = this.#losses()
    for (let event = events.shift(); event !== undefined; event = events.shift()) {
      const { at } = event
      if ('replace' in event) {
        for (const { region, host } of event.replace) this.#replace(region, host)
        this.#plan(at, false)
        this.#note(at)
        continue
      }
      const lost = [...this.#nodes.values()].filter((node) => !node.lost && event.hits(node))
      if (lost.length === 0) continue
      for (const node of lost) node.lost = true
      this.#outcome.lostDisks += lost.length
      this.#removeCopies(at)
      this.#plan(at + this.#year.silentSeconds, false)
      this.#note(at)
      const replaced = at + this.#year.replaceDays * daySeconds
      if (replaced < yearSeconds) events.push({ at: replaced, replace: lost })
      events.sort((one, other) => one.at - other.at)
    }
    this.#note(yearSeconds)
    for (const { waiting } of this.#groups) this.#outcome.unplacedAtEnd += waiting.size
    return this.#outcome
  }

  /** The losses of disks alone, of hosts and of regions, in the order of their time. */
  #losses(): Event[] {
    const all = [...this.#nodes.values()]
    const { disk, host, region } = this.#year.losses
    const hits: [rate: number, hits: Loss['hits']][] = [
      ...all.map(({ id }): [number, Loss['hits']] => [disk, (node) => node.id === id]),
      ...[...new Set(all.map((node) => node.host))].map((name): [number, Loss['hits']] => [
        host,
        (node) => node.host === name,
      ]),
      ...this.#year.regions.map((name): [number, Loss['hits']] => [region, (node) => node.region === name]),
    ]
    return hits
      .map(([rate, hits]) => ({ at: (-Math.log(1 - this.#dice.fraction()) / rate) * yearSeconds, hits }))
      .filter(({ at }) => at < yearSeconds)
      .sort((one, other) => one.at - other.at)
  }

  #removeCopies(at: number): void {
    const isLost = (id: string | undefined) => id !== undefined && this.#nodes.get(id)?.lost === true
    this.#groups = this.#groups.filter((group) => {
      group.copies = group.copies.filter(({ node }) => !isLost(node))
      const whole = group.copies.filter(({ wholeAt }) => wholeAt <= at)
      if (whole.length === 0) {
        this.#outcome.lostGroups++
        return false
      }
      // A copy whose source is gone begins again, from another source.
      for (const copy of group.copies)
        if (copy.wholeAt > at && isLost(copy.source)) this.#copy(group, copy, at)
      return true
    })
  }

  /** Carries out what the planner says. @param first everything is whole at once. */
  #plan(at: number, first: boolean): void {
    const nodes: GroupNode[] = [...this.#nodes.values()].map(({ id, region, host, lost, usedBytes }) => ({
      id,
      region,
      machine: host,
      ready: !lost && usedBytes < this.#usableBytes,
      lost,
      draining: false,
      freeBytes: this.#usableBytes - usedBytes,
    }))
    for (const region of this.#year.regions) {
      const groups = this.#groups.map(({ plan }) => plan)
      for (const change of planGroups({ region, regions: this.#year.regions, nodes, groups })) {
        const known = this.#groups.find(({ plan }) => plan.number === change.number)
        const plan = { ...change, number: change.number ?? this.#nextNumber() }
        if (known === undefined) {
          // A new group is empty: only those of the start have bytes that can be lost.
          const copies = [...plan.members, ...plan.remote].map((node) => ({
            node,
            wholeAt: at,
            source: undefined,
          }))
          if (first) this.#groups.push({ plan, copies, waiting: new Set(), short: {} })
          continue
        }
        known.plan = plan
      }
    }
    if (!first) for (const group of this.#groups) this.#begin(group, at)
  }

  /** Begins the copies that the plan wants and that have room. */
  #begin(group: Group, at: number): void {
    const wanted = [...group.plan.members, ...group.plan.remote]
    for (const node of group.waiting) if (!wanted.includes(node)) group.waiting.delete(node)
    for (const node of wanted) {
      // Where a region has no node left, the planner keeps the names of those that were lost.
      if (this.#nodes.get(node)?.lost !== false) group.waiting.delete(node)
      else if (!group.copies.some((copy) => copy.node === node) && this.#takeRoom(group, node)) {
        const copy: Copy = { node, wholeAt: Number.POSITIVE_INFINITY, source: undefined }
        group.copies.push(copy)
        this.#copy(group, copy, at)
      }
    }
  }

  /** At the start: an upload needs the copies at home. Copies that do not fit are not there. */
  #fill(): void {
    const placed = new Map(this.#groups.map((group) => [group, new Set<string>()]))
    for (const home of [true, false])
      for (const [group, nodes] of placed)
        for (const node of home ? group.plan.members : group.plan.remote)
          if (this.#takeRoom(group, node)) nodes.add(node)
    for (const [group, nodes] of placed) group.copies = group.copies.filter(({ node }) => nodes.has(node))
  }

  /** Whether the group fits there; counted once while it does not. */
  #takeRoom({ waiting }: Group, id: string): boolean {
    const node = this.#nodes.get(id)
    if (node === undefined) return false
    if (node.usedBytes + this.#groupBytes > this.#usableBytes) {
      if (!waiting.has(id)) this.#outcome.unplacedCopies++
      waiting.add(id)
      return false
    }
    waiting.delete(id)
    node.usedBytes += this.#groupBytes
    return true
  }

  get #usableBytes(): number {
    return this.#year.nodeBytes * (1 - this.#year.reserve)
  }

  #copy(group: Group, copy: Copy, at: number): void {
    const source = group.copies.find(({ wholeAt }) => wholeAt <= at)
    if (source === undefined) return
    const seconds = this.#groupBytes / this.#year.repairBytesPerSecond
    const busy = (id: string) => this.#busyUntil.get(id) ?? 0
    const start = Math.max(at, busy(source.node), busy(copy.node))
    copy.source = source.node
    copy.wholeAt = start + seconds
    this.#busyUntil.set(source.node, copy.wholeAt)
    this.#busyUntil.set(copy.node, copy.wholeAt)
    this.#outcome.repairedBytes += this.#groupBytes
    const regionOf = (id: string) => this.#nodes.get(id)?.region
    if (regionOf(source.node) !== regionOf(copy.node)) this.#outcome.betweenRegionsBytes += this.#groupBytes
  }

  /**
   * How full disks are, by the copies on them, and how long groups have fewer copies than they
   * should: from a loss until enough are whole.
   */
  #note(at: number): void {
    const bytes = new Map<string, number>()
    for (const { copies } of this.#groups)
      for (const { node } of copies) bytes.set(node, (bytes.get(node) ?? 0) + this.#groupBytes)
    const fullest = Math.max(0, ...bytes.values()) / this.#year.nodeBytes
    this.#outcome.fullestDisk = Math.max(this.#outcome.fullestDisk, fullest)
    for (const { copies, short } of this.#groups) {
      const times = copies.map(({ wholeAt }) => wholeAt).sort((one, other) => one - other)
      for (const wanted of [2, copiesWanted] as const) {
        const before = short[wanted]
        const until = times[wanted - 1] ?? Number.POSITIVE_INFINITY
        if (until <= at) continue
        // What was short before is still short, unless its copies were whole in between.
        const from = before !== undefined && before.until > at ? before.from : at
        short[wanted] = { from, until }
        // While no node makes the missing copy, its end is unknown. It is counted when a node
        // begins to make it, or at the end of the year.
        if (until === Number.POSITIVE_INFINITY && at < yearSeconds) continue
        const hours = (Math.min(until, yearSeconds) - from) / 3600
        const longest = wanted === 2 ? 'longestAloneHours' : 'longestRepairHours'
        this.#outcome[longest] = Math.max(this.#outcome[longest], hours)
      }
    }
  }

  #nextNumber(): number {
    return ++this.#numbers
  }

  #add(region: string, host: number, disk: number): void {
    const [hostName, diskName] = [String(host).padStart(3, '0'), String(disk).padStart(2, '0')]
    const id = `${region}-${hostName}-${diskName}`
    this.#nodes.set(id, { id, region, host: `${region}-${hostName}`, lost: false, usedBytes: 0 })
  }

  #replace(region: string, host: string): void {
    const id = `${region}-new-${++this.#replacements}`
    this.#nodes.set(id, { id, region, host, lost: false, usedBytes: 0 })
  }
}
