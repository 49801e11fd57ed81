/**
 * Placement groups as rows: `pg/<region>/<number>/<version>`, each version claimed once in its
 * region and never changed. Of several that plan the same change one wins, and the others read what
 * it wrote.
 *
 * Every process reads the rows again at once when another announces new ones, and from time to time
 * (`reread-timer.ts`). The lowest ready storage node of a region plans; two of them at a time are
 * harmless.
 */
import type { Bus } from '@holdfast/bus'
import type { LookupStore } from '@holdfast/journal'
import { type Clock, type RegionCode, regionCodes } from '@holdfast/kernel'
import { GroupMap, type GroupNode, nodesOf, type PlacementGroup, planGroups } from '@holdfast/replication'
import { PlacementGroup as PlacementGroupRow } from '@holdfast/wire/cluster'
import { groupKey, groupNumbersCounter, groupsPrefix } from '../row-keys.ts'
import { RereadTimer } from '../sharing/reread-timer.ts'
import { heardByAll } from '../subjects.ts'
import type { NodeAdminStates } from './node-admin-states.ts'
import type { StoragePeers } from './storage-peers.ts'

export interface GroupRowsOptions {
  lookups: LookupStore
  bus: Bus
  regions: readonly RegionCode[]
  onFault: (error: unknown) => void
  /** Called for each new version. Undefined: the process stores none. */
  onGroup: ((group: PlacementGroup) => Promise<void>) | undefined
}

export class GroupRows {
  readonly map = new GroupMap()
  readonly #options: GroupRowsOptions
  readonly #rereading: RereadTimer
  #reading: Promise<void> | undefined

  constructor(options: GroupRowsOptions) {
    this.#options = options
    const read = () => void this.refresh().catch(options.onFault)
    this.#rereading = new RereadTimer({ bus: options.bus, subject: heardByAll.groups, read })
  }

  /** Reads all rows; a call during another shares it. @throws what the lookups throw. */
  readonly refresh = (): Promise<void> => {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
    })
    return this.#reading
  }

  async #read(): Promise<void> {
    const { lookups, regions, onGroup } = this.#options
    for (const region of regions)
      for await (const { value } of lookups.scan(groupsPrefix(region))) {
        const group = PlacementGroupRow.decode(value)
        if (this.map.learn(group)) await onGroup?.(group)
      }
  }

  /** Writes a version; does nothing when another writer was first. */
  async propose(
    region: RegionCode,
    group: Omit<PlacementGroup, 'number'> & { number?: number },
  ): Promise<void> {
    const { lookups, bus } = this.#options
    const number = group.number ?? (await this.#newNumber(region))
    const row = PlacementGroupRow.encode({ ...group, number }).finish()
    await lookups.claim(groupKey(region, { number, version: group.version }), row)
    bus.publish(heardByAll.groups, new Uint8Array())
  }

  /** 0 is the group of a standalone store. Regions never issue the same number. */
  async #newNumber(region: RegionCode): Promise<number> {
    const taken = await this.#options.lookups.take(groupNumbersCounter, 1)
    return (taken + 1) * regionCodes.length + regionCodes.indexOf(region)
  }

  close(): void {
    this.#rereading.close()
  }
}

export interface GroupLeaderOptions {
  self: string
  region: RegionCode
  regions: readonly RegionCode[]
  rows: GroupRows
  peers: StoragePeers
  states: NodeAdminStates
  clock: Clock
  /**
   * A node that was silent for this long counts as lost: its copies are made again elsewhere, ms.
   */
  lostMs: number
  onFault: (error: unknown) => void
  /** Between two plans, ms. Default 1,000. */
  everyMs?: number
  /**
   * New nodes get groups when none came for this long, ms, or ten times as long after the first.
   * Default 60,000. On one machine, whose nodes have addresses of loopback, nothing waits.
   */
  arrivalMs?: number
}

const planMsDefault = 1_000
/** The view at a start may be incomplete. */
const settleMs = 3_000
/** Longer than `infra up` needs from one host to the next. */
const arrivalMsDefault = 60_000
const arrivalsMax = 10

/** Plans the groups of a region while this node is its first. */
export class GroupLeader {
  readonly #options: GroupLeaderOptions
  readonly #timer: NodeJS.Timeout
  readonly #bornMs: number
  /** Monotonic, of nodes that some group names. */
  readonly #seenMs = new Map<string, number>()
  /** Monotonic: when nodes that no group named were first heard. */
  readonly #cameMs = new Map<string, number>()
  #planning: Promise<void> | undefined

  constructor(options: GroupLeaderOptions) {
    this.#options = options
    this.#bornMs = options.clock.monotonic()
    this.#timer = setInterval(() => {
      this.#planning ??= this.#plan()
        .catch(options.onFault)
        .finally(() => {
          this.#planning = undefined
        })
    }, options.everyMs ?? planMsDefault)
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#planning
  }

  async #plan(): Promise<void> {
    const { rows, region, regions, peers, self, clock } = this.#options
    const nodes = this.#nodes()
    if (clock.monotonic() - this.#bornMs < settleMs) return
    const first = peers
      .beats()
      .filter((beat) => beat.ready && beat.region === region)
      .map(({ id }) => id)
      .sort()[0]
    if (first !== self) return
    const plan = () =>
      planGroups({ region, regions, nodes, groups: rows.map.all(), arriving: this.#arriving(nodes) })
    if (plan().length === 0) return
    // They may be old: only one writer of a version wins.
    await rows.refresh()
    const planned = plan()
    for (const group of planned) await rows.propose(region, group)
    if (planned.length > 0) await rows.refresh()
  }

  /** Whether more nodes are likely to come soon. */
  #arriving(nodes: readonly GroupNode[]): boolean {
    const { rows, clock, arrivalMs = arrivalMsDefault } = this.#options
    const nowMs = clock.monotonic()
    const placed = new Set(rows.map.all().flatMap(nodesOf))
    for (const id of placed) this.#cameMs.delete(id)
    const came = nodes
      .filter(({ id, ready, machine }) => ready && !placed.has(id) && !isLoopback(machine))
      .map(({ id }) => {
        const ms = this.#cameMs.get(id) ?? nowMs
        this.#cameMs.set(id, ms)
        return ms
      })
    if (came.length === 0) return false
    return nowMs - Math.max(...came) < arrivalMs && nowMs - Math.min(...came) < arrivalsMax * arrivalMs
  }

  #nodes(): GroupNode[] {
    const { rows, peers, states, clock, lostMs } = this.#options
    const nowMs = clock.monotonic()
    const alive = peers.beats().map(({ id, region, ready, freeBytes }): GroupNode => {
      this.#seenMs.set(id, nowMs)
      const order = states.of(id)
      return {
        id,
        region,
        machine: peers.machineOf(id),
        ready,
        freeBytes,
        draining: order === 'draining',
        lost: order === 'removed',
      }
    })
    const living = new Set(alive.map(({ id }) => id))
    const silent = new Map<string, GroupNode>()
    for (const group of rows.map.all())
      for (const id of [...group.members, ...group.remote]) {
        if (living.has(id)) continue
        const seenMs = this.#seenMs.get(id) ?? nowMs
        this.#seenMs.set(id, seenMs)
        const region = group.members.includes(id) ? group.region : (peers.regionOf(id) ?? '')
        const lost = states.of(id) === 'removed' || nowMs - seenMs > lostMs
        const machine = peers.machineOf(id)
        silent.set(id, { id, region, machine, ready: false, lost, draining: false, freeBytes: 0 })
      }
    return [...alive, ...silent.values()]
  }
}

function isLoopback(machine: string | undefined): boolean {
  return (
    machine !== undefined && (machine.startsWith('127.') || ['::1', '[::1]', 'localhost'].includes(machine))
  )
}
