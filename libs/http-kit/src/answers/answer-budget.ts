/**
 * The bytes of answers that are made and not yet read, of all hosts of a process.
 *
 * A client that does not read keeps its answer in memory, at no cost to itself. So all such bytes
 * are taken from one budget:
 *
 * - Below half of it every request takes at once: `take` returns undefined, and no request waits.
 * - Above half it is scarce. A network (IPv6: a /64) takes bytes while it stays within its fair
 *   share: the budget divided by the networks that hold or want some of it. Others wait. When bytes
 *   are returned, the network that holds the least is served first.
 * - While it is scarce, an answer whose reader takes less than 128 KiB in 10 s is dropped, those of
 *   the largest network first.
 * - A wait ends after 30 s as `error-unavailable`.
 *
 * Waiting slows a sender down: it takes bytes before it makes the next piece. An answer never waits
 * for itself: it holds one piece at a time. All numbers are plain sums. The budget examines every
 * network or answer only while it is scarce.
 */
import { type Clock, RefusalError } from '@holdfast/kernel'
import { Counter, Gauge, type Registry } from 'prom-client'
import { LoopTurns } from '../turns/loop-turns.ts'
import { RecentUse } from '../turns/recent-use.ts'
import { Turns } from '../turns/turns.ts'

export interface AnswerBudgetOptions {
  /** Undefined: the answers are in no figure. */
  metrics: Registry | undefined
  clock: Clock
}

export interface AnswerBudgetTuning {
  /** Default 64 MiB: 512 pieces of 128 KiB, which keep 1 GB/s busy at 60 ms of round trip. */
  bytesMax?: number
  /** Default 10,000. A reader that takes `paceBytes` in this time is never dropped. */
  stalledMs?: number
  /** Default 128 KiB: 13 KB/s. Infinity: any progress within `stalledMs` is enough. */
  paceBytes?: number
  /** Default 30,000: shorter than the time-out of most clients. */
  waitMs?: number
  /** How often a scarce budget looks for stalled readers, ms. Default 1,000. */
  sweepMs?: number
}

const defaults: Required<AnswerBudgetTuning> = {
  bytesMax: 64 * 1024 * 1024,
  stalledMs: 10_000,
  paceBytes: 128 * 1024,
  waitMs: 30_000,
  sweepMs: 1_000,
}
const retrySeconds = 5

/** One answer's part of the budget. */
export interface AnswerShare {
  /**
   * From now on the answer holds `bytes` instead of what it held before. Undefined: it does
   * already. The promise rejects with a `RefusalError` `error-unavailable` when there was no room
   * within the time, and when the share is closed.
   */
  take(bytes: number): Promise<void> | undefined
  /** As `take`, without a wait and beyond any bound: for bytes that already exist. */
  keep(bytes: number): void
  /**
   * Makes a piece of the answer when it is the network's turn, see `Turns`.
   * @param isNext before those that wait in its network
   */
  make<T>(piece: () => T, isNext?: boolean): Promise<T>
  /**
   * For pieces that are made in microtasks, see `LoopTurns`. Resolves when it is the network's
   * turn; undefined: the next piece may be made at once.
   */
  next(): Promise<void> | undefined
  /** Returns everything. A second call does nothing. */
  close(): void
}

interface NetworkAnswers {
  name: string
  held: number
  shares: Set<Share>
  waiting: Set<Share>
}

interface Wait {
  bytes: number
  sinceMs: number
  resolve: () => void
  reject: (error: Error) => void
}

export class AnswerBudget {
  readonly #tuning: typeof defaults
  readonly #clock: Clock
  /** @internal */
  readonly turns: Turns
  readonly bodies: LoopTurns
  readonly #networks = new Map<string, NetworkAnswers>()
  /** Networks with waiting answers. */
  readonly #waiting = new Set<NetworkAnswers>()
  #held = 0
  #sweeping: NodeJS.Timeout | undefined
  readonly #dropped: Counter<'reason'> | undefined

  constructor({ metrics, clock }: AnswerBudgetOptions, tuning: AnswerBudgetTuning = {}) {
    this.#tuning = { ...defaults, ...tuning }
    this.#clock = clock
    const use = new RecentUse(clock)
    this.turns = new Turns(clock, use)
    this.bodies = new LoopTurns(clock, use)
    this.#dropped = metrics === undefined ? undefined : this.#measured(metrics)
  }

  /** Bytes held now. */
  get held(): number {
    return this.#held
  }

  /** More than half is held: readers that stall are dropped. */
  get scarce(): boolean {
    return this.#held > this.#tuning.bytesMax / 2
  }

  /**
   * Begins one answer. Close it when the answer ends, in any way.
   *
   * @param network the reader's network, as `networkOf` names it
   * @param drop cuts the answer; called at most once, when its reader stalls while others want the
   *   bytes
   */
  open(network: string, drop: () => void): AnswerShare {
    let known = this.#networks.get(network)
    if (known === undefined) {
      known = { name: network, held: 0, shares: new Set(), waiting: new Set() }
      this.#networks.set(network, known)
    }
    const share = new Share(this, known, drop)
    known.shares.add(share)
    return share
  }

  /** Whether the network may hold this many more bytes now. @internal */
  fits(network: NetworkAnswers, more: number): boolean {
    const { bytesMax } = this.#tuning
    const after = this.#held + more
    if (after <= bytesMax / 2 || more <= 0) return true
    // A piece larger than the whole budget would never get room.
    if (after > bytesMax && this.#held > 0) return false
    return network.held === 0 || network.held + more <= bytesMax / this.#holders(network)
  }

  /** @internal */
  hold(network: NetworkAnswers, more: number): void {
    network.held += more
    this.#held += more
    if (more < 0 && this.#waiting.size > 0) this.#serve()
    if (this.scarce) this.#sweepSoon()
  }

  /** @internal */
  wait(share: Share): void {
    share.network.waiting.add(share)
    this.#waiting.add(share.network)
    // The bytes that it returned before this wait may be enough for it, or for others.
    this.#serve()
    this.#sweepSoon()
  }

  /** @internal */
  waitsNoMore(share: Share): void {
    const { network } = share
    network.waiting.delete(share)
    if (network.waiting.size === 0) this.#waiting.delete(network)
  }

  /** @internal */
  leave(share: Share): void {
    const { network } = share
    network.shares.delete(share)
    if (network.shares.size === 0) this.#networks.delete(network.name)
  }

  /** @internal */
  nowMs(): number {
    return this.#clock.monotonic()
  }

  /** Networks that hold or want bytes, including the caller's. */
  #holders(asker: NetworkAnswers): number {
    let count = 0
    for (const network of this.#networks.values())
      if (network === asker || network.held > 0 || network.waiting.size > 0) count++
    return count
  }

  /** Networks that hold the least first; within a network in order of arrival. */
  #serve(): void {
    for (let served = true; served; ) {
      served = false
      let least: Share | undefined
      for (const network of this.#waiting) {
        const [first] = network.waiting
        if (first === undefined || !this.fits(network, first.missing)) continue
        if (least === undefined || network.held < least.network.held) least = first
      }
      if (least === undefined) return
      least.serve()
      served = true
    }
  }

  #sweepSoon(): void {
    this.#sweeping ??= setTimeout(() => {
      this.#sweeping = undefined
      this.sweep()
      if (this.scarce || this.#waiting.size > 0) this.#sweepSoon()
    }, this.#tuning.sweepMs).unref()
  }

  /**
   * Drops stalled answers, of the largest network first, until the budget is no longer scarce; ends
   * waits that took too long.
   */
  sweep(): void {
    const nowMs = this.nowMs()
    const { stalledMs, paceBytes, waitMs } = this.#tuning
    for (const network of [...this.#waiting]) {
      for (const share of [...network.waiting])
        if (share.waitedMs(nowMs) >= waitMs) this.#end(share, 'waited')
    }
    if (!this.scarce) return
    const largestFirst = [...this.#networks.values()].sort((a, b) => b.held - a.held)
    for (const network of largestFirst) {
      for (const share of [...network.shares]) {
        if (!this.scarce) return
        if (share.stalledMs(nowMs) >= stalledMs * Math.max(1, share.held / paceBytes))
          this.#end(share, 'stalled')
      }
    }
  }

  #end(share: Share, reason: 'waited' | 'stalled'): void {
    this.#dropped?.inc({ reason })
    if (reason === 'waited') share.refuse()
    else share.cut()
  }

  #measured(metrics: Registry): Counter<'reason'> {
    const budget = this
    new Gauge({
      name: 'holdfast_answer_bytes',
      help: 'Bytes of answers that are made and not yet read.',
      registers: [metrics],
      collect() {
        this.set(budget.#held)
      },
    })
    new Gauge({
      name: 'holdfast_answer_bytes_max',
      help: 'Bound of holdfast_answer_bytes; above half of it stalled readers are dropped.',
      registers: [metrics],
    }).set(this.#tuning.bytesMax)
    new Gauge({
      name: 'holdfast_answers_waiting',
      help: 'Answers that wait for room in holdfast_answer_bytes.',
      registers: [metrics],
      collect() {
        let count = 0
        for (const network of budget.#waiting) count += network.waiting.size
        this.set(count)
      },
    })
    return new Counter({
      name: 'holdfast_answers_dropped_total',
      help: 'Answers that were ended: their reader stalled while bytes were scarce, or they waited too long for room.',
      labelNames: ['reason'],
      registers: [metrics],
    })
  }
}

class Share implements AnswerShare {
  readonly #budget: AnswerBudget
  readonly network: NetworkAnswers
  readonly #drop: () => void
  held = 0
  #sinceMs = 0
  #wait: Wait | undefined
  #closed = false

  constructor(budget: AnswerBudget, network: NetworkAnswers, drop: () => void) {
    this.#budget = budget
    this.network = network
    this.#drop = drop
  }

  take(bytes: number): Promise<void> | undefined {
    if (this.#closed) return undefined
    // It waits behind others of its network: small pieces must not overtake a large one.
    if (this.network.waiting.size === 0 && this.#budget.fits(this.network, bytes - this.held)) {
      this.keep(bytes)
      return undefined
    }
    this.keep(0)
    return new Promise((resolve, reject) => {
      this.#wait = { bytes, sinceMs: this.#budget.nowMs(), resolve, reject }
      this.#budget.wait(this)
    })
  }

  keep(bytes: number): void {
    if (this.#closed) return
    const more = bytes - this.held
    this.held = bytes
    this.#sinceMs = this.#budget.nowMs()
    this.#budget.hold(this.network, more)
  }

  make<T>(piece: () => T, isNext = false): Promise<T> {
    return this.#budget.turns.take(this.network.name, piece, isNext)
  }

  next(): Promise<void> | undefined {
    return this.#budget.bodies.next(this.network.name)
  }

  close(): void {
    if (this.#closed) return
    this.refuse()
    this.keep(0)
    this.#closed = true
    this.#budget.leave(this)
  }

  /** Bytes it waits for. */
  get missing(): number {
    return this.#wait?.bytes ?? 0
  }

  serve(): void {
    const wait = this.#wait
    if (wait === undefined) return
    this.#endWait()
    this.keep(wait.bytes)
    wait.resolve()
  }

  refuse(): void {
    const wait = this.#wait
    if (wait === undefined) return
    this.#endWait()
    wait.reject(new RefusalError('error-unavailable', { retryAfter: retrySeconds }))
  }

  cut(): void {
    this.close()
    this.#drop()
  }

  waitedMs(nowMs: number): number {
    return this.#wait === undefined ? 0 : nowMs - this.#wait.sinceMs
  }

  stalledMs(nowMs: number): number {
    return this.held === 0 ? 0 : nowMs - this.#sinceMs
  }

  #endWait(): void {
    this.#wait = undefined
    this.#budget.waitsNoMore(this)
  }
}
