/**
 * One account in memory on one host: its turn, in which requests are decided.
 *
 * One request is decided at a time, against the tentative state: changes are applied as soon as
 * they are decided. While one append is in flight the account continues to decide; the next append
 * carries all changes decided since then (`flush-pipeline.ts`). A change, a read or a refusal is
 * answered only after the flush of the state on which the answer is based. So when an append is
 * refused, no answer was wrong: all waiting requests get `unavailable` and the state is dropped
 * whole.
 *
 *     mailbox ─► decide ─► apply (tentative) ─► open batch
 *                  └─ needs codes or verdicts: leaves the turn, comes back to the mailbox
 *
 * A long change is applied in slices. They keep the turn, and nothing is sealed or cut before the
 * last one.
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
  referenceKey,
  termOfEpoch,
} from '@holdfast/journal'
import type { AccountReply, ReconcileView } from '@holdfast/wire'
import type { CodeRange } from '../lookups/code-leases.ts'
import { routeRow } from '../lookups/lookup-rows.ts'
import { passwordCheckKey } from '../queues/password-checks.ts'
import type { Services } from '../services.ts'
import { AccountTurn, type Loss } from './account-turn.ts'
import { EffectCauses } from './effects/effect-causes.ts'
import { EffectProgress } from './effects/effect-progress.ts'
import { PendingEffects, type ReferenceCheck } from './effects/pending-effects.ts'
import {
  blobNamed,
  end,
  placeBehind,
  type RouteLook,
  repairReferences,
  routesFrom,
} from './effects/reference-look.ts'
import { sweepsOf } from './effects/sweeps.ts'
import { CodeBlocks, type CodeLease } from './needs/code-blocks.ts'
import { fetchNeeds, type Needs } from './needs/needs.ts'
import { SpareIds } from './needs/spare-ids.ts'
import { passes } from './requests/full-accounts.ts'
import { Mailbox } from './requests/mailbox.ts'
import { type Answer, encodeReply, PendingRequest } from './requests/pending-request.ts'
import { AccountRows, WriteTimes } from './rows/account-rows.ts'
import { Checkpoints } from './rows/checkpoints.ts'
import { codeOf } from './rows/durable-log.ts'
import { FlushPipeline } from './rows/flush-pipeline.ts'
import { Leftovers } from './rows/leftovers.ts'
import { type RecoveredAccount, recover } from './rows/recovery.ts'

/** Memory of an activation besides its state: mailbox, batches, timers. */
const overheadBytes = 32 * 1024
/** Flushes for effects that end while it leaves. */
const retireRoundsMax = 4

const noCodes: CodeRange = { next: 0, end: 0 }

type ChangeOutcome = Extract<Outcome, { kind: 'change' }>

export class Activation {
  readonly #services: Services
  readonly #ownership: JournalOwnership
  readonly #state: AccountState
  readonly #onLost: (loss: Loss) => void
  readonly #checkpoints: Checkpoints
  readonly #effects: PendingEffects
  readonly #progress: EffectProgress
  readonly #causes = new EffectCauses()
  readonly #turn: AccountTurn
  readonly #pipeline: FlushPipeline
  readonly #leftovers: Leftovers
  readonly #rows: AccountRows
  readonly #codes: CodeBlocks
  readonly #spareIds: SpareIds
  readonly #self = Symbol('activation')

  readonly #mailbox = new Mailbox()
  /** Requests that left the turn for codes or verdicts. */
  #away = 0
  /**
   * Time spent on decisions since the loop last turned. It counts over all arrivals, not from the
   * first of each: thousands that arrive one by one, each decided at once, would block the owner's
   * request in its socket.
   */
  #decidingMs = 0
  /** An outcome is unknown, or the stores refuse. */
  #stalled = false
  /** A decision threw: earlier decisions are flushed, and no more are made. */
  #isFailing = false
  #leaving = false

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
    const progress = new EffectProgress(services, () => void this.#pipeline.kick())
    this.#progress = progress
    const finished = (numbers: readonly number[]) => progress.finish(numbers)
    this.#effects = new PendingEffects(ownership.account, services, { times, finished })
    this.#turn = new AccountTurn(services, () => this.#pump())
    const shared = { state: this.#state, rows: this.#rows, turn: this.#turn }
    this.#leftovers = new Leftovers(services, ownership, shared)
    const context = {
      ...shared,
      checkpoints: this.#checkpoints,
      effects: this.#effects,
      progress,
      causes: this.#causes,
      leftovers: this.#leftovers,
    }
    this.#pipeline = new FlushPipeline(services, ownership, context, {
      advanced: () => {
        this.#stalled = false
        this.#pump()
      },
      stalled: () => this.#rejectNewcomers(),
      rests: () => {
        if (this.#isFailing) this.#lose('bug')
      },
      lost: (error) => this.#lost(error),
    })
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
    this.#pipeline.takeEffects()
    if (this.#progress.left) void this.#pipeline.kick()
    if (this.#ownership.previousOwner === undefined) return
    this.#leftovers.takenOver(recovered)
  }

  // ---- what the host sees

  get bytes(): number {
    return this.#state.bytes + this.#effects.bytes + this.#pipeline.waitingChanges.bytes + overheadBytes
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
    return this.#services.journal.capabilities.exclusive && this.#turn.loss === undefined
      ? this.#turn.version
      : undefined
  }

  /** Nothing is being decided, flushed or checkpointed. */
  get quiet(): boolean {
    const deciding = this.#mailbox.length > 0 || this.#away > 0 || this.#turn.isHeld
    return !deciding && !this.#pipeline.busy && !this.#checkpoints.underWay
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
      if (this.#turn.loss !== undefined) this.#sendAway(ask)
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
   * Leaves cleanly. In this order: finished effects and waiting changes are journaled; a checkpoint
   * is made if reading the tail would cost more; the timers' row is corrected; the `active` row is
   * removed when nothing is pending; the ownership is released. Call it when quiet, with no
   * requests coming. When the stores refuse, it leaves without these steps, and the next activation
   * does them. While the second region lacks some of it, or unnamed pages could not be deleted, it
   * leaves with its `active` row and without a release: the row leads back to it.
   *
   * @returns whether effects stay undone.
   */
  async retire(): Promise<{ pendingEffects: boolean }> {
    this.#leaving = true
    this.#progress.endTimers()
    for (let round = 0; round < retireRoundsMax && this.#lacksRow; round++) {
      this.#progress.isDue = true
      this.#pipeline.waitingChanges.isDue = true
      await this.#pipeline.kick()
    }
    const pendingEffects = this.#effects.busy || this.#effects.left > 0 || this.#progress.hasFinished
    if (this.#turn.loss !== undefined) return { pendingEffects }
    this.#effects.stop()
    try {
      await this.#lastCheckpoint()
      const hasNoLeftovers = await this.#leftovers.areNone(this.#checkpoints)
      await this.#rows.last({ due: this.#state.nextDue(), keepActive: pendingEffects || !hasNoLeftovers })
      if (hasNoLeftovers) await this.#services.journal.release(this.#ownership)
    } catch (error) {
      this.#services.log.warn(
        { account: this.#ownership.account, err: error },
        'an account left without a clean release',
      )
    }
    this.#turn.loss ??= 'unavailable'
    this.#pipeline.endTimers()
    this.#progress.end()
    return { pendingEffects }
  }

  get #lacksRow(): boolean {
    return this.#progress.hasFinished || !this.#pipeline.waitingChanges.isEmpty
  }

  /**
   * Writes the routes of all its share codes again.
   * @throws JournalFault `UNAVAILABLE` when some may not be written.
   */
  sendRoutes(): Promise<void> {
    return this.#leftovers.sendRoutes()
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
    if (this.#leaving || this.#turn.loss !== undefined || isUnwritten(this.#ownership)) return false
    this.#away++
    try {
      const pending = this.#progress.pending || this.#leftovers.hasChanged
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
    if (journal.capabilities.exclusive) return this.#turn.loss === undefined
    const now = await journal.head(account)
    if (now.epoch === epoch) return this.#turn.loss === undefined
    this.#lost(new JournalFault('FENCED', `${account} is in epoch ${now.epoch}, not in ours, ${epoch}`))
    return false
  }

  async #lastCheckpoint(): Promise<void> {
    if (this.#checkpoints.worthwhile && !this.#checkpoints.underWay) {
      await this.#turn.hold(() => this.#checkpoints.cut(this.#ownership.head))
      if (await this.#checkpoints.writePages()) await this.#pipeline.setRoot()
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
      if (this.#turn.isHeld || this.#decidingMs < bounds.turnMs) continue
      this.#decidingMs = 0
      void this.#turn.hold(() => timers.turn())
    }
    void this.#pipeline.kick()
  }

  get #blocked(): boolean {
    return (
      this.#turn.isHeld ||
      this.#isFailing ||
      this.#stalled ||
      this.#turn.loss !== undefined ||
      this.#pipeline.full ||
      (this.#checkpoints.full && !this.#checkpoints.stuck)
    )
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
   * Reads the state in this turn. The rest waits until the state that was read is durable, and
   * happens outside of the turn.
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
        this.#pipeline.answerWhenDurable(ask, outcome.reply)
        return
      }
      const routeLook = routesFrom(this.#state, this.#ownership.account, place?.content ?? end)
      const next = placeBehind(epoch, { blobs: view.value.next, contents: routeLook.next })
      const look = this.#effects.look(view.value.strangers.map(blobNamed))
      this.#away++
      const seen = new PendingRequest(ask.request, (answer) => {
        void this.#repairReferences(ask, {
          durable: answer === outcome.reply,
          view: { ...view.value, next },
          look,
          routeLook,
          dryRun,
          answer,
        })
      })
      this.#pipeline.answerWhenDurable(seen, outcome.reply)
    } catch (error) {
      this.#bug(ask, error)
    }
  }

  /**
   * @param seen.answer other than the state's when the activation ended before that was durable.
   */
  async #repairReferences(
    ask: PendingRequest,
    seen: {
      durable: boolean
      answer: Answer
      view: ReconcileView
      look: ReferenceCheck
      routeLook: RouteLook
      dryRun: boolean
    },
  ): Promise<void> {
    const { account } = this.#ownership
    try {
      if (!seen.durable || this.#turn.loss !== undefined) return this.#sendAway(ask)
      const restore = async (rows: readonly LookupChange[]) => {
        if (this.#turn.loss === undefined) await this.#rows.restore(rows)
      }
      const value = await repairReferences(this.#services, { account, ...seen, restore })
      if (this.#turn.loss === undefined) ask.answer({ result: { $case: 'reconcile', value } })
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
        ask.verdicts.get(passwordCheckKey(verifier, password)) ?? passwords.known(verifier, password),
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
        void this.#turn.hold(() => this.#runSlices(ask, outcome.steps, codes))
    }
  }

  /**
   * Encoding and decoding a listing of 13 MB blocks the loop for some 100 ms. A reply may share
   * texts and records with the state, which replaces them and never changes them.
   */
  #reply(ask: PendingRequest, reply: AccountReply): void {
    this.#pipeline.answerWhenDurable(ask, ask.inProcess ? reply : encodeReply(reply))
  }

  async #runSlices(ask: PendingRequest, steps: Generator<void, Outcome>, codes: CodeLease): Promise<void> {
    const { clock, timers } = this.#services
    try {
      let running = steps
      // The first slice has just run.
      await timers.turn()
      while (this.#turn.loss === undefined && !ask.expired(clock.now())) {
        const step = running.next()
        if (!step.done) await timers.turn()
        else if (step.value.kind === 'slices') running = step.value.steps
        else if (step.value.kind === 'change')
          return await this.#turn.inSlices(this.#committing(ask, step.value, codes))
        else return this.#take(ask, step.value, codes)
      }
      running.return({ kind: 'needs' })
      this.#sendAway(ask)
    } catch (error) {
      this.#bug(ask, error)
    }
  }

  /** Applies a decided change; from here on it is in the next flush or the state is dropped. */
  #commit(ask: PendingRequest, outcome: ChangeOutcome, codes: CodeLease): void {
    void this.#turn.run(this.#committing(ask, outcome, codes))
  }

  *#committing(ask: PendingRequest, outcome: ChangeOutcome, codes: CodeLease): Generator<void, void> {
    const { change, uses, reply } = outcome
    const entry = this.#pipeline.entryOf(change)
    const keys = uses.map((blob) => referenceKey(blob, this.#ownership.account))
    const after = this.#state.lastEffect
    let answer: Answer
    this.#turn.applies()
    try {
      yield* this.#state.applying(change)
      if (this.#turn.loss !== undefined) return this.#sendAway(ask)
      answer = reply()
    } catch (error) {
      this.#bug(ask, error)
      this.#lose('bug')
      return
    } finally {
      this.#turn.applied()
    }
    this.#causes.add(ask.request.clientRequest, { after, through: this.#state.lastEffect })
    this.#effects.withdraw(keys)
    for (const key of keys) this.#pipeline.open.uses.add(key)
    this.#pipeline.open.routes.push(...this.#routesOf(ask, outcome, codes))
    if (outcome.mayWait && !this.#pipeline.open.changes) {
      this.#pipeline.waitingChanges.add(entry)
      ask.answer(answer)
      return
    }
    this.#pipeline.enter(entry)
    this.#pipeline.open.sweeps.push(...sweepsOf(change))
    this.#pipeline.answerWhenDurable(ask, answer)
  }

  #routesOf(
    ask: PendingRequest,
    { codesUsed, legacyCodesUsed }: ChangeOutcome,
    codes: CodeLease,
  ): LookupChange[] {
    const routes = this.#codes.used(codes, codesUsed)
    if (legacyCodesUsed > 0) routes.push(routeRow(6, ask.legacyCodes?.next ?? 0, this.#ownership.account))
    return routes
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
    this.#isFailing = true
    void this.#pipeline.kick()
  }

  // ---- what a decision requires

  /**
   * Runs outside of the turn; the request then returns to the mailbox. A refusal is treated like a
   * decided one: copies of the request get it, too, and it waits until the state on which it is
   * based is durable.
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
    if (status === undefined || this.#turn.loss !== undefined) {
      if (!ask.done) this.submit(ask)
      return
    }
    const reply: AccountReply = { result: { $case: 'refusal', value: { status } } }
    this.#services.refusals.keep(ask.request, this.#self, reply)
    this.#reply(ask, reply)
    this.#pump()
  }

  /**
   * The stores refuse, or an outcome is unknown. Undecided requests get `unavailable`, and so do
   * decided ones whose deadline is over. Other decided requests keep waiting.
   */
  #rejectNewcomers(): void {
    this.#stalled = true
    for (const ask of this.#mailbox.clear()) ask.unavailable()
    const nowMs = this.#services.clock.now()
    for (const ask of this.#pipeline.asks) if (ask.expired(nowMs)) ask.unavailable()
  }

  // ---- the end

  #lost(error: unknown): void {
    const code = codeOf(error)
    const details = {
      requestIds: this.#pipeline.requestIds,
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
    if (this.#turn.loss !== undefined) return
    this.#turn.loss = loss
    this.#progress.end()
    this.#effects.stop()
    this.#pipeline.end()
    for (const ask of [...this.#pipeline.asks, ...this.#mailbox.clear()]) this.#sendAway(ask)
    this.#onLost(loss)
  }

  #sendAway(ask: PendingRequest): void {
    if (this.#turn.loss === 'fenced') ask.moved()
    else ask.unavailable()
  }
}
