/**
 * Removes copies without references.
 *
 * A copy without a reference is marked for deletion. After a grace period its references are read
 * once more, and only then it is deleted. Two rules that other parts keep make this safe. A writer
 * pins a copy before it refers to it, and writes the reference before the pin ends. The store
 * serialises pin and delete, so a copy that gets a reference between our check and our delete is
 * pinned and stays. A reference is removed only after the change that no longer needs it is
 * durable.
 *
 * The grace protects copies that are not pinned: an account that copies another's content names a
 * copy whose last reference may be removed at that moment. The grace must outlast a request. A
 * grace of 0 is for an operator who knows that nothing is under way.
 *
 * A missing reference is written again from the accounts (see the runtime's reconciler). This must
 * happen before the copy is deleted. So a periodic pass deletes only copies that it saw without a
 * reference before a full round over all accounts began. The final check comes after the end of
 * that round. An operator who sets a grace does not wait for that.
 *
 * Cost: the first pass after a start reads the references of every copy. Later passes read only
 * those of copies made since then and of those that were released. Walking the inventory costs
 * about a second per million copies. One query reads the references of `atOnce` copies.
 */

import type { Clock } from '@holdfast/kernel'
import type { BlobInfo, BlobName, BlobStore } from './blob-store.ts'
import { copyKey } from './copy-names.ts'
import type { StoreNotes } from './placed-blob-store.ts'

export interface CollectorOptions {
  blobs: BlobStore
  /**
   * Whether each of these copies has a reference. Read where references are written, never from a
   * cache. At most 512 per call.
   */
  referenced: (blobs: readonly BlobName[]) => Promise<boolean[]>
  /** Why the references cannot be trusted now. Nothing is deleted while there is a reason. */
  distrust: () => string | undefined
  /**
   * Asks the accounts which copies they use. Undefined: accounts are not asked, and references are
   * trusted as they are.
   */
  accounts:
    | {
        /**
         * When the last complete round over all accounts began, Unix ms: each account has its
         * references since then. Undefined: no round is complete.
         */
        confirmedMs: () => Promise<number | undefined>
        /** Copies wait for a round that begins after this call. */
        wanted: () => void
      }
    | undefined
  /**
   * How long a copy stays after it was first seen without a reference, ms. Longer than any request
   * takes.
   */
  graceMs: number
  /** Between passes, ms. */
  everyMs: number
  /**
   * Each pass checks every copy. For nodes of a cluster: replicated copies carry their original
   * time, and references are removed elsewhere.
   */
  everything: boolean
  /** A pause is stored here, so that a restart does not end it. Undefined: a restart ends it. */
  notes: StoreNotes | undefined
  clock: Clock
  log: { info(fields: object, message: string): void; warn(fields: object, message: string): void }
}

/** Result of a pass. */
export interface CollectResult {
  /** Copies whose references were read. */
  examined: number
  deleted: number
  freedBytes: number
  /** Without a reference, in their grace period. */
  waiting: number
  /** Without a reference, and pinned: an upload may be about to refer to them. */
  pinned: number
  /**
   * Their grace is over, but no round over all accounts has ended since they were first seen
   * without a reference.
   */
  unconfirmed: number
  /** Why nothing was deleted; absent: nothing prevented it. */
  held: string | undefined
}

/** For metrics. */
export interface CollectorFigures {
  /** When the last pass completed, Unix ms; undefined: none has. */
  lastPassMs: number | undefined
  /** Since the start of the process. */
  deleted: number
  freedBytes: number
  /** Copies that are marked for deletion now. */
  waiting: number
}

/** Nothing is deleted until a pass completes. This costs only space. */
export interface CollectorPause {
  reason: string
  /** When the first of the current run of incomplete passes began, Unix ms; outlives a restart. */
  sinceMs: number
}

const noteName = 'collector'

/** Marked copies that are remembered; a later pass marks the rest. */
const pendingDeletionMax = 1_000_000

/** Copies per batch: their answers are used while they are fresh. */
const atOnce = 512

interface Pass {
  graceMs: number
  /** Undefined: no round is awaited. */
  confirmedMs: number | undefined
  collected: CollectResult
}

interface PendingDeletion {
  /** Monotonic, for the grace. */
  sinceMs: number
  /** Unix, to compare with the rounds of other processes. */
  atMs: number
}

export class Collector {
  readonly #options: CollectorOptions
  /** When a copy was first seen without a reference, by its name. */
  readonly #pendingDeletion = new Map<string, PendingDeletion>()
  /** Copies to check in the next pass, by name. */
  readonly #released = new Set<string>()
  /** Copies made before this time (Unix ms) were all seen; undefined before the first pass. */
  #seenUntilMs: number | undefined
  /** Something could not be remembered, or a pass failed: the next pass checks everything. */
  #forgot = false
  #timer: NodeJS.Timeout | undefined
  #running: Promise<unknown> = Promise.resolve()
  #closed = false
  #holds = 0
  #paused: CollectorPause | undefined
  /** Of the pause in the note; undefined: there is no note, or it is not read yet. */
  #notedSinceMs: number | undefined
  #recalled: Promise<void> | undefined
  #lastPassMs: number | undefined
  #deleted = 0
  #freedBytes = 0

  constructor(options: CollectorOptions) {
    this.#options = options
  }

  /** Why the last pass did not complete, or the next one will not; undefined: nothing is known. */
  get paused(): CollectorPause | undefined {
    return this.#paused
  }

  get figures(): CollectorFigures {
    return {
      lastPassMs: this.#lastPassMs,
      deleted: this.#deleted,
      freedBytes: this.#freedBytes,
      waiting: this.#pendingDeletion.size,
    }
  }

  /** Starts the passes, the first after one period. */
  start(): void {
    if (this.#closed || this.#timer !== undefined) return
    const { clock, distrust } = this.#options
    const reason = distrust()
    if (reason !== undefined) this.#pause(reason, clock.now())
    void this.#recall()
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      void this.#pass().finally(() => this.start())
    }, this.#options.everyMs)
    this.#timer.unref()
  }

  /** A reference to this copy was removed: the next pass checks it. */
  released(blob: BlobName): void {
    if (this.#released.size < pendingDeletionMax) this.#released.add(copyKey(blob))
    else this.#forgot = true
  }

  /**
   * One full pass, after those under way. Resolves when everything that may be deleted is durably
   * deleted.
   * @param graceMs replaces the configured grace; accounts are not awaited then
   */
  collect({ graceMs }: { graceMs?: number } = {}): Promise<CollectResult> {
    const pass = this.#running.then(() => this.#walk({ graceMs, all: true }))
    this.#running = pass.catch(() => {})
    return pass
  }

  /**
   * Prevents deletions: none happens after this resolves, until the caller calls the returned
   * function. Passes run meanwhile and delete nothing. For callers that read the whole store.
   */
  async hold(): Promise<() => void> {
    this.#holds++
    await this.#running
    return () => {
      this.#holds--
    }
  }

  /** Stops; a pass under way ends early. */
  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#timer)
    await this.#recalled
    await this.#running
  }

  async #pass(): Promise<void> {
    const { log } = this.#options
    const all = this.#options.everything
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

  async #walk({ graceMs, all }: { graceMs?: number | undefined; all: boolean }): Promise<CollectResult> {
    const { accounts, blobs, clock, distrust } = this.#options
    const collected: CollectResult = {
      examined: 0,
      deleted: 0,
      freedBytes: 0,
      waiting: 0,
      pinned: 0,
      unconfirmed: 0,
      held: undefined,
    }
    await this.#recall()
    const startedMs = clock.now()
    const held = distrust() ?? (this.#holds > 0 ? 'a backup or a verification reads everything' : undefined)
    if (held !== undefined) {
      this.#pause(held, startedMs)
      await this.#note()
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
      const looked: BlobInfo[] = []
      for await (const info of blobs.inventory()) {
        if (this.#closed) return collected
        if (known(info)) continue
        looked.push(info)
        if (looked.length === atOnce) await this.#examine(looked.splice(0), pass)
      }
      await this.#examine(looked, pass)
      if (waits && collected.waiting + collected.unconfirmed > 0) accounts.wanted()
    } catch (error) {
      this.#forgot = true
      this.#pause((error as Error).message, startedMs)
      await this.#note()
      throw error
    }
    this.#paused = undefined
    await this.#note()
    this.#lastPassMs = clock.now()
    this.#seenUntilMs = startedMs - marginMs
    return collected
  }

  #pause(reason: string, nowMs: number): void {
    this.#paused = { reason, sinceMs: this.#paused?.sinceMs ?? nowMs }
  }

  /** Continues the pause of the process before. Never rejects. */
  #recall(): Promise<void> {
    this.#recalled ??= this.#readNote().catch((err: unknown) =>
      this.#options.log.warn({ err }, 'whether collecting was paused is not known'),
    )
    return this.#recalled
  }

  async #readNote(): Promise<void> {
    const value = await this.#options.notes?.note(noteName)
    if (value === undefined) return
    const { reason, sinceMs } = JSON.parse(Buffer.from(value).toString()) as CollectorPause
    this.#notedSinceMs = sinceMs
    this.#paused = { reason: this.#paused?.reason ?? reason, sinceMs }
  }

  /** Stores a pause that began, removes one that ended. Never rejects. */
  async #note(): Promise<void> {
    const { log, notes } = this.#options
    const paused = this.#paused
    if (paused?.sinceMs === this.#notedSinceMs) return
    try {
      await notes?.setNote(noteName, paused && Buffer.from(JSON.stringify(paused)))
      this.#notedSinceMs = paused?.sinceMs
    } catch (err) {
      log.warn({ err }, 'whether collecting is paused could not be stored')
    }
  }

  /**
   * Yields what must be checked: all but copies that were seen with a reference and not released
   * since.
   */
  #knownCopies(): (info: BlobInfo) => boolean {
    const seenUntilMs = this.#seenUntilMs
    if (seenUntilMs === undefined || this.#forgot) return () => false
    const released = new Set(this.#released)
    return (info) => {
      if (info.createdMs >= seenUntilMs) return false
      const name = copyKey(info)
      return !released.has(name) && !this.#pendingDeletion.has(name)
    }
  }

  /**
   * Handles a batch of copies: reads all their references in one query, reads those of the copies
   * to be deleted a second time, and deletes these copies while the answers are fresh.
   */
  async #examine(copies: readonly BlobInfo[], pass: Pass): Promise<void> {
    const { clock } = this.#options
    pass.collected.examined += copies.length
    const askedMs = clock.monotonic()
    const loose = await this.#unreferenced(copies)
    const due = loose.filter((info) => this.#isDue(info, pass))
    for (const info of await this.#unreferenced(due)) {
      if (this.#closed) return
      if (clock.monotonic() - askedMs > answerAgeMaxMs) {
        pass.collected.waiting++ // the answers are too old to use: the next pass reads them again
        this.#markForDeletion(copyKey(info))
      } else await this.#delete(info, pass)
    }
  }

  /** The copies without a reference; the others are unmarked. */
  async #unreferenced(copies: readonly BlobInfo[]): Promise<BlobInfo[]> {
    if (copies.length === 0) return []
    const referenced = await this.#options.referenced(copies)
    return copies.filter((info, at) => {
      if (referenced[at] === false) return true
      this.#pendingDeletion.delete(copyKey(info))
      return false
    })
  }

  /** Whether its grace is over and the accounts were asked since. Otherwise it stays marked. */
  #isDue(info: BlobInfo, { graceMs, confirmedMs, collected }: Pass): boolean {
    const { clock } = this.#options
    const name = copyKey(info)
    const { sinceMs, atMs } = this.#pendingDeletion.get(name) ?? {
      sinceMs: clock.monotonic(),
      atMs: clock.now(),
    }
    if (clock.monotonic() - sinceMs < graceMs) collected.waiting++
    else if (confirmedMs !== undefined && confirmedMs <= atMs) collected.unconfirmed++
    else return true
    this.#markForDeletion(name)
    return false
  }

  async #delete(info: BlobInfo, { collected }: Pass): Promise<void> {
    const name = copyKey(info)
    const result = await this.#options.blobs.delete(info)
    // A pinned copy may have been referred to and released again since: its grace restarts.
    this.#pendingDeletion.delete(name)
    if (result === 'pinned') {
      collected.pinned++
      this.#markForDeletion(name)
      return
    }
    this.#deleted++
    this.#freedBytes += info.size
    collected.deleted++
    collected.freedBytes += info.size
  }

  #markForDeletion(name: string): void {
    if (this.#pendingDeletion.has(name)) return
    const { clock } = this.#options
    if (this.#pendingDeletion.size < pendingDeletionMax)
      this.#pendingDeletion.set(name, { sinceMs: clock.monotonic(), atMs: clock.now() })
    else this.#forgot = true
  }
}

/**
 * A copy is deleted within this time of the first of the two queries. A process that was paused in
 * between may have missed a pin, the reference it protected, and the end of the pin.
 */
const answerAgeMaxMs = 60_000

/**
 * Longer than an upload keeps its pin: until then the upload may still be refused, and leave a copy
 * without a reference.
 */
const marginMs = 60 * 60_000
