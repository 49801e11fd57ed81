/**
 * All pulling of a node: which nodes it follows, for which groups, and when.
 *
 * Within a region each node follows all members of its groups. Between regions one member follows
 * for its region, so that bytes cross the WAN once; the others get what it fetched from its log.
 * The group and the set of living members determine which one. While members disagree about who is
 * alive, two may follow, and some bytes cross twice; or none does until the next heartbeat.
 */
import type { BlobName } from '@holdfast/blob-store'
import { type Clock, pause, type Timers } from '@holdfast/kernel'
import type { LocalNode } from './local-node.ts'
import type { Peers } from './peers.ts'
import { nodesOf, type PlacementGroup } from './placement-groups.ts'
import { Puller, type PullRound } from './puller.ts'
import { Watermarks } from './watermarks.ts'

export interface ReplicatorOptions {
  node: LocalNode
  peers: Peers
  region: string
  /** Read at quorum. */
  referenced: (blob: BlobName) => Promise<boolean>
  deletedAtSource: (blob: BlobName) => void
  clock: Clock
  timers: Timers
  random: () => number
  log: { info(fields: object, message: string): void; warn(fields: object, message: string): void }
}

export interface ReplicatorTuning {
  /** As of `Puller`. Default 24 h. */
  compareEveryMs?: number
  /**
   * Pause between two requests to a source that had no further entries, ms; doubled while nothing
   * was missing here. Default 1,000. The next request fetches everything of the pause at once.
   */
  idleMs?: number
  /** The longest wait after failures, ms. Default 30,000. */
  backoffMaxMs?: number
}

const defaults: Required<ReplicatorTuning> = {
  compareEveryMs: 24 * 3_600_000,
  idleMs: 1_000,
  backoffMaxMs: 30_000,
}

export interface SourceLag {
  source: string
  entries: number
  /** How old missing copies may be; Infinity before the first round. */
  ms: number
  /** When the whole inventories were compared last, Unix ms; undefined before the first time. */
  comparedMs: number | undefined
  owed: number
}

export class Replicator {
  readonly watermarks: Watermarks
  readonly #options: ReplicatorOptions & Required<ReplicatorTuning>
  readonly #pullers = new Map<string, Puller>()
  readonly #loops = new Map<string, { stop: AbortController; done: Promise<void> }>()
  readonly #behind = new Map<string, number>()
  #cancelWatch: (() => void) | undefined
  #closed = false

  constructor(options: ReplicatorOptions, tuning: ReplicatorTuning = {}) {
    this.#options = { ...defaults, ...tuning, ...options }
    this.watermarks = new Watermarks(options.node.store)
  }

  /** Starts to follow, and adapts as groups and members change. */
  start(): void {
    if (this.#closed) return
    this.#watch()
  }

  /** The nodes to follow now, and for which groups. */
  sources(): Map<string, number[]> {
    const { node, peers, region } = this.#options
    const sources = new Map<string, number[]>()
    for (const group of node.groups.own())
      for (const source of sourcesOf(group, { self: node.id, region, peers }))
        sources.set(
          source,
          [...(sources.get(source) ?? []), group.number].sort((one, other) => one - other),
        )
    return sources
  }

  /**
   * One request to one source; for tests, the simulation, and callers that cannot wait. @throws
   * BlobFault as `Puller.round`.
   */
  async round(source: string): Promise<PullRound> {
    const groups = this.sources().get(source) ?? []
    const round = await this.#puller(source).round(groups)
    this.#behind.set(source, round.behind)
    return round
  }

  /** How far this node lags behind those it follows. */
  async lag(): Promise<SourceLag[]> {
    const lags: SourceLag[] = []
    for (const source of this.sources().keys()) {
      const mark = await this.watermarks.of(source)
      lags.push({
        source,
        entries: this.#behind.get(source) ?? 0,
        ms:
          mark === undefined
            ? Number.POSITIVE_INFINITY
            : Math.max(0, this.#options.clock.now() - mark.coveredMs),
        comparedMs: mark?.comparedMs,
        owed: mark?.owed.length ?? 0,
      })
    }
    return lags
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#cancelWatch?.()
    const loops = [...this.#loops.values()]
    for (const { stop } of loops) stop.abort()
    await Promise.all(loops.map(({ done }) => done))
  }

  #watch(): void {
    const wanted = this.sources()
    for (const [source, { stop }] of this.#loops) if (!wanted.has(source)) stop.abort()
    for (const source of wanted.keys()) if (!this.#loops.has(source)) this.#begin(source)
    this.#cancelWatch = this.#options.timers.after(this.#options.idleMs, () => {
      if (!this.#closed) this.#watch()
    })
  }

  #begin(source: string): void {
    const stop = new AbortController()
    const done = this.#followOn(source, stop.signal).finally(() => this.#loops.delete(source))
    this.#loops.set(source, { stop, done })
  }

  async #followOn(source: string, signal: AbortSignal): Promise<void> {
    const { timers, idleMs, backoffMaxMs, random, log } = this.#options
    let failures = 0
    while (!signal.aborted) {
      try {
        const { behind, owed, compared, fetched } = await this.round(source)
        if (compared) log.info({ source, fetched }, 'inventories were compared')
        failures = 0
        const waitMs = fetched > 0 || owed > 0 ? idleMs : 2 * idleMs
        if (behind === 0 || owed > 0) await pause(timers, waitMs, signal)
      } catch (error) {
        const { code, message } = error as { code?: string; message: string }
        if (failures++ === 0)
          log.warn({ source, code, error: message }, 'a source cannot be followed; it is tried again')
        const waitMs = Math.min(backoffMaxMs, idleMs * 2 ** Math.min(failures, 16))
        await pause(timers, waitMs * (0.5 + random() / 2), signal)
      }
    }
  }

  #puller(source: string): Puller {
    let puller = this.#pullers.get(source)
    if (puller === undefined) {
      const { node, peers, referenced, deletedAtSource, compareEveryMs, clock } = this.#options
      puller = new Puller({
        source,
        node,
        peers,
        watermarks: this.watermarks,
        referenced,
        deletedAtSource,
        compareEveryMs,
        clock,
      })
      this.#pullers.set(source, puller)
    }
    return puller
  }
}

/** Which nodes a member of the group follows. */
export function sourcesOf(
  group: PlacementGroup,
  { self, region, peers }: { self: string; region: string; peers: Peers },
): string[] {
  const others = nodesOf(group).filter((id) => id !== self)
  const regionOf = (id: string) => (group.members.includes(id) ? group.region : peers.regionOf(id))
  const near = others.filter((id) => regionOf(id) === region)
  const [first] = [self, ...near.filter((id) => peers.isAlive(id))].sort()
  return first === self ? others : near
}
