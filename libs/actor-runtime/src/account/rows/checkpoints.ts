/**
 * Checkpoints of one activation: when one is due, its pages, its root, and what may be removed
 * afterwards.
 *
 * A checkpoint is cut at one row, in slices in which the account decides nothing, so all its pages
 * show the same state. Parts that did not change since the current checkpoint keep their pages: the
 * new root names them again. The others are written while the account keeps changing; their names
 * (`<epoch>-<n>-<page>`) are used once. It takes effect when its root is set, fenced, which the
 * flush pipeline does between two appends. Only then rows and pages behind it are removed, by exact
 * name: of pages those that the new root does not name. A root whose setting failed or is unknown
 * is set again with the same content; until it holds, nothing is removed.
 */
import type { AccountState, CheckpointCut } from '@holdfast/content-tree'
import type { JournalOwnership } from '@holdfast/journal'
import { backoffMs } from '@holdfast/kernel'
import { CheckpointRoot } from '@holdfast/wire'
import { forEachAtMost } from '../../queues/semaphore.ts'
import type { Services } from '../../services.ts'
import { inTurns } from '../../timers.ts'
import { pageDigestOf } from './flush-row.ts'

export interface TailRow {
  seq: number
  bytes: number
  /** Pages of its large changes. */
  pages: readonly string[]
}

/** A page of the current checkpoint. */
export interface RootPage {
  name: string
  digest: Uint8Array
  /** Which part of the state it is of; undefined: of none that a later checkpoint could keep. */
  part: number | undefined
  bytes: number
}

/** The current checkpoint. */
export interface CurrentCheckpoint {
  pages: readonly RootPage[]
  bytes: number
  /** The cut that it was made by; 0: the state was loaded from it. */
  mark: number
  /** Bytes in memory of the state that it holds. */
  weight: number
}

interface Cut extends CurrentCheckpoint {
  through: number
  /** Pages that are not there yet. */
  fresh: { name: string; bytes: Uint8Array }[]
  startedMs: number
  written: boolean
}

/**
 * When the tail has this many times the size that forces a checkpoint, the account waits for the
 * checkpoint.
 */
const fullTails = 2
/**
 * While checkpoints fail, changes that make the account smaller pass up to this many times that
 * size: a start still has to read the tail.
 */
const crammedTails = 4
/**
 * A state too large for a root is cut again after this time: it takes CPU, and only deletions help.
 */
const tooLargeRetryMs = 60_000

/**
 * A tail that changed the state's weight by this part of it is slower to read than the state
 * itself, even with short rows.
 */
const weightPart = 16
/**
 * A checkpoint waits until the tail has this many times the bytes that it would write: over an
 * account's life checkpoints write a third of the bytes that its rows take.
 */
const tailTimes = 3
/**
 * The tail of a large account may have this part of its snapshot's bytes. So scattered changes do
 * not rewrite all its pages every few MiB, and a start reads at most half as much again.
 */
const tailPart = 2
/** Bytes of a page in a root. */
const rootBytesPerPage = 56

export class Checkpoints {
  readonly #services: Services
  readonly #ownership: JournalOwnership
  #snapshot: CurrentCheckpoint
  readonly #state: AccountState
  readonly #tail: TailRow[]
  #tailBytes: number
  #cut: Cut | undefined
  #count = 0
  #failures = 0
  #retryAtMs = 0
  readonly #removals = new Set<Promise<void>>()
  #leftPages = false

  /** @param start what the activation was read from. */
  constructor(
    services: Services,
    ownership: JournalOwnership,
    start: {
      state: AccountState
      snapshot: CurrentCheckpoint
      tail: readonly TailRow[]
    },
  ) {
    this.#services = services
    this.#ownership = ownership
    this.#snapshot = start.snapshot
    this.#state = start.state
    this.#tail = [...start.tail]
    this.#tailBytes = this.#tail.reduce((sum, row) => sum + row.bytes, 0)
  }

  /** A row became durable. */
  appended(row: TailRow): void {
    this.#tail.push(row)
    this.#tailBytes += row.bytes
  }

  /** A cut should be made now. */
  get due(): boolean {
    if (this.#cut !== undefined || this.#services.clock.monotonic() < this.#retryAtMs) return false
    const { checkpointBytesMin } = this.#services.bounds
    if (this.#tailIsBeyond(1)) return true
    return this.#tailBytes >= checkpointBytesMin && this.#tailBytes >= tailTimes * this.#nextBytes
  }

  /** About what a checkpoint would write now. */
  get #nextBytes(): number {
    const { pages, mark } = this.#snapshot
    return this.#state.changedBytes(mark) + pages.length * rootBytesPerPage
  }

  /** The tail is so long that nothing more may be added before a checkpoint is set. */
  get full(): boolean {
    return this.#tailIsBeyond(fullTails)
  }

  /**
   * Checkpoints fail, and the tail is full: only reads and changes that make the account smaller
   * pass.
   */
  get stuck(): boolean {
    return this.#failures > 0 && this.full
  }

  /** As `stuck`, and the room for changes that make the account smaller is used up, too. */
  get crammed(): boolean {
    return this.#tailIsBeyond(crammedTails)
  }

  #tailIsBeyond(times: number): boolean {
    const { tailBytesMax, tailFlushesMax } = this.#services.bounds
    const larger = times * Math.max(1, this.#snapshot.bytes / tailPart / tailBytesMax)
    return this.#tailBytes >= larger * tailBytesMax || this.#tail.length >= larger * tailFlushesMax
  }

  /** At a passivation: reading the tail again would cost more than a checkpoint does now. */
  get worthwhile(): boolean {
    const { checkpointBytesMin } = this.#services.bounds
    const grown = Math.abs(this.#state.bytes - this.#snapshot.weight)
    return (
      this.#tailBytes >= Math.max(checkpointBytesMin / 4, this.#nextBytes / 4) ||
      this.#tail.length >= 256 ||
      grown >= Math.max(checkpointBytesMin, this.#state.bytes / weightPart)
    )
  }

  /** The next attempt after a failure, monotonic milliseconds. */
  get retryAtMs(): number {
    return this.#retryAtMs
  }

  /** A cut was made and is not in effect yet. */
  get underWay(): boolean {
    return this.#cut !== undefined
  }

  /** Pages are durable: the root may be set. */
  get ready(): boolean {
    return this.#cut?.written === true && this.#services.clock.monotonic() >= this.#retryAtMs
  }

  /**
   * Cuts the state. Until this resolves it must equal the result of the rows up to `through`; that
   * row may still be in flight.
   */
  async cut(through: number): Promise<void> {
    const { clock, timers, bounds } = this.#services
    const startedMs = clock.monotonic()
    const n = this.#count++
    const { pages: before, mark } = this.#snapshot
    const parts = new Set(before.flatMap(({ part }) => part ?? []))
    const steps = this.#state.checkpoint({ mark, parts })
    const cut = await inTurns(steps, { clock, timers, turnMs: bounds.turnMs })
    const weight = this.#state.bytes
    const prefix = `${this.#ownership.epoch}-${n}`
    this.#cut = { through, ...pagesOf(cut, { before, prefix }), weight, startedMs, written: false }
  }

  /**
   * Writes the pages of the cut; call it once its row is durable. @returns whether they are
   * durable.
   */
  async writePages(): Promise<boolean> {
    const cut = this.#cut
    if (cut === undefined || cut.written) return false
    const { journal, bounds, log } = this.#services
    const { account } = this.#ownership
    try {
      await forEachAtMost(bounds.pagesAtOnceMax, cut.fresh, (page) =>
        journal.putPage(account, page.name, page.bytes),
      )
      cut.written = true
      return true
    } catch (error) {
      this.#failed('pages')
      log.warn({ account, pages: cut.fresh.length, err: error }, 'pages of a checkpoint could not be written')
      this.#giveUp(cut)
      return false
    }
  }

  /** A later cut has its own pages. */
  #giveUp(cut: Cut): void {
    this.#cut = undefined
    const names = cut.fresh.map((page) => page.name)
    if (names.length > 0) this.#removePages(names, 'pages of an abandoned checkpoint stay')
  }

  /**
   * Sets the root; never during an append.
   * @throws JournalFault `FENCED`. Anything else is retried later.
   */
  async setRoot(): Promise<void> {
    const cut = this.#cut
    if (cut === undefined) return
    const { journal, log } = this.#services
    const root = encodeRoot(cut)
    try {
      await journal.setRoot(this.#ownership, { root, through: cut.through })
    } catch (error) {
      const { code } = error as { code?: string }
      if (code === 'FENCED') throw error
      if (code === 'TOO_LARGE') {
        this.#failed('too large')
        this.#retryAtMs = this.#services.clock.monotonic() + tooLargeRetryMs
        log.error(
          { account: this.#ownership.account, pages: cut.pages.length, bytes: cut.bytes, err: error },
          'an account is too large for a checkpoint: it is only read and deleted from',
        )
        return this.#giveUp(cut)
      }
      this.#failed('root')
      log.warn({ account: this.#ownership.account, err: error }, 'the root of a checkpoint could not be set')
      return
    }
    // A passivation and a retry may set the root at the same time. When the second one ends, the
    // current root already names the pages of this cut, so they must not count as obsolete.
    if (this.#cut === cut) this.#holds(cut)
  }

  #holds(cut: Cut): void {
    const { journal, metrics, clock } = this.#services
    const kept = new Set(cut.pages.map(({ name }) => name))
    const obsolete = this.#snapshot.pages.flatMap(({ name }) => (kept.has(name) ? [] : name))
    while (this.#tail.length > 0 && (this.#tail[0]?.seq ?? 0) <= cut.through) {
      const row = this.#tail.shift() as TailRow
      this.#tailBytes -= row.bytes
      obsolete.push(...row.pages)
    }
    const { pages, bytes, mark, weight, fresh } = cut
    this.#snapshot = { pages, bytes, mark, weight }
    this.#cut = undefined
    this.#failures = 0
    this.#retryAtMs = 0
    const ms = clock.monotonic() - cut.startedMs
    const written = fresh.reduce((sum, page) => sum + page.bytes.length, 0)
    metrics.checkpointed({ ms, bytes: written, pages: fresh.length })
    this.#remove(() => journal.trim(this.#ownership, cut.through), 'rows behind a checkpoint stay')
    if (obsolete.length === 0) return
    this.#removePages(obsolete, 'pages behind a checkpoint stay')
  }

  /**
   * Unnamed pages that could not be deleted: the next activation sweeps them, if this one does not
   * end cleanly.
   */
  get leftPages(): boolean {
    return this.#leftPages
  }

  #removePages(names: readonly string[], message: string): void {
    this.#remove(async () => {
      try {
        await this.#services.journal.deletePages(this.#ownership, names)
      } catch (error) {
        this.#leftPages = true
        throw error
      }
    }, message)
  }

  /** Rows that stay are removed with those behind the next checkpoint. */
  #remove(work: () => Promise<void>, message: string): void {
    const removal = work().catch((error: unknown) => {
      this.#services.log.warn({ account: this.#ownership.account, err: error }, message)
    })
    this.#removals.add(removal)
    void removal.finally(() => this.#removals.delete(removal))
  }

  /** Resolves when nothing is being removed. */
  async removed(): Promise<void> {
    await Promise.all(this.#removals)
  }

  #failed(what: 'pages' | 'root' | 'too large'): void {
    const { clock, bounds, metrics, randomness } = this.#services
    metrics.checkpointFailed({ what })
    const backoff = {
      firstMs: bounds.retryFirstMs,
      maxMs: bounds.retryMaxMs,
      fraction: randomness.fraction(),
    }
    this.#retryAtMs = clock.monotonic() + backoffMs(this.#failures++, backoff)
  }
}

/** Pages of a cut in the order of its parts; those of unchanged parts are the ones before. */
export function pagesOf(
  { mark, parts }: CheckpointCut,
  { before, prefix }: { before: readonly RootPage[]; prefix: string },
): Pick<Cut, 'mark' | 'pages' | 'bytes' | 'fresh'> {
  const known = Map.groupBy(before, ({ part }) => part)
  const fresh: Cut['fresh'] = []
  const pages = parts.flatMap(({ part, pages: written }) => {
    if (written === undefined) {
      const kept = known.get(part)
      if (kept === undefined) throw new Error(`part ${part} of a checkpoint was never written`)
      return kept
    }
    return written.map((bytes) => {
      const name = `${prefix}-${fresh.length}`
      fresh.push({ name, bytes })
      return { name, digest: pageDigestOf(bytes), part, bytes: bytes.length }
    })
  })
  return { mark, pages, bytes: pages.reduce((sum, page) => sum + page.bytes, 0), fresh }
}

export function encodeRoot({ through, pages }: Pick<Cut, 'through' | 'pages'>): Uint8Array {
  return CheckpointRoot.encode({
    through,
    pages: pages.map(({ name }) => name),
    digests: pages.map(({ digest }) => Buffer.from(digest)),
    parts: pages.map(({ part }) => part ?? 0),
  }).finish()
}
