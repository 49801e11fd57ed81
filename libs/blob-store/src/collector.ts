/**
 * Removes the copies that nobody refers to.
 *
 * A copy without reference is condemned; when its grace is over the references are read once more,
 * and only then it is deleted. What makes this safe are two orders that others keep. Whoever wants
 * to refer to a copy pins it first and refers before the pin ends, and the store serialises pin and
 * delete: a copy that gets its reference between our look and our delete is pinned, and stays. And
 * a reference goes only after the change that no longer needs it is durable.
 *
 * The grace is there for what is not pinned: an account that copies another's content names a copy
 * whose last reference may go at that moment. It must outlast a request. A grace of 0 is for an
 * operator who knows that nothing is under way.
 *
 * References are themselves made again from the accounts, should one be missing (see the runtime's
 * reconciler). So that this happens before the copy goes, a pass of the clock deletes only what it
 * saw without reference before a round of all accounts began that has ended since; its last look at
 * the references comes after it. An operator who names a grace does not wait for that.
 *
 * Cost: the first pass after a start reads the references of every copy, later ones only those of
 * copies made since then and of those that were released; walking the inventory costs about a
 * second per million copies. References are read for `atOnce` copies in one question.
 */
import type { Clock } from '@holdfast/kernel'
import type { BlobFacts, BlobName, BlobStore } from './blob-store.ts'

export interface CollectorOptions {
  blobs: BlobStore
  /**
   * Does anybody refer to each of these copies? Read where references are written, never from a
   * cache. At most 512 at one time.
   */
  referenced: (blobs: readonly BlobName[]) => Promise<boolean[]>
  /** Why the references cannot be trusted now; nothing is deleted while there is a reason. */
  distrust: () => string | undefined
  /**
   * The accounts are asked what they use. Absent: nobody asks them, and references are taken as
   * they are.
   */
  accounts?: {
    /**
     * When the last round of all accounts began that has ended, Unix ms: each has its references
     * since. Undefined: there was none.
     */
    confirmedMs: () => Promise<number | undefined>
    /** Copies wait for a round that begins from now on. */
    wanted: () => void
  }
  /**
   * How long a copy stays after it was first seen without reference, ms. Longer than any request
   * takes.
   */
  graceMs: number
  /** Between passes, ms. */
  everyMs: number
  /**
   * Each pass looks at every copy. For nodes of a cluster: copies come there from others with the
   * time they were made at, and references are removed elsewhere.
   */
  everything?: boolean
  clock: Clock
  log: { info(facts: object, message: string): void; warn(facts: object, message: string): void }
}

/** What a pass did. */
export interface Collected {
  /** Copies looked at closely: their references were read. */
  examined: number
  deleted: number
  freedBytes: number
  /** Without reference, and waiting for the end of their grace. */
  waiting: number
  /** Without reference, and kept by a pin: an upload may be about to refer to them. */
  pinned: number
  /**
   * Their grace is over, and accounts were not asked since they were first seen without reference.
   */
  unconfirmed: number
  /** Why nothing was deleted; absent: nothing stood in the way. */
  held?: string
}

/**
 * Nothing without reference goes until a pass comes to its end again. It costs space and nothing
 * else.
 */
export interface Standstill {
  reason: string
  /** When the first of the passes in a row that did not end began, Unix ms. */
  sinceMs: number
}

/** Condemned copies that are remembered; those past it are condemned by a later pass. */
const condemnedMax = 1_000_000

/** Copies that are looked at together: their answers are acted upon while they are young. */
const atOnce = 512

interface Pass {
  graceMs: number
  /** Undefined: nobody is waited for. */
  confirmedMs: number | undefined
  collected: Collected
}

interface Condemned {
  /** Monotonic, for the grace. */
  sinceMs: number
  /** Unix, to be compared with the rounds of other processes. */
  atMs: number
}

export class Collector {
  readonly #options: CollectorOptions
  /** When a copy was first seen without reference, by its name. */
  readonly #condemned = new Map<string, Condemned>()
  /** Copies to be looked at in the next pass, by name. */
  readonly #released = new Set<string>()
  /** Copies made before this moment (Unix ms) were all seen; undefined before the first pass. */
  #seenUntilMs: number | undefined
  /** Something could not be remembered, or a pass broke off: the next one looks at everything. */
  #forgot = false
  #timer: NodeJS.Timeout | undefined
  #running: Promise<unknown> = Promise.resolve()
  #closed = false
  #standstill: Standstill | undefined

  constructor(options: CollectorOptions) {
    this.#options = options
  }

  /** Why the last pass did not come to its end; undefined: it did, or there was none yet. */
  get standstill(): Standstill | undefined {
    return this.#standstill
  }

  /** Passes from now on, the first after one period. */
  start(): void {
    if (this.#closed || this.#timer !== undefined) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      void this.#pass().finally(() => this.start())
    }, this.#options.everyMs)
    this.#timer.unref()
  }

  /** A reference to this copy is gone: it is looked at in the next pass. */
  released(blob: BlobName): void {
    if (this.#released.size < condemnedMax) this.#released.add(nameOf(blob))
    else this.#forgot = true
  }

  /**
   * One pass over everything, after those under way. Resolves when what could be deleted is
   * deleted, durably.
   * @param graceMs instead of the configured grace; accounts are not waited for then
   */
  collect({ graceMs }: { graceMs?: number } = {}): Promise<Collected> {
    const pass = this.#running.then(() => this.#walk({ graceMs, all: true }))
    this.#running = pass.catch(() => {})
    return pass
  }

  /** Stops; a pass under way ends early. */
  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#timer)
    await this.#running
  }

  async #pass(): Promise<void> {
    const { log } = this.#options
    const all = this.#options.everything ?? false
    const pass = this.#running.then(() => this.#walk({ all }))
    this.#running = pass.catch(() => {})
    try {
      const collected = await pass
      if (collected.deleted > 0) log.info(collected, 'unreferenced bytes were freed')
      if (collected.held !== undefined) log.warn(collected, 'nothing is collected')
    } catch (error) {
      log.warn({ err: error }, 'collecting failed and is tried again')
    }
  }

  async #walk({ graceMs, all }: { graceMs?: number | undefined; all: boolean }): Promise<Collected> {
    const { accounts, blobs, clock, distrust } = this.#options
    const collected: Collected = {
      examined: 0,
      deleted: 0,
      freedBytes: 0,
      waiting: 0,
      pinned: 0,
      unconfirmed: 0,
    }
    const startedMs = clock.now()
    const held = distrust()
    if (held !== undefined) {
      this.#standStill(held, startedMs)
      return { ...collected, held }
    }
    const known = all ? () => false : this.#knownCopies()
    this.#released.clear()
    this.#forgot = false
    try {
      const waits = graceMs === undefined && accounts !== undefined
      const pass: Pass = {
        graceMs: graceMs ?? this.#options.graceMs,
        confirmedMs: waits ? ((await accounts.confirmedMs()) ?? Number.NEGATIVE_INFINITY) : undefined,
        collected,
      }
      const looked: BlobFacts[] = []
      for await (const facts of blobs.inventory()) {
        if (this.#closed) return collected
        if (known(facts)) continue
        looked.push(facts)
        if (looked.length === atOnce) await this.#examine(looked.splice(0), pass)
      }
      await this.#examine(looked, pass)
      if (waits && collected.waiting + collected.unconfirmed > 0) accounts.wanted()
    } catch (error) {
      this.#forgot = true
      this.#standStill((error as Error).message, startedMs)
      throw error
    }
    this.#standstill = undefined
    this.#seenUntilMs = startedMs - marginMs
    return collected
  }

  #standStill(reason: string, nowMs: number): void {
    this.#standstill = { reason, sinceMs: this.#standstill?.sinceMs ?? nowMs }
  }

  /** Tells what need not be looked at: seen with a reference before, and not released since. */
  #knownCopies(): (facts: BlobFacts) => boolean {
    const seenUntilMs = this.#seenUntilMs
    if (seenUntilMs === undefined || this.#forgot) return () => false
    const released = new Set(this.#released)
    return (facts) => {
      if (facts.createdMs >= seenUntilMs) return false
      const name = nameOf(facts)
      return !released.has(name) && !this.#condemned.has(name)
    }
  }

  /**
   * Several copies: their references are asked for together, those that are to go once more, and
   * deleted while the answers are young.
   */
  async #examine(copies: readonly BlobFacts[], pass: Pass): Promise<void> {
    const { clock } = this.#options
    pass.collected.examined += copies.length
    const askedMs = clock.monotonic()
    const loose = await this.#unreferenced(copies)
    const due = loose.filter((facts) => this.#isDue(facts, pass))
    for (const facts of await this.#unreferenced(due)) {
      if (this.#closed) return
      if (clock.monotonic() - askedMs > answerAgeMaxMs) {
        pass.collected.waiting++ // the answers are too old to act upon: the next pass asks again
        this.#condemn(nameOf(facts))
      } else await this.#delete(facts, pass)
    }
  }

  /** Those nobody refers to; the others are acquitted. */
  async #unreferenced(copies: readonly BlobFacts[]): Promise<BlobFacts[]> {
    if (copies.length === 0) return []
    const referenced = await this.#options.referenced(copies)
    return copies.filter((facts, at) => {
      if (referenced[at] === false) return true
      this.#condemned.delete(nameOf(facts))
      return false
    })
  }

  /** Its grace is over, and the accounts were asked since. Else it is condemned, and waits. */
  #isDue(facts: BlobFacts, { graceMs, confirmedMs, collected }: Pass): boolean {
    const { clock } = this.#options
    const name = nameOf(facts)
    const { sinceMs, atMs } = this.#condemned.get(name) ?? { sinceMs: clock.monotonic(), atMs: clock.now() }
    if (clock.monotonic() - sinceMs < graceMs) collected.waiting++
    else if (confirmedMs !== undefined && confirmedMs <= atMs) collected.unconfirmed++
    else return true
    this.#condemn(name)
    return false
  }

  async #delete(facts: BlobFacts, { collected }: Pass): Promise<void> {
    const name = nameOf(facts)
    const result = await this.#options.blobs.delete(facts)
    // What was pinned may have been referred to, and released again, since: its grace begins again.
    this.#condemned.delete(name)
    if (result === 'pinned') {
      collected.pinned++
      this.#condemn(name)
      return
    }
    collected.deleted++
    collected.freedBytes += facts.size
  }

  #condemn(name: string): void {
    if (this.#condemned.has(name)) return
    const { clock } = this.#options
    if (this.#condemned.size < condemnedMax)
      this.#condemned.set(name, { sinceMs: clock.monotonic(), atMs: clock.now() })
    else this.#forgot = true
  }
}

/**
 * A copy is deleted within this time of the first of the two questions. A process that stood still
 * in between may have slept through a pin, the reference that it was for, and the pin's end.
 */
const answerAgeMaxMs = 60_000

/**
 * Longer than an upload keeps its pin: until then it may still be refused, and leave a copy without
 * reference.
 */
const marginMs = 60 * 60_000

function nameOf({ id, incarnation }: BlobName): string {
  return Buffer.concat([id, incarnation]).toString('base64')
}
