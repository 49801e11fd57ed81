/**
 * Reads every copy of this node once in a while, at a bounded rate, and replaces what has rotted.
 *
 * A damaged copy is quarantined by the store that notices it. It goes only in favour of a verified replacement that is synced; without one
 * it stays, as the last that is known of those bytes. A node that finds too much in an hour has a sick disk or controller, and what it
 * says about copies means little: it stops and is suspect until an operator says otherwise.
 *
 * A copy that cannot be read, one that is gone and one that is wrong are three things: only the last is damage.
 */
import { type BlobFacts, BlobFault } from '@holdfast/blob-store'
import type { Clock } from '@holdfast/kernel'
import type { LocalNode } from './local-node.ts'
import { copyKey } from './names.ts'
import { nodesOf } from './placement-groups.ts'
import { answerOf } from './replicated-blob-store.ts'
import { pause, type Timers } from './timers.ts'

export interface ScrubberOptions {
  node: LocalNode
  clock: Clock
  timers: Timers
  /** Default 20 MB/s: 10 TB a week, a few hundredths of a disk. */
  bytesPerSecond?: number
  /** Between the end of one pass and the next, ms. Default 1 h. */
  restMs?: number
  /** Damaged copies in an hour that stop the node's scrubbing. Default 50. */
  damagedPerHourMax?: number
  log: { warn(facts: object, message: string): void; error(facts: object, message: string): void }
}

export interface Scrubbed {
  copies: number
  bytes: number
  damaged: number
  /** Damaged ones that a replacement was found for. */
  repaired: number
  /** Could not be read; tried again by the next pass. */
  unreadable: number
}

const hourMs = 3_600_000
/** Shorter pauses are not worth a timer. */
const pauseMsMin = 10

export class Scrubber {
  readonly #options: Required<ScrubberOptions>
  readonly #stop = new AbortController()
  /** Of the last hour (monotonic ms). */
  #damagedAt: number[] = []
  #suspect: string | undefined
  #loop: Promise<void> | undefined

  constructor(options: ScrubberOptions) {
    this.#options = { bytesPerSecond: 20e6, restMs: hourMs, damagedPerHourMax: 50, ...options }
  }

  /** Why this node is not to be trusted; for heartbeats, so that uploads and readers go elsewhere. */
  get suspect(): string | undefined {
    return this.#suspect
  }

  /** An operator has looked at it. */
  trust(): void {
    this.#suspect = undefined
    this.#damagedAt = []
  }

  start(): void {
    this.#loop ??= this.#run()
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#loop
  }

  /** One pass over everything, or up to where the node became suspect. */
  async pass(): Promise<Scrubbed> {
    const { node, clock, timers, bytesPerSecond } = this.#options
    const done: Scrubbed = { copies: 0, bytes: 0, damaged: 0, repaired: 0, unreadable: 0 }
    const startedAt = clock.monotonic()
    for await (const facts of node.store.inventory()) {
      if (this.#stop.signal.aborted || this.#suspect !== undefined) break
      await this.#examine(facts, done)
      const aheadMs = (done.bytes / bytesPerSecond) * 1000 - (clock.monotonic() - startedAt)
      if (aheadMs >= pauseMsMin) await pause(timers, aheadMs, this.#stop.signal)
    }
    return done
  }

  /**
   * Replaces a damaged copy; for readers that came upon one.
   * @returns whether a verified replacement is synced.
   */
  async repair(facts: BlobFacts): Promise<boolean> {
    const { node, log } = this.#options
    const group = node.groups.get(facts.placementGroup ?? 0)
    const others = group === undefined ? [] : nodesOf(group).filter((id) => id !== node.id)
    const { damaged: _, ...whole } = facts
    const replaced = await answerOf(node.fetch(whole, others, { pinMs: 0 }))
    if (!(replaced instanceof BlobFault)) return true
    log.error(
      { copy: copyKey(facts), code: replaced.code, error: replaced.message },
      'a damaged copy is kept: nobody gives a whole one',
    )
    return false
  }

  async #examine(facts: BlobFacts, done: Scrubbed): Promise<void> {
    const { node, log } = this.#options
    done.copies++
    const outcome = facts.damaged ? 'damaged' : await this.#verify(facts, done)
    if (outcome === 'whole') return
    if (outcome instanceof BlobFault) {
      done.unreadable++
      log.warn({ copy: copyKey(facts), code: outcome.code, error: outcome.message }, 'a copy cannot be read')
      return
    }
    done.damaged++
    if (!facts.damaged) this.#note()
    if (this.#suspect === undefined && (await this.repair((await node.stat(facts)) ?? facts))) done.repaired++
  }

  async #verify(facts: BlobFacts, done: Scrubbed): Promise<'whole' | 'damaged' | BlobFault> {
    try {
      const reading = this.#options.node.store.read(facts, { start: 0, end: facts.size })
      for await (const bytes of reading) done.bytes += bytes.length
      return 'whole'
    } catch (error) {
      if (!(error instanceof BlobFault)) throw error
      if (error.code === 'CORRUPT') return 'damaged'
      return error.code === 'NOT_FOUND' ? 'whole' : error // deleted meanwhile
    }
  }

  #note(): void {
    const { clock, damagedPerHourMax, log } = this.#options
    const now = clock.monotonic()
    this.#damagedAt = [...this.#damagedAt.filter((at) => at > now - hourMs), now]
    if (this.#damagedAt.length <= damagedPerHourMax) return
    this.#suspect = `${this.#damagedAt.length} copies were found damaged within an hour`
    log.error({ damaged: this.#damagedAt.length }, 'this node is suspect; scrubbing stops')
  }

  async #run(): Promise<void> {
    const { timers, restMs, log } = this.#options
    while (!this.#stop.signal.aborted) {
      try {
        if (this.#suspect === undefined) await this.pass()
      } catch (error) {
        log.warn({ error: (error as Error).message }, 'scrubbing broke off and begins anew')
      }
      await pause(timers, restMs, this.#stop.signal)
    }
  }
}
