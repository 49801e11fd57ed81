/**
 * Makes the turns of an account durable: one append is in flight, and the next one carries all
 * changes decided since then, with the answers that wait for them.
 *
 *     decided change ─► open batch ─► in flight ─► answers, effects
 *
 * Around an append, in this order: pages of large changes, reference rows of blobs taken into use,
 * routes of share codes and the `active` row before it; an earlier wake row beside it, due before
 * the answers; references of released blobs and mails after it. Stores that keep the order of issue
 * get the rows before it without a wait.
 *
 * A change that may wait, a report of downloads, is answered once it is applied. It is journaled in
 * its place with the next row, at the latest before a checkpoint is cut: no checkpoint holds a
 * change that no row has.
 */
import type { AccountState } from '@holdfast/content-tree'
import { isUnwritten, type JournalOwnership, maxEventBytes } from '@holdfast/journal'
import { forTrace } from '@holdfast/kernel'
import { Change } from '@holdfast/wire'
import type { Services } from '../../services.ts'
import type { AccountTurn } from '../account-turn.ts'
import type { EffectCauses } from '../effects/effect-causes.ts'
import type { EffectProgress } from '../effects/effect-progress.ts'
import type { PendingEffects } from '../effects/pending-effects.ts'
import { reportSweeps } from '../effects/sweeps.ts'
import { type Answer, bytesOfAnswer, type PendingRequest } from '../requests/pending-request.ts'
import type { AccountRows } from './account-rows.ts'
import { Batch, tracedFlush } from './batch.ts'
import type { Checkpoints } from './checkpoints.ts'
import { DurableLog } from './durable-log.ts'
import { cutPages, encodeFlushRow, type FlushEntry } from './flush-row.ts'
import type { Leftovers } from './leftovers.ts'
import { WaitingChanges } from './waiting-changes.ts'

/** What the pipeline works on. */
export interface PipelineContext {
  state: AccountState
  turn: AccountTurn
  rows: AccountRows
  checkpoints: Checkpoints
  effects: PendingEffects
  progress: EffectProgress
  causes: EffectCauses
  leftovers: Leftovers
}

/** What the pipeline reports to its activation. */
export interface PipelineEvents {
  /** A step succeeded. */
  advanced(): void
  /** The stores refuse, or an outcome is unknown. */
  stalled(): void
  /** It has nothing more to do. */
  rests(): void
  /** The activation is over. */
  lost(error: unknown): void
}

export class FlushPipeline {
  readonly #services: Services
  readonly #ownership: JournalOwnership
  readonly #events: PipelineEvents
  readonly #state: AccountState
  readonly #turn: AccountTurn
  readonly #rows: AccountRows
  readonly #checkpoints: Checkpoints
  readonly #effects: PendingEffects
  readonly #progress: EffectProgress
  readonly #causes: EffectCauses
  readonly #leftovers: Leftovers
  readonly #log: DurableLog
  /** They enter the open batch before the next change does, because they were decided before it. */
  readonly #waitingChanges: WaitingChanges
  #open = new Batch()
  #inFlight: Batch | undefined
  #flushing = false
  #flushed: Promise<void> = Promise.resolve()
  #heldReplyBytes = 0
  #cancelRetryTimer: (() => void) | undefined
  #pageRuns = 0

  constructor(
    services: Services,
    ownership: JournalOwnership,
    context: PipelineContext,
    events: PipelineEvents,
  ) {
    this.#services = services
    this.#ownership = ownership
    this.#events = events
    this.#state = context.state
    this.#turn = context.turn
    this.#rows = context.rows
    this.#checkpoints = context.checkpoints
    this.#effects = context.effects
    this.#progress = context.progress
    this.#causes = context.causes
    this.#leftovers = context.leftovers
    this.#waitingChanges = new WaitingChanges(services, () => void this.kick())
    this.#log = new DurableLog(services, ownership, {
      onStall: () => events.stalled(),
      requestIds: () => this.requestIds,
    })
  }

  /** The batch of the next append. */
  get open(): Batch {
    return this.#open
  }

  /** Changes that wait for a row. */
  get waitingChanges(): WaitingChanges {
    return this.#waitingChanges
  }

  /** Something is being flushed, or will be. */
  get busy(): boolean {
    return this.#flushing || this.#open.changes
  }

  /** No decision may be made before something of it is durable. */
  get full(): boolean {
    return (
      this.#open.full || this.#beginsAccount || this.#heldReplyBytes > this.#services.bounds.heldReplyBytesMax
    )
  }

  /**
   * The first row of an account makes it, and is one change: a larger row may need pages, which are
   * written once the account has an epoch.
   */
  get #beginsAccount(): boolean {
    return isUnwritten(this.#ownership) && this.#open.changes && this.#inFlight?.changes !== true
  }

  /** Some of the clients' requests that wait for what is being written. */
  get requestIds(): string[] {
    return this.#inFlight?.requestIds ?? []
  }

  /** All that wait for something durable. */
  get asks(): PendingRequest[] {
    return [...(this.#inFlight?.waiting ?? []), ...this.#open.waiting].map(({ ask }) => ask)
  }

  /** Into the open batch, after the changes that waited for a row. */
  enter(entry: FlushEntry): void {
    this.#enterWaiting()
    this.#open.add(entry)
  }

  #enterWaiting(): void {
    for (const entry of this.#waitingChanges.take()) this.#open.add(entry)
  }

  entryOf(change: Change): FlushEntry {
    const encoded = Change.encode(change).finish()
    if (encoded.length <= maxEventBytes) return encoded
    const run = this.#pageRuns++
    return cutPages(encoded, (page) => `${this.#ownership.epoch}-e${run}-${page}`)
  }

  /**
   * The state that the reply shows becomes durable with the newest tentative change, or is already
   * durable.
   */
  answerWhenDurable(ask: PendingRequest, answer: Answer): void {
    const { exclusive } = this.#services.journal.capabilities
    const saw = !exclusive || this.#open.changes ? this.#open : this.#inFlight
    if (saw === undefined) ask.answer(answer)
    else {
      saw.hold(ask, answer)
      this.#heldReplyBytes += bytesOfAnswer(answer)
    }
  }

  /** Starts the pipeline unless it runs. Resolves when it has nothing more to do; never rejects. */
  kick(): Promise<void> {
    if (!this.#flushing) {
      this.#flushing = true
      // It serves all requests, whichever of them starts it.
      this.#flushed =
        this.#services.tracer === undefined ? this.#flush() : forTrace(undefined, () => this.#flush())
    }
    return this.#flushed
  }

  async #flush(): Promise<void> {
    try {
      while (this.#turn.loss === undefined) {
        if (this.#checkpoints.ready) await this.setRoot()
        else if (this.#progress.left) await this.#takeMoreEffects()
        else if (this.#waitingGo) this.#enterWaiting()
        else if (this.#finishedGo) await this.#turn.run(this.#addFinished())
        else if (this.#gathersReads) await this.#gatherReads()
        else if (this.#hasWork) await this.#write(this.#seal())
        else if (this.#mayCut) await this.#cutCheckpoint()
        else break
        this.#events.advanced()
      }
      this.#events.rests()
      if (this.#turn.loss === undefined) this.#retryCheckpointLater()
    } catch (error) {
      this.#events.lost(error)
    } finally {
      // In the same turn as the last check for work, so that no wake-up is lost in between.
      this.#flushing = false
    }
  }

  get #hasWork(): boolean {
    const { changes, waiting } = this.#open
    return (changes || waiting.length > 0) && !this.#turn.isApplying
  }

  /** Reads arrive one by one, those of one moment in the same turn. */
  get #gathersReads(): boolean {
    const { changes, toConfirm, gathered } = this.#open
    const { exclusive } = this.#services.journal.capabilities
    return this.#hasWork && !changes && toConfirm && !exclusive && !gathered
  }

  async #gatherReads(): Promise<void> {
    this.#open.gathered = true
    await this.#services.timers.turn()
  }

  /**
   * Waiting changes get a row when they are due, and before a cut: the rows that a checkpoint
   * covers contain all changes in the state.
   */
  get #waitingGo(): boolean {
    return !this.#waitingChanges.isEmpty && (this.#waitingChanges.isDue || this.#mayCut)
  }

  /**
   * Adds the report of finished effects to the open batch, once, or makes a batch for it when it is
   * due.
   */
  get #finishedGo(): boolean {
    const { changes, finished } = this.#open
    return (changes || this.#progress.isDue) && !finished && this.#progress.hasFinished && !this.#turn.isHeld
  }

  *#addFinished(): Generator<void, void> {
    const change = this.#progress.changeOfFinished()
    this.#turn.applies()
    try {
      yield* this.#state.applying(change)
      this.enter(this.entryOf(change))
      this.#open.finished = true
    } catch (error) {
      this.#events.lost(error)
    } finally {
      this.#turn.applied()
    }
  }

  /**
   * Sends the open batch and begins a new one. In one turn with the append, because now the state
   * contains the changes of this batch and no later ones.
   */
  #seal(): Batch {
    const batch = this.#open
    this.#open = new Batch()
    if (!batch.changes) return batch
    batch.lastEffect = this.#state.lastEffect
    batch.due = this.#state.nextDue()
    return batch
  }

  async #write(batch: Batch): Promise<void> {
    this.#inFlight = batch
    if (batch.changes) await tracedFlush(this.#services.tracer, batch, () => this.#append(batch))
    else if (!this.#services.journal.capabilities.exclusive && batch.toConfirm) await this.#log.confirm()
    if (this.#turn.loss !== undefined) return
    this.#inFlight = undefined
    this.#heldReplyBytes -= batch.replyBytes
    for (const { ask, answer } of batch.waiting) ask.answer(answer)
    if (!batch.changes) return
    reportSweeps(this.#services, this.#ownership.account, batch.sweeps)
    this.#progress.durableTo(batch.lastEffect)
    this.takeEffects()
    this.#services.onDue(this.#ownership.account, batch.due)
  }

  async #takeMoreEffects(): Promise<void> {
    await this.#services.timers.turn()
    if (this.#turn.loss === undefined) this.takeEffects()
  }

  takeEffects(): void {
    this.#effects.adopt(this.#progress.take(this.#state), (effect) => this.#causes.take(effect))
  }

  async #append(batch: Batch): Promise<void> {
    const { clock, metrics, journal } = this.#services
    const { account } = this.#ownership
    const startedMs = clock.monotonic()
    // The state contains the changes of this row and no later ones: the time to cut.
    const cut = this.#mayCut
    if (cut) await this.#turn.hold(() => this.#checkpoints.cut(this.#ownership.head + 1))
    if (this.#turn.loss !== undefined) return
    const row = encodeFlushRow(batch.entries)
    const makes = isUnwritten(this.#ownership)
    const pages = batch.pages
    if (pages.length > 0 && isUnwritten(this.#ownership))
      throw new Error(`the change that makes account ${account} does not fit into a row`)
    await this.#log.until(() => this.#rows.prepare())
    for (const page of pages) {
      await this.#log.until(() => journal.putPage(account, page.name, page.bytes))
    }
    await this.#log.append(row, {
      before: () => this.#rows.before(batch),
      beside: () => this.#rows.beside(batch),
    })
    this.#rows.written()
    if (makes) metrics.made()
    this.#leftovers.changed()
    const seq = this.#ownership.head
    this.#checkpoints.appended({ seq, bytes: row.length, pages: pages.map(({ name }) => name) })
    if (cut) void this.#writeCheckpoint()
    const replies = batch.waiting.length
    metrics.flushed({
      ms: clock.monotonic() - startedMs,
      bytes: row.length,
      changes: batch.entries.length,
      replies,
    })
  }

  /** Without tentative changes the state is that of the last row. */
  async #cutCheckpoint(): Promise<void> {
    await this.#turn.hold(() => this.#checkpoints.cut(this.#ownership.head))
    void this.#writeCheckpoint()
  }

  /** A cut takes the turn: not while a decision in slices has it. */
  get #mayCut(): boolean {
    return this.#checkpoints.due && !this.#turn.isHeld
  }

  async setRoot(): Promise<void> {
    await this.#checkpoints.setRoot()
    this.#leftovers.changed()
  }

  async #writeCheckpoint(): Promise<void> {
    await this.#checkpoints.writePages()
    await this.kick()
  }

  #retryCheckpointLater(): void {
    const { clock, timers } = this.#services
    const ms = this.#checkpoints.retryAtMs - clock.monotonic()
    if (ms <= 0 || this.#cancelRetryTimer !== undefined) return
    this.#cancelRetryTimer = timers.after(ms, () => {
      this.#cancelRetryTimer = undefined
      void this.kick()
    })
  }

  /** Nothing more is retried. */
  endTimers(): void {
    this.#cancelRetryTimer?.()
  }

  /** Pending writes are abandoned. */
  end(): void {
    this.endTimers()
    this.#waitingChanges.end()
    this.#log.end()
  }
}
