/**
 * One account in memory on one host: its turn, and the pipeline that makes its turns durable.
 *
 * One request is decided at a time, against the tentative state: changes are applied as soon as
 * they are decided. While one append is in flight the account continues to decide; the next append
 * carries all changes decided since then. A change, a read or a refusal is answered only after the
 * flush of the state on which the answer is based. So when an append is refused, no answer was
 * wrong: all waiting requests get `unavailable` and the state is dropped whole.
 *
 *     mailbox ─► decide ─► apply (tentative) ─► open batch ─► in flight ─► answers, effects
 *                  └─ needs codes or verdicts: leaves the turn, comes back to the mailbox
 *
 * A change that may wait, a report of downloads, is answered once it is applied. It is journaled in
 * its place with the next row, at the latest before a checkpoint is cut: no checkpoint holds a
 * change that no row has.
 *
 * A long change is applied in slices. They keep the turn, and nothing is sealed or cut before the
 * last one.
 *
 * Around an append, in this order: pages of large changes, reference rows of blobs taken into use,
 * routes of share codes and the `active` row before it; an earlier wake row beside it, due before
 * the answers; references of released blobs and mails after it. Stores that keep the order of issue
 * get the rows before it without a wait.
 *
 * Unknown outcomes are settled by the serial head, never guessed. Until then new requests are
 * rejected and waiting ones keep their place until their deadlines.
 *
 * Without proof that earlier owners are dead (`capabilities.exclusive`) reads are confirmed by a
 * later serial read of the head, so a stale owner answers nothing. All reads of a turn of the loop,
 * or of the time of another read of the head, share one.
 */
import type { AccountState, DecideContext, Outcome } from '@holdfast/content-tree'
import {
  isUnwritten,
  JournalFault,
  type JournalOwnership,
  type LookupChange,
  maxEventBytes,
  referenceKey,
  termOfEpoch,
} from '@holdfast/journal'
import { forTrace } from '@holdfast/kernel'
import { type AccountReply, Change, type ReconcileView } from '@holdfast/wire'
import type { CodeRange } from '../lookups/code-leases.ts'
import { routeRow } from '../lookups/lookup-rows.ts'
import { keyOf } from '../queues/password-checks.ts'
import type { Services } from '../services.ts'
import { inTurns } from '../timers.ts'
import { AccountRows, WriteTimes } from './account-rows.ts'
import { Batch, tracedFlush } from './batch.ts'
import { Checkpoints } from './checkpoints.ts'
import { CodeBlocks, type CodeLease } from './code-blocks.ts'
import { codeOf, DurableLog } from './durable-log.ts'
import { EffectCauses } from './effect-causes.ts'
import { EffectProgress } from './effect-progress.ts'
import { cutPages, encodeRow, type FlushEntry } from './flush-row.ts'
import { passes } from './full-accounts.ts'
import { Mailbox } from './mailbox.ts'
import { fetchNeeds, type Needs } from './needs.ts'
import { type Look, PendingEffects } from './pending-effects.ts'
import { type Answer, bytesOfAnswer, encodeReply, PendingRequest } from './pending-request.ts'
import { type RecoveredAccount, recover, sweepPages } from './recovery.ts'
import { blobNamed, end, mendReferences, placeBehind, type RouteLook, routesFrom } from './reference-look.ts'
import { SpareIds } from './spare-ids.ts'
import { sweepsOf, tellSweeps } from './sweeps.ts'
import { WaitingChanges } from './waiting-changes.ts'

/** Why an activation ended other than by passivation. */
export type Loss = 'fenced' | 'unavailable' | 'bug'

/** Memory of an activation besides its state: mailbox, batches, timers. */
const overheadBytes = 8 * 1024
/** Flushes for effects that end while it leaves. */
const retireRoundsMax = 4

const noCodes: CodeRange = { next: 0, end: 0 }

type Decided = Extract<Outcome, { kind: 'change' }>

export class Activation {
  readonly #services: Services
  readonly #ownership: JournalOwnership
  readonly #state: AccountState
  readonly #onLost: (loss: Loss) => void
  readonly #checkpoints: Checkpoints
  readonly #effects: PendingEffects
  readonly #progress: EffectProgress
  readonly #causes = new EffectCauses()
  readonly #log: DurableLog
  readonly #rows: AccountRows
  readonly #codes: CodeBlocks
  readonly #spareIds: SpareIds
  readonly #self = Symbol('activation')

  readonly #mailbox = new Mailbox()
  /** Requests that left the turn for codes or verdicts. */
  #away = 0
  #turnHeld = false
  /**
   * Time spent on decisions since the loop last turned. It counts over all arrivals, not from the
   * first of each: thousands that arrive one by one, each decided at once, would block the owner's
   * request in its socket.
   */
  #decidingMs = 0
  /** A change is in the state, wholly or partly, and not in the open batch. */
  #applying = false
  #open = new Batch()
  /** They were decided before everything in the open batch, so they are in it themselves. */
  readonly #waitingChanges: WaitingChanges
  #inFlight: Batch | undefined
  #flushing = false
  #flushed: Promise<void> = Promise.resolve()
  #heldReplyBytes = 0
  /** An outcome is unknown, or the stores refuse. */
  #stalled = false
  /** A decision threw: earlier decisions are flushed, and no more are made. */
  #ailing = false
  #leaving = false
  #loss: Loss | undefined

  #version = {}
  /** Part of it may be missing in the second region. */
  #hasChanged = false
  /** Whether all unnamed pages of earlier epochs are deleted. */
  #swept: Promise<boolean> = Promise.resolve(true)
  #cancelRetryTimer: (() => void) | undefined
  #pageRuns = 0

  private constructor(
    services: Services,
    ownership: JournalOwnership,
    recovered: RecoveredAccount,
    { onLost }: { onLost: (loss: Loss) => void },
  ) {
    this.#services = services
    this.#ownership = ownership
    this.#state = recovered.state
    this.#onLost = onLost
    this.#waitingChanges = new WaitingChanges(services, () => void this.#kick())
    this.#log = new DurableLog(services, ownership, {
      onStall: () => this.#rejectNewcomers(),
      requestIds: () => this.#inFlight?.requestIds ?? [],
    })
    const { rowWritesMax: writesMax } = services.bounds
    // Waiting callers retry, as after a takeover: the next activation has its own write times.
    const times = new WriteTimes(ownership, { writesMax, onSpent: () => this.#lose('fenced') })
    this.#rows = new AccountRows(services, ownership, times)
    this.#codes = new CodeBlocks(services.codes, ownership.account, {
      last: this.#state.nextCode,
      term: termOfEpoch(ownership.epoch),
    })
    this.#spareIds = new SpareIds(ownership.account, services)
    this.#checkpoints = new Checkpoints(services, ownership, recovered)
    const progress = new EffectProgress(services, () => void this.#kick())
    this.#progress = progress
    const finished = (numbers: readonly number[]) => progress.finish(numbers)
    this.#effects = new PendingEffects(ownership.account, services, { times, finished })
  }

  /**
   * Reads the account after it was taken over. The row of its next timer, which was promised before
   * the reply, is durable again when it resolves; all other pending effects continue from here.
   *
   * @param options.startedMs when it began to be taken over, monotonic.
   * @throws JournalFault, or what the core throws on changes it does not take.
   */
  static async open(
    ownership: JournalOwnership,
    services: Services,
    { startedMs, ...options }: { onLost: (loss: Loss) => void; startedMs: number },
  ): Promise<Activation> {
    const { clock, metrics } = services
    const recovered = await recover(services, ownership)
    const activation = new Activation(services, ownership, recovered, options)
    try {
      await activation.#resume(recovered)
    } catch (error) {
      activation.#progress.end()
      throw error
    }
    const bytes = recovered.snapshot.bytes + recovered.tail.reduce((sum, row) => sum + row.bytes, 0)
    metrics.activated({ ms: clock.monotonic() - startedMs, rows: recovered.tail.length, bytes })
    return activation
  }

  async #resume(recovered: RecoveredAccount): Promise<void> {
    const due = this.#state.nextDue()
    await this.#rows.resume(due)
    this.#services.onDue(this.#ownership.account, due)
    this.#progress.durableTo(this.#state.lastEffect)
    this.#takeEffects()
    if (this.#progress.left) void this.#kick()
    if (this.#ownership.previousOwner === undefined) return
    // It is unknown how much of it is in the second region.
    this.#changed()
    this.#swept = this.#sweepPages(recovered)
  }

  /** @returns whether no dead pages are left. */
  async #sweepPages(recovered: RecoveredAccount): Promise<boolean> {
    try {
      await sweepPages(this.#services, this.#ownership, recovered)
      return true
    } catch (error) {
      this.#services.log.warn({ account: this.#ownership.account, err: error }, 'dead pages stay for now')
      return false
    }
  }

  // ---- what the host sees

  get bytes(): number {
    return this.#state.bytes + this.#effects.bytes + this.#waitingChanges.bytes + overheadBytes
  }

  get nextDue(): number | undefined {
    return this.#state.nextDue()
  }

  /** There is no such account: its creation was refused, or is in progress. */
  get isUnwritten(): boolean {
    return isUnwritten(this.#ownership)
  }

  /**
   * Replaced by another object after every decided change, before the change is visible to any
   * caller. Undefined where a stale owner could be asked: there only a request through the mailbox
   * is confirmed.
   */
  get version(): object | undefined {
    return this.#services.journal.capabilities.exclusive && this.#loss === undefined
      ? this.#version
      : undefined
  }

  /** Nothing is being decided, flushed or checkpointed. */
  get quiet(): boolean {
    const deciding = this.#mailbox.length > 0 || this.#away > 0 || this.#turnHeld
    return !deciding && !this.#flushing && !this.#open.changes && !this.#checkpoints.underWay
  }

  /** Effects are being carried out. */
  get effectsBusy(): boolean {
    return this.#effects.busy
  }

  /**
   * Accepts requests; each is answered once. All of them are in the mailbox before the first is
   * decided.
   */
  submit(...asks: PendingRequest[]): void {
    for (const ask of asks) {
      if (this.#loss !== undefined) this.#sendAway(ask)
      else if (this.#stalled) ask.unavailable()
      else this.#mailbox.push(ask)
    }
    if (this.#mailbox.length > 0) this.#pump()
  }

  /**
   * Drops the activation like a crash; waiting requests get `unavailable`. What is durable stays.
   */
  abandon(): void {
    this.#lose('unavailable')
  }

  /**
   * Leaves cleanly: finished effects and waiting changes are journaled, a checkpoint is made if
   * reading the tail would cost more, the timers' row is corrected, the `active` row removed when
   * nothing is pending, the ownership released. Call it when quiet, with no requests coming. When
   * the stores refuse, it leaves without these steps; the next activation does them. It does the
   * same while the second region lacks some of it, or unnamed pages could not be deleted: its
   * `active` row leads back to it.
   *
   * @returns whether effects stay undone.
   */
  async retire(): Promise<{ pendingEffects: boolean }> {
    this.#leaving = true
    this.#progress.endTimers()
    for (let round = 0; round < retireRoundsMax && this.#lacksRow; round++) {
      this.#progress.isDue = true
      this.#waitingChanges.isDue = true
      await this.#kick()
    }
    const pendingEffects = this.#effects.busy || this.#effects.left > 0 || this.#progress.hasFinished
    if (this.#loss !== undefined) return { pendingEffects }
    this.#effects.stop()
    try {
      await this.#lastCheckpoint()
      const isWhole = await this.#isWhole()
      await this.#rows.last({ due: this.#state.nextDue(), keepActive: pendingEffects || !isWhole })
      if (isWhole) await this.#services.journal.release(this.#ownership)
    } catch (error) {
      this.#services.log.warn(
        { account: this.#ownership.account, err: error },
        'an account left without a clean release',
      )
    }
    this.#loss ??= 'unavailable'
    this.#cancelRetryTimer?.()
    this.#progress.end()
    return { pendingEffects }
  }

  get #lacksRow(): boolean {
    return this.#progress.hasFinished || !this.#waitingChanges.isEmpty
  }

  /** The next activation has nothing to repair. */
  async #isWhole(): Promise<boolean> {
    const { arrivals } = this.#services
    const sendRoutes = () => this.sendRoutes()
    const hasArrived = !this.#hasChanged || (await arrivals.confirm(this.#ownership.account, sendRoutes))
    const isSwept = (await this.#swept) && !this.#checkpoints.leftPages
    return hasArrived && isSwept
  }

  /**
   * Writes the routes of all its share codes again.
   * @throws JournalFault `UNAVAILABLE` when some may not be written.
   */
  async sendRoutes(): Promise<void> {
    const { account } = this.#ownership
    const { timers } = this.#services
    for (let content = 0; content !== end && this.#loss === undefined; ) {
      const { routes, next } = routesFrom(this.#state, account, content)
      await this.#rows.restore(routes)
      content = next
      await timers.turn()
    }
    if (this.#loss !== undefined) throw new JournalFault('UNAVAILABLE', `${account} left memory`)
  }

  #changed(): void {
    this.#hasChanged = true
    this.#services.arrivals.changed(this.#ownership.account)
  }

  /** Keys of active rows that exist because of this activation. */
  get activeRows(): string[] {
    return this.#rows.activeRows
  }

  /**
   * Removes an active row of this account that another owner has left.
   * @returns false: it may still exist. Safe to repeat.
   */
  async clear(row: string): Promise<boolean> {
    if (this.#leaving || this.#loss !== undefined || isUnwritten(this.#ownership)) return false
    this.#away++
    try {
      const pending = this.#progress.pending || this.#hasChanged
      await this.#rows.clear(row, { pending, due: this.#state.nextDue() })
      return await this.#isOwner()
    } catch (error) {
      this.#services.log.warn(
        { account: this.#ownership.account, err: error },
        'an active row could not be removed',
      )
      return false
    } finally {
      this.#away--
    }
  }

  /** No newer owner has overridden the earlier writes. */
  async #isOwner(): Promise<boolean> {
    const { account, epoch } = this.#ownership
    const { journal } = this.#services
    if (journal.capabilities.exclusive) return this.#loss === undefined
    const now = await journal.head(account)
    if (now.epoch === epoch) return this.#loss === undefined
    this.#lost(new JournalFault('FENCED', `${account} is in epoch ${now.epoch}, not in ours, ${epoch}`))
    return false
  }

  async #lastCheckpoint(): Promise<void> {
    if (this.#checkpoints.worthwhile && !this.#checkpoints.underWay) {
      await this.#holdTurn(() => this.#checkpoints.cut(this.#ownership.head))
      if (await this.#checkpoints.writePages()) await this.#setRoot()
    }
    await this.#checkpoints.removed()
  }

  // ---- the turn

  #pump(): void {
    const { clock, bounds, metrics, timers } = this.#services
    for (let startedMs = clock.monotonic(); !this.#blocked; ) {
      const ask = this.#mailbox.shift()
      if (ask === undefined) break
      if (ask.decisions === 0) metrics.waited({ ms: startedMs - ask.arrivedMs })
      if (this.#checkpoints.stuck && !passes(ask.request, this.#checkpoints)) ask.unavailable()
      else this.#decide(ask)
      const endedMs = clock.monotonic()
      this.#decidingMs += endedMs - startedMs
      startedMs = endedMs
      // A decision may have kept the turn for work in slices.
      if (this.#turnHeld || this.#decidingMs < bounds.turnMs) continue
      this.#decidingMs = 0
      void this.#holdTurn(() => timers.turn())
    }
    void this.#kick()
  }

  get #blocked(): boolean {
    return (
      this.#turnHeld ||
      this.#ailing ||
      this.#stalled ||
      this.#loss !== undefined ||
      this.#open.full ||
      this.#beginsAccount ||
      this.#heldReplyBytes > this.#services.bounds.heldReplyBytesMax ||
      (this.#checkpoints.full && !this.#checkpoints.stuck)
    )
  }

  /**
   * The first row of an account makes it, and is one change: a larger row may need pages, which are
   * written once the account has an epoch.
   */
  get #beginsAccount(): boolean {
    return isUnwritten(this.#ownership) && this.#open.changes && this.#inFlight?.changes !== true
  }

  /** Keeps the turn while `work` yields to the loop, so the state does not change in that time. */
  async #holdTurn(work: () => Promise<void>): Promise<void> {
    this.#turnHeld = true
    await work()
    this.#turnHeld = false
    this.#pump()
  }

  #decide(ask: PendingRequest): void {
    const { clock, bounds } = this.#services
    if (ask.done) return
    if (ask.expired(clock.now()) || ++ask.decisions > bounds.decisionsPerRequestMax) {
      ask.unavailable()
      return
    }
    if (ask.request.operation?.$case === 'reconcile') {
      this.#compareReferences(ask)
      return
    }
    const refused = this.#services.refusals.find(ask.request, this.#self)
    if (refused !== undefined) {
      this.#reply(ask, refused)
      return
    }
    try {
      const outcome = this.#decideWith(ask, this.#codes.show())
      const lacks = outcome.kind === 'needs' ? (outcome.codes ?? 0) : 0
      if (lacks === 0 || !this.#codes.leaseNow(lacks)) this.#take(ask, outcome, this.#codes.show())
      else this.#take(ask, this.#decideWith(ask, this.#codes.show()), this.#codes.show())
    } catch (error) {
      this.#bug(ask, error)
    }
  }

  #decideWith(ask: PendingRequest, codes: CodeRange): Outcome {
    return this.#state.decide(ask.request, this.#contextOf(ask, codes))
  }

  /**
   * The state is read in this turn. The rest waits until that is durable, and happens outside of
   * the turn.
   */
  #compareReferences(ask: PendingRequest): void {
    const { epoch } = this.#ownership
    const { operation } = ask.request
    if (operation?.$case !== 'reconcile') return
    const { uses, dryRun, suspects } = operation.value
    // A row that is deleted in epoch 0 could reappear.
    if (!dryRun && isUnwritten(this.#ownership)) {
      ask.unavailable()
      return
    }
    const place = uses && (uses.epoch === epoch ? uses : { epoch, row: 0, content: 0 })
    const value = { dryRun, suspects, uses: place }
    const request = { ...ask.request, operation: { $case: 'reconcile' as const, value } }
    try {
      const outcome = this.#state.decide(request, this.#contextOf(ask, noCodes))
      const view = outcome.kind === 'reply' ? outcome.reply.result : undefined
      if (outcome.kind !== 'reply') throw new Error(`a comparison of references ended with ${outcome.kind}`)
      if (view?.$case !== 'reconcile') {
        this.#answerWhenDurable(ask, outcome.reply)
        return
      }
      const routeLook = routesFrom(this.#state, this.#ownership.account, place?.content ?? end)
      const next = placeBehind(epoch, { blobs: view.value.next, contents: routeLook.next })
      const look = this.#effects.look(view.value.strangers.map(blobNamed))
      this.#away++
      const seen = new PendingRequest(ask.request, (answer) => {
        void this.#mendReferences(ask, {
          durable: answer === outcome.reply,
          view: { ...view.value, next },
          look,
          routeLook,
          dryRun,
          answer,
        })
      })
      this.#answerWhenDurable(seen, outcome.reply)
    } catch (error) {
      this.#bug(ask, error)
    }
  }

  /**
   * @param seen.answer other than the state's when the activation ended before that was durable.
   */
  async #mendReferences(
    ask: PendingRequest,
    seen: {
      durable: boolean
      answer: Answer
      view: ReconcileView
      look: Look
      routeLook: RouteLook
      dryRun: boolean
    },
  ): Promise<void> {
    const { account } = this.#ownership
    try {
      if (!seen.durable || this.#loss !== undefined) return this.#sendAway(ask)
      const restore = async (rows: readonly LookupChange[]) => {
        if (this.#loss === undefined) await this.#rows.restore(rows)
      }
      const value = await mendReferences(this.#services, { account, ...seen, restore })
      if (this.#loss === undefined) ask.answer({ result: { $case: 'reconcile', value } })
      else this.#sendAway(ask)
    } catch (error) {
      this.#services.log.warn({ account, err: error }, 'references could not be compared')
      ask.unavailable()
    } finally {
      seen.look.end()
      this.#away--
    }
  }

  #contextOf(ask: PendingRequest, codes: DecideContext['codes']): DecideContext {
    const { clock, randomness, passwords } = this.#services
    return {
      nowMs: clock.now(),
      seed: randomness.bytes(16),
      newId: () => this.#spareIds.take(),
      codes,
      legacyCodes: ask.legacyCodes ?? noCodes,
      verdict: (verifier, password) =>
        ask.verdicts.get(keyOf(verifier, password)) ?? passwords.known(verifier, password),
    }
  }

  #take(ask: PendingRequest, outcome: Outcome, codes: CodeLease): void {
    switch (outcome.kind) {
      case 'reply':
        this.#services.refusals.keep(ask.request, this.#self, outcome.reply)
        this.#reply(ask, outcome.reply)
        break
      case 'change':
        this.#commit(ask, outcome, codes)
        break
      case 'needs':
        void this.#fetch(ask, outcome)
        break
      case 'slices':
        void this.#holdTurn(() => this.#runSlices(ask, outcome.steps, codes))
    }
  }

  /**
   * Encoding and decoding a listing of 13 MB blocks the loop for some 100 ms. A reply may share
   * texts and records with the state, which replaces them and never changes them.
   */
  #reply(ask: PendingRequest, reply: AccountReply): void {
    this.#answerWhenDurable(ask, ask.inProcess ? reply : encodeReply(reply))
  }

  async #runSlices(ask: PendingRequest, steps: Generator<void, Outcome>, codes: CodeLease): Promise<void> {
    const { clock, timers } = this.#services
    try {
      let running = steps
      while (this.#loss === undefined && !ask.expired(clock.now())) {
        const step = running.next()
        if (!step.done) await timers.turn()
        else if (step.value.kind === 'slices') running = step.value.steps
        else if (step.value.kind === 'change')
          return await this.#inTurns(this.#committing(ask, step.value, codes))
        else return this.#take(ask, step.value, codes)
      }
      running.return({ kind: 'needs' })
      this.#sendAway(ask)
    } catch (error) {
      this.#bug(ask, error)
    }
  }

  /** Applies a decided change; from here on it is in the next flush or the state is dropped. */
  #commit(ask: PendingRequest, outcome: Decided, codes: CodeLease): void {
    void this.#run(this.#committing(ask, outcome, codes))
  }

  /**
   * Applies a change at once when that is short, else in slices that keep the turn. Until the last
   * one nothing is decided, sealed or cut: no part of it is visible, and none becomes durable
   * before it.
   *
   * @returns undefined: it is applied.
   */
  #run(steps: Generator<void, void>): Promise<void> | undefined {
    if (steps.next().done === true) return undefined
    const { clock, bounds, timers } = this.#services
    const endsMs = clock.monotonic() + bounds.turnMs
    while (clock.monotonic() < endsMs) if (steps.next().done === true) return undefined
    return this.#holdTurn(async () => {
      await timers.turn()
      await this.#inTurns(steps)
    })
  }

  #inTurns(steps: Generator<void, void>): Promise<void> {
    const { clock, timers, bounds } = this.#services
    return inTurns(steps, { clock, timers, turnMs: bounds.turnMs })
  }

  *#committing(ask: PendingRequest, outcome: Decided, codes: CodeLease): Generator<void, void> {
    const { change, uses, reply } = outcome
    const entry = this.#entryOf(change)
    const keys = uses.map((blob) => referenceKey(blob, this.#ownership.account))
    const after = this.#state.lastEffect
    let answer: Answer
    this.#version = {}
    this.#applying = true
    try {
      yield* this.#state.applying(change)
      if (this.#loss !== undefined) return this.#sendAway(ask)
      answer = reply()
    } catch (error) {
      this.#bug(ask, error)
      this.#lose('bug')
      return
    } finally {
      this.#applying = false
    }
    this.#causes.add(ask.request.clientRequest, { after, through: this.#state.lastEffect })
    this.#effects.withdraw(keys)
    for (const key of keys) this.#open.uses.add(key)
    this.#open.routes.push(...this.#routesOf(ask, outcome, codes))
    if (outcome.mayWait && !this.#open.changes) {
      this.#waitingChanges.add(entry)
      ask.answer(answer)
      return
    }
    this.#enter(entry)
    this.#open.sweeps.push(...sweepsOf(change))
    this.#answerWhenDurable(ask, answer)
  }

  /** Into the open batch, after the changes that waited for a row. */
  #enter(entry: FlushEntry): void {
    this.#enterWaiting()
    this.#open.add(entry)
  }

  #enterWaiting(): void {
    for (const entry of this.#waitingChanges.take()) this.#open.add(entry)
  }

  #routesOf(ask: PendingRequest, { codesUsed, legacyCodesUsed }: Decided, codes: CodeLease): LookupChange[] {
    const routes = this.#codes.used(codes, codesUsed)
    if (legacyCodesUsed > 0) routes.push(routeRow(6, ask.legacyCodes?.next ?? 0, this.#ownership.account))
    return routes
  }

  #entryOf(change: Change): FlushEntry {
    const encoded = Change.encode(change).finish()
    if (encoded.length <= maxEventBytes) return encoded
    const run = this.#pageRuns++
    return cutPages(encoded, (page) => `${this.#ownership.epoch}-e${run}-${page}`)
  }

  /**
   * The state that the reply shows becomes durable with the newest tentative change, or is already
   * durable.
   */
  #answerWhenDurable(ask: PendingRequest, answer: Answer): void {
    const { exclusive } = this.#services.journal.capabilities
    const saw = !exclusive || this.#open.changes ? this.#open : this.#inFlight
    if (saw === undefined) ask.answer(answer)
    else {
      saw.hold(ask, answer)
      this.#heldReplyBytes += bytesOfAnswer(answer)
    }
  }

  /**
   * A bug of the core: the request gets its answer, earlier decisions are flushed, then the
   * activation ends.
   */
  #bug(ask: PendingRequest, error: unknown): void {
    const { account } = this.#ownership
    const { clientRequest: requestId, operation } = ask.request
    this.#services.log.error(
      { requestId, account, operation: operation?.$case, err: error },
      'a decision failed',
    )
    ask.refuse('error-internal')
    this.#ailing = true
    void this.#kick()
  }

  // ---- what a decision requires

  /**
   * Outside of the turn; the request returns to the mailbox. A refusal is like one that was
   * decided: copies get it, too, and it waits until what it saw is durable.
   */
  async #fetch(ask: PendingRequest, needs: Needs): Promise<void> {
    this.#away++
    let status: string | undefined
    try {
      status = await fetchNeeds(ask, needs, { services: this.#services, codes: this.#codes })
    } catch (error) {
      this.#services.log.warn(
        { requestId: ask.request.clientRequest, account: this.#ownership.account, err: error },
        'a decision did not get what it needs',
      )
      ask.unavailable()
    } finally {
      this.#away--
    }
    if (status === undefined || this.#loss !== undefined) {
      if (!ask.done) this.submit(ask)
      return
    }
    const reply: AccountReply = { result: { $case: 'refusal', value: { status } } }
    this.#services.refusals.keep(ask.request, this.#self, reply)
    this.#reply(ask, reply)
    this.#pump()
  }

  // ---- the pipeline

  /** Starts the pipeline unless it runs. Resolves when it has nothing more to do; never rejects. */
  #kick(): Promise<void> {
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
      while (this.#loss === undefined) {
        if (this.#checkpoints.ready) await this.#setRoot()
        else if (this.#progress.left) await this.#takeMoreEffects()
        else if (this.#waitingGo) this.#enterWaiting()
        else if (this.#finishedGo) await this.#run(this.#addFinished())
        else if (this.#gathersReads) await this.#gatherReads()
        else if (this.#hasWork) await this.#write(this.#seal())
        else if (this.#mayCut) await this.#cutCheckpoint()
        else break
        this.#stalled = false
        this.#pump()
      }
      if (this.#ailing) this.#lose('bug')
      else this.#retryCheckpointLater()
    } catch (error) {
      this.#lost(error)
    } finally {
      // In the same turn as the last check for work, so that no wake-up is lost in between.
      this.#flushing = false
    }
  }

  get #hasWork(): boolean {
    const { changes, waiting } = this.#open
    return (changes || waiting.length > 0) && !this.#applying
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

  /** Before a cut, too: the rows that it covers contain all changes in the state. */
  get #waitingGo(): boolean {
    return !this.#waitingChanges.isEmpty && (this.#waitingChanges.isDue || this.#mayCut)
  }

  /**
   * Adds the report of finished effects to the open batch, once, or makes a batch for it when it is
   * due.
   */
  get #finishedGo(): boolean {
    const { changes, finished } = this.#open
    return (changes || this.#progress.isDue) && !finished && this.#progress.hasFinished && !this.#turnHeld
  }

  *#addFinished(): Generator<void, void> {
    const change = this.#progress.changeOfFinished()
    this.#version = {}
    this.#applying = true
    try {
      yield* this.#state.applying(change)
      this.#enter(this.#entryOf(change))
      this.#open.finished = true
    } catch (error) {
      this.#lost(error)
    } finally {
      this.#applying = false
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
    if (this.#loss !== undefined) return
    this.#inFlight = undefined
    this.#heldReplyBytes -= batch.replyBytes
    for (const { ask, answer } of batch.waiting) ask.answer(answer)
    if (!batch.changes) return
    tellSweeps(this.#services, this.#ownership.account, batch.sweeps)
    this.#progress.durableTo(batch.lastEffect)
    this.#takeEffects()
    this.#services.onDue(this.#ownership.account, batch.due)
  }

  async #takeMoreEffects(): Promise<void> {
    await this.#services.timers.turn()
    if (this.#loss === undefined) this.#takeEffects()
  }

  #takeEffects(): void {
    this.#effects.adopt(this.#progress.take(this.#state), (effect) => this.#causes.take(effect))
  }

  async #append(batch: Batch): Promise<void> {
    const { clock, metrics, journal } = this.#services
    const { account } = this.#ownership
    const startedMs = clock.monotonic()
    // The state contains the changes of this row and no later ones: the time to cut.
    const cut = this.#mayCut
    if (cut) await this.#holdTurn(() => this.#checkpoints.cut(this.#ownership.head + 1))
    if (this.#loss !== undefined) return
    const row = encodeRow(batch.entries)
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
    this.#changed()
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

  /** The stores refuse. Requests that come too late for the following wait get `unavailable`. */
  #rejectNewcomers(): void {
    this.#stalled = true
    for (const ask of this.#mailbox.clear()) ask.unavailable()
    const nowMs = this.#services.clock.now()
    for (const { ask } of [...(this.#inFlight?.waiting ?? []), ...this.#open.waiting]) {
      if (ask.expired(nowMs)) ask.unavailable()
    }
  }

  // ---- checkpoints

  /** Without tentative changes the state is that of the last row. */
  async #cutCheckpoint(): Promise<void> {
    await this.#holdTurn(() => this.#checkpoints.cut(this.#ownership.head))
    void this.#writeCheckpoint()
  }

  /** A cut takes the turn: not while a decision in slices has it. */
  get #mayCut(): boolean {
    return this.#checkpoints.due && !this.#turnHeld
  }

  async #setRoot(): Promise<void> {
    await this.#checkpoints.setRoot()
    this.#changed()
  }

  async #writeCheckpoint(): Promise<void> {
    await this.#checkpoints.writePages()
    await this.#kick()
  }

  #retryCheckpointLater(): void {
    const { clock, timers } = this.#services
    const ms = this.#checkpoints.retryAtMs - clock.monotonic()
    if (ms <= 0 || this.#cancelRetryTimer !== undefined) return
    this.#cancelRetryTimer = timers.after(ms, () => {
      this.#cancelRetryTimer = undefined
      void this.#kick()
    })
  }

  // ---- the end

  #lost(error: unknown): void {
    const code = codeOf(error)
    const details = {
      requestIds: this.#inFlight?.requestIds,
      account: this.#ownership.account,
      epoch: this.#ownership.epoch,
      head: this.#ownership.head,
      err: error,
    }
    if (code === 'FENCED') this.#services.log.warn(details, 'an activation was fenced')
    else this.#services.log.error(details, 'an activation was abandoned')
    this.#lose(code === 'FENCED' ? 'fenced' : error instanceof JournalFault ? 'unavailable' : 'bug')
  }

  /** The state is dropped whole; no waiting request is answered as a success. */
  #lose(loss: Loss): void {
    if (this.#loss !== undefined) return
    this.#loss = loss
    this.#progress.end()
    this.#cancelRetryTimer?.()
    this.#waitingChanges.end()
    this.#effects.stop()
    this.#log.end()
    const waiting = [...(this.#inFlight?.waiting ?? []), ...this.#open.waiting].map(({ ask }) => ask)
    for (const ask of [...waiting, ...this.#mailbox.clear()]) this.#sendAway(ask)
    this.#onLost(loss)
  }

  #sendAway(ask: PendingRequest): void {
    if (this.#loss === 'fenced') ask.moved()
    else ask.unavailable()
  }
}
