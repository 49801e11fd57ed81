/**
 * One account in memory on one host: its turn, and the pipeline that makes its turns durable.
 *
 * One request is decided at a time, against the tentative state: changes are applied as soon as they are decided. While one
 * append is in flight the account goes on deciding; the next append carries all that gathered. Nobody is answered before
 * the flush that holds what the answer saw, be it a change, a read or a refusal. So when an append is refused, nobody was
 * told anything that is not so: all waiters are sent away and the state is dropped whole.
 *
 *     mailbox ─► decide ─► apply (tentative) ─► open batch ─► in flight ─► answers, effects
 *                  └─ needs codes or verdicts: leaves the turn, comes back to the mailbox
 *
 * Around an append, in this order: pages of large changes, reference rows of blobs taken into use and the `active` row
 * before it; code rows and an earlier wake row beside it, due before the answers; references of released blobs and mails
 * after it. Stores that keep the order of what is issued get the rows before without a wait.
 *
 * Unknown outcomes are settled by the serial head, never guessed. Until then new requests are turned away and those who
 * wait keep their place until their deadlines.
 *
 * Without proof that earlier owners are dead (`capabilities.exclusive`) reads are confirmed by a serial read of the head
 * behind them, shared by all reads that gathered: a stale owner answers nothing.
 */
import type { AccountState, DecideContext, Outcome } from '@holdfast/content-tree'
import { JournalFault, type JournalHold, type LookupChange, maxEventBytes } from '@holdfast/journal'
import { Change } from '@holdfast/wire'
import { type Answer, type Ask, bytesOfAnswer, encodeReply } from './ask.ts'
import { Batch } from './batch.ts'
import { Checkpoints } from './checkpoints.ts'
import { type CodeRange, widthOf } from './code-leases.ts'
import { cutPages, encodeRow } from './flush-row.ts'
import { activeKey, codeRows, dueOf, referenceKey, wakeKey, wakeRow, writeRows } from './lookup-rows.ts'
import { keyOf } from './password-checks.ts'
import { PendingEffects } from './pending-effects.ts'
import { type Recovered, recover, sweepPages } from './recovery.ts'
import type { Services } from './services.ts'
import { backoffMs, inTurns, Pauses } from './timers.ts'

/** Why an activation ended other than by passivation. */
export type Loss = 'fenced' | 'unavailable' | 'bug'

/** What an activation holds besides its state: mailbox, batches, timers. */
const overheadBytes = 8 * 1024
/** Finished effects in one change. */
const finishedPerChangeMax = 4096

/** Flushes for effects that end while it leaves. */
const retireRoundsMax = 4

/** Faults that no repeat mends. */
const final = new Set<unknown>(['FENCED', 'CORRUPT', 'TOO_LARGE', 'CLOSED'])

type Decided = Extract<Outcome, { kind: 'change' }>

export class Activation {
  readonly #services: Services
  readonly #hold: JournalHold
  readonly #state: AccountState
  readonly #onLost: (loss: Loss) => void
  readonly #checkpoints: Checkpoints
  readonly #effects: PendingEffects

  readonly #mailbox: Ask[] = []
  /** Requests that left the turn for codes or verdicts. */
  #away = 0
  #turnHeld = false
  #open = new Batch()
  #inFlight: Batch | undefined
  #flushing = false
  #flushed: Promise<void> = Promise.resolve()
  #heldReplyBytes = 0
  /** An outcome is unknown, or the stores refuse. */
  #stalled = false
  /** A bug showed in a decision: what is decided goes out, nothing more is. */
  #ailing = false
  #loss: Loss | undefined

  #moment = {}
  #effectsSeen = 0
  #owed = 0
  #finished: number[] = []
  #finishedDue = false
  #cancelFinishedTimer: (() => void) | undefined
  #cancelRetryTimer: (() => void) | undefined
  #pageRuns = 0
  readonly #pauses: Pauses
  #activeRow: boolean
  #wakeRow: number | undefined

  private constructor(
    services: Services,
    hold: JournalHold,
    recovered: Recovered,
    { wakeRow, onLost }: { wakeRow: number | undefined; onLost: (loss: Loss) => void },
  ) {
    this.#services = services
    this.#hold = hold
    this.#state = recovered.state
    this.#onLost = onLost
    this.#wakeRow = wakeRow
    this.#pauses = new Pauses(services.timers)
    // After an unclean end the row may be there, whoever wrote it.
    this.#activeRow = hold.previousOwner !== undefined
    this.#checkpoints = new Checkpoints(services, hold, recovered)
    this.#effects = new PendingEffects(hold.account, services, (numbers) => this.#finish(numbers))
  }

  /**
   * Takes the account over and reads it back. Rows that were promised before the reply, codes and timers, are durable again
   * when it resolves; all other pending effects run on from here.
   *
   * @throws JournalFault, or what the core throws on changes it does not take.
   */
  static async open(
    account: string,
    services: Services,
    options: { onLost: (loss: Loss) => void },
  ): Promise<Activation> {
    const { journal, lookups, clock, metrics, hostId } = services
    const startedMs = clock.monotonic()
    const hold = await journal.acquire(account, { owner: hostId })
    const [recovered, wake] = await Promise.all([recover(services, hold), lookups.get(wakeKey(account))])
    const known = wake && dueOf(wake)
    const activation = new Activation(services, hold, recovered, { ...options, wakeRow: known })
    try {
      await activation.#resume(recovered)
    } catch (error) {
      activation.#owe(-activation.#owed)
      throw error
    }
    const bytes = recovered.snapshotBytes + recovered.tail.reduce((sum, row) => sum + row.bytes, 0)
    metrics.activated({ ms: clock.monotonic() - startedMs, rows: recovered.tail.length, bytes })
    return activation
  }

  async #resume(recovered: Recovered): Promise<void> {
    const effects = this.#collectEffects()
    const due = this.#state.nextDue()
    const rows = effects.flatMap(codeRows)
    if (this.#earlier(due)) rows.push(wakeRow(this.#hold.account, due))
    if (rows.length > 0) await this.#writeRows(rows)
    if (this.#earlier(due)) this.#wakeRow = due
    this.#services.onDue(this.#hold.account, due)
    if (effects.length > 0) this.#activeRow = true
    this.#effects.adopt(effects, new Set())
    if (this.#hold.previousOwner !== undefined) void this.#sweepPages(recovered)
  }

  async #sweepPages(recovered: Recovered): Promise<void> {
    try {
      await sweepPages(this.#services, this.#hold, recovered)
    } catch (error) {
      this.#services.log.warn({ account: this.#hold.account, err: error }, 'dead pages stay for now')
    }
  }

  // ---- what the host sees

  get bytes(): number {
    return this.#state.bytes + overheadBytes
  }

  get nextDue(): number | undefined {
    return this.#state.nextDue()
  }

  /**
   * Another object after every decided change, before anybody is told of it. Undefined where a stale owner could be asked: there only a
   * question through the mailbox is confirmed.
   */
  get moment(): object | undefined {
    return this.#services.journal.capabilities.exclusive && this.#loss === undefined
      ? this.#moment
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

  /** Takes a request; it will be answered once. */
  submit(ask: Ask): void {
    if (this.#loss !== undefined) this.#sendAway(ask)
    else if (this.#stalled) ask.unavailable()
    else {
      this.#mailbox.push(ask)
      this.#pump()
    }
  }

  /** Ends without further ado, as a crash would: who waits is sent away, what is durable stays so. */
  abandon(): void {
    this.#lose('unavailable')
  }

  /**
   * Leaves cleanly: finished effects journaled, a checkpoint if reading the tail would cost more, timers' row put right,
   * the `active` row removed when nothing is pending, the hold released. To be called when quiet, with no requests coming.
   * When the stores refuse, it simply leaves; the next activation mends the rest.
   *
   * @returns whether effects stay undone.
   */
  async retire(): Promise<{ pendingEffects: boolean }> {
    this.#cancelFinishedTimer?.()
    for (let round = 0; round < retireRoundsMax && this.#finished.length > 0; round++) {
      this.#finishedDue = true
      await this.#kick()
    }
    const pendingEffects = this.#effects.busy || this.#effects.left > 0 || this.#finished.length > 0
    if (this.#loss !== undefined) return { pendingEffects }
    this.#effects.stop()
    try {
      await this.#lastCheckpoint()
      await this.#lastRows({ keepActive: pendingEffects })
      await this.#release({ keepActive: pendingEffects })
    } catch (error) {
      this.#services.log.warn(
        { account: this.#hold.account, err: error },
        'an account left without a clean release',
      )
    }
    this.#loss ??= 'unavailable'
    this.#cancelRetryTimer?.()
    this.#owe(-this.#owed)
    return { pendingEffects }
  }

  async #lastCheckpoint(): Promise<void> {
    if (this.#checkpoints.worthwhile && !this.#checkpoints.underWay) {
      await this.#turnAway(() => this.#checkpoints.cut(this.#hold.head))
      if (await this.#checkpoints.writePages()) await this.#checkpoints.setRoot()
    }
    await this.#checkpoints.removed()
  }

  async #lastRows({ keepActive }: { keepActive: boolean }): Promise<void> {
    const { account } = this.#hold
    const rows: LookupChange[] = []
    const due = this.#state.nextDue()
    if (due !== this.#wakeRow) {
      rows.push(due === undefined ? { delete: wakeKey(account) } : wakeRow(account, due))
    }
    if (this.#activeRow && !keepActive) rows.push({ delete: activeKey(account) })
    if (rows.length > 0) await this.#writeRows(rows)
  }

  async #release({ keepActive }: { keepActive: boolean }): Promise<void> {
    const { account } = this.#hold
    try {
      await this.#services.journal.release(this.#hold)
    } catch (error) {
      // Somebody took over in between: the row that was just removed may have been his.
      const fenced = codeOf(error) === 'FENCED'
      if (fenced && this.#activeRow && !keepActive) await this.#writeRows([this.#activeRowPut()])
      throw new Error(`the hold of ${account} was not released`, { cause: error })
    }
  }

  // ---- the turn

  #pump(): void {
    const { clock, limits, timers } = this.#services
    const endsMs = clock.monotonic() + limits.turnMs
    while (!this.#blocked) {
      const ask = this.#mailbox.shift()
      if (ask === undefined) break
      this.#decide(ask)
      // A decision may have taken the turn itself, for work in slices.
      if (this.#turnHeld || this.#mailbox.length === 0 || clock.monotonic() < endsMs) continue
      void this.#turnAway(() => timers.turn())
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
      this.#heldReplyBytes > this.#services.limits.heldReplyBytesMax ||
      this.#checkpoints.full
    )
  }

  /** Keeps the turn while `work` lets others run: meanwhile the state does not change. */
  async #turnAway(work: () => Promise<void>): Promise<void> {
    this.#turnHeld = true
    await work()
    this.#turnHeld = false
    this.#pump()
  }

  #decide(ask: Ask): void {
    const { clock, limits, codes, legacyCodes } = this.#services
    if (ask.done) return
    if (ask.expired(clock.now()) || ++ask.decisions > limits.decisionsPerRequestMax) {
      ask.unavailable()
      return
    }
    const shown = {
      codes: ask.codes ?? codes.show(limits.codesPerDecision),
      legacyCodes: ask.legacyCodes ?? legacyCodes.show(1),
    }
    try {
      this.#take(ask, this.#state.decide(ask.request, this.#contextOf(ask, shown)), shown)
    } catch (error) {
      this.#bug(ask, error)
    }
  }

  #contextOf(ask: Ask, shown: { codes: CodeRange; legacyCodes: CodeRange }): DecideContext {
    const { clock, randomness, passwords } = this.#services
    return {
      nowMs: clock.now(),
      seed: randomness.bytes(16),
      codes: shown.codes,
      legacyCodes: shown.legacyCodes,
      verdict: (verifier, password) =>
        ask.verdicts.get(keyOf(verifier, password)) ?? passwords.known(verifier, password),
    }
  }

  #take(ask: Ask, outcome: Outcome, shown: { codes: CodeRange; legacyCodes: CodeRange }): void {
    const { codes, legacyCodes } = this.#services
    switch (outcome.kind) {
      case 'reply':
        this.#answerWhenDurable(ask, encodeReply(outcome.reply))
        break
      case 'change':
        codes.burn(shown.codes, outcome.codesUsed)
        legacyCodes.burn(shown.legacyCodes, outcome.legacyCodesUsed)
        this.#commit(ask, outcome)
        break
      case 'needs':
        void this.#fetch(ask, outcome)
        break
      case 'slices':
        // Other accounts decide between the slices: they must not be shown these.
        codes.burn(shown.codes, widthOf(shown.codes))
        legacyCodes.burn(shown.legacyCodes, widthOf(shown.legacyCodes))
        void this.#turnAway(() => this.#runSlices(ask, outcome.steps, shown))
    }
  }

  async #runSlices(
    ask: Ask,
    steps: Generator<void, Outcome>,
    shown: { codes: CodeRange; legacyCodes: CodeRange },
  ): Promise<void> {
    const { clock, timers } = this.#services
    try {
      let running = steps
      while (this.#loss === undefined && !ask.expired(clock.now())) {
        const step = running.next()
        if (!step.done) await timers.turn()
        else if (step.value.kind === 'slices') running = step.value.steps
        else if (step.value.kind === 'change') return await this.#commitInTurns(ask, step.value)
        else return this.#take(ask, step.value, shown)
      }
      running.return({ kind: 'needs' })
      this.#sendAway(ask)
    } catch (error) {
      this.#bug(ask, error)
    }
  }

  /** Applies a decided change; from here on it is in the next flush or the state is dropped. */
  #commit(ask: Ask, outcome: Decided): void {
    const steps = this.#committing(ask, outcome)
    while (steps.next().done !== true);
  }

  /** The same for a large change, in slices. It keeps the turn: nobody sees a part of it, and no checkpoint is cut in between. */
  #commitInTurns(ask: Ask, outcome: Decided): Promise<void> {
    const { clock, timers, limits } = this.#services
    return inTurns(this.#committing(ask, outcome), { clock, timers, turnMs: limits.turnMs })
  }

  *#committing(ask: Ask, { change, uses, reply }: Decided): Generator<void, void> {
    const entry = this.#entryOf(change)
    const keys = uses.map((blob) => referenceKey(blob, this.#hold.account))
    let answer: Answer
    this.#moment = {}
    try {
      yield* this.#state.applying(change)
      if (this.#loss !== undefined) return this.#sendAway(ask)
      answer = reply()
    } catch (error) {
      this.#bug(ask, error)
      this.#lose('bug')
      return
    }
    this.#effects.withdraw(keys)
    for (const key of keys) this.#open.uses.add(key)
    this.#open.add(entry)
    this.#answerWhenDurable(ask, answer)
  }

  #entryOf(change: Change) {
    const encoded = Change.encode(change).finish()
    if (encoded.length <= maxEventBytes) return encoded
    const run = this.#pageRuns++
    return cutPages(encoded, (page) => `${this.#hold.epoch}-e${run}-${page}`)
  }

  /** What the reply saw is durable with the youngest tentative change, or is so already. */
  #answerWhenDurable(ask: Ask, answer: Answer): void {
    const { exclusive } = this.#services.journal.capabilities
    const saw = !exclusive || this.#open.changes ? this.#open : this.#inFlight
    if (saw === undefined) ask.answer(answer)
    else {
      saw.hold(ask, answer)
      this.#heldReplyBytes += bytesOfAnswer(answer)
    }
  }

  /** A bug of the core: the request gets its answer, what was decided before goes out, then the activation ends. */
  #bug(ask: Ask, error: unknown): void {
    const operation = ask.request.operation?.$case
    this.#services.log.error({ account: this.#hold.account, operation, err: error }, 'a decision failed')
    ask.refuse('error-internal')
    this.#ailing = true
    void this.#kick()
  }

  // ---- what a decision asked for

  /** Outside of the turn; the request comes back to the mailbox. */
  async #fetch(ask: Ask, needs: Extract<Outcome, { kind: 'needs' }>): Promise<void> {
    this.#away++
    try {
      const { codes, legacyCodes, limits } = this.#services
      if ((needs.codes ?? 0) > limits.codesPerRequestMax) return ask.refuse('error-limits')
      if (needs.codes) ask.codes = await codes.take(needs.codes)
      if (needs.legacyCodes) ask.legacyCodes = await legacyCodes.take(needs.legacyCodes)
      for (const { verifier, password } of needs.verdicts ?? []) {
        if (await this.#checkPassword(ask, verifier, password)) continue
        return ask.refuse('error-rateLimit')
      }
    } catch (error) {
      this.#services.log.warn(
        { account: this.#hold.account, err: error },
        'a decision did not get what it needs',
      )
      ask.unavailable()
    } finally {
      this.#away--
      if (!ask.done) this.submit(ask)
    }
  }

  /** @returns false: too many checks wait. Past the request's own bound passwords are wrong unseen. */
  async #checkPassword(ask: Ask, verifier: Parameters<typeof keyOf>[0], password: string): Promise<boolean> {
    const { passwords, limits } = this.#services
    let verdict = passwords.known(verifier, password)
    if (verdict === undefined) {
      verdict =
        ++ask.slowChecks > limits.passwordChecksPerRequestMax
          ? false
          : await passwords.verdict(verifier, password)
    }
    if (verdict === undefined) return false
    ask.verdicts.set(keyOf(verifier, password), verdict)
    return true
  }

  // ---- the pipeline

  /** Starts the pipeline unless it runs. Resolves when it has nothing more to do; never rejects. */
  #kick(): Promise<void> {
    if (!this.#flushing) {
      this.#flushing = true
      this.#flushed = this.#flush()
    }
    return this.#flushed
  }

  async #flush(): Promise<void> {
    try {
      while (this.#loss === undefined) {
        if (this.#checkpoints.ready) await this.#checkpoints.setRoot()
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
      // In the same breath as the last look for work, so that no kick is lost in between.
      this.#flushing = false
    }
  }

  get #hasWork(): boolean {
    const { changes, waiting } = this.#open
    const finished = this.#finishedDue && this.#finished.length > 0 && !this.#turnHeld
    return changes || waiting.length > 0 || finished
  }

  /** The open batch goes; a new one gathers. */
  #seal(): Batch {
    const batch = this.#open
    if ((batch.changes || this.#finishedDue) && !this.#turnHeld) this.#addFinished(batch)
    this.#open = new Batch()
    if (!batch.changes) return batch
    batch.effects = this.#collectEffects()
    batch.due = this.#state.nextDue()
    return batch
  }

  #addFinished(batch: Batch): void {
    this.#finishedDue = false
    const numbers = this.#finished.splice(0, finishedPerChangeMax)
    if (numbers.length === 0) return
    const change: Change = {
      requestId: Buffer.alloc(0),
      timeMs: this.#services.clock.now(),
      events: [{ event: { $case: 'effectsDone', value: { numbers } } }],
      outcome: Buffer.alloc(0),
      seed: Buffer.alloc(0),
      codeStart: 0,
      operation: 0,
    }
    this.#moment = {}
    this.#state.apply(change)
    batch.add(this.#entryOf(change))
  }

  /** Effects that came since the last time. */
  #collectEffects() {
    const fresh = [...this.#state.effects(this.#effectsSeen)].filter(
      ({ number }) => number > this.#effectsSeen,
    )
    this.#effectsSeen = fresh.at(-1)?.number ?? this.#effectsSeen
    this.#owe(fresh.length)
    return fresh
  }

  async #write(batch: Batch): Promise<void> {
    this.#inFlight = batch
    if (batch.changes) await this.#append(batch)
    else if (!this.#services.journal.capabilities.exclusive && batch.waiting.length > 0) await this.#confirm()
    if (this.#loss !== undefined) return
    this.#inFlight = undefined
    this.#heldReplyBytes -= batch.replyBytes
    for (const { ask, answer } of batch.waiting) ask.answer(answer)
    if (!batch.changes) return
    this.#effects.adopt(batch.effects, this.#open.uses)
    this.#services.onDue(this.#hold.account, batch.due)
  }

  async #append(batch: Batch): Promise<void> {
    const { clock, metrics, journal } = this.#services
    const { account } = this.#hold
    const startedMs = clock.monotonic()
    // The state is what this row makes, and nothing else yet: the moment to cut.
    const cut = this.#mayCut
    if (cut) await this.#turnAway(() => this.#checkpoints.cut(this.#hold.head + 1))
    if (this.#loss !== undefined) return
    const row = encodeRow(batch.entries)
    const pages = batch.pages
    for (const page of pages) {
      await this.#untilDurable(() => journal.putPage(account, page.name, page.bytes))
    }
    await this.#appendWithRows(row, this.#rowsBefore(batch), this.#rowsBeside(batch), batch.uses)
    this.#activeRow = true
    if (this.#earlier(batch.due)) this.#wakeRow = batch.due
    const seq = this.#hold.head
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

  #rowsBefore(batch: Batch): LookupChange[] {
    const rows: LookupChange[] = [...batch.uses].map((key) => ({ put: key, value: new Uint8Array() }))
    if (!this.#activeRow) rows.push(this.#activeRowPut())
    return rows
  }

  #rowsBeside(batch: Batch): LookupChange[] {
    const rows = batch.effects.flatMap(codeRows)
    if (this.#earlier(batch.due)) rows.push(wakeRow(this.#hold.account, batch.due))
    return rows
  }

  #activeRowPut(): LookupChange {
    return { put: activeKey(this.#hold.account), value: Buffer.from(this.#services.hostId) }
  }

  #earlier(due: number | undefined): due is number {
    return due !== undefined && (this.#wakeRow === undefined || due < this.#wakeRow)
  }

  /**
   * Resolves when the row and all rows around it are durable. An append that certainly was not written is issued again, with
   * its rows before it, a bounded number of times.
   */
  async #appendWithRows(
    row: Uint8Array,
    before: readonly LookupChange[],
    beside: readonly LookupChange[],
    uses: ReadonlySet<string>,
  ): Promise<void> {
    const { ordered } = this.#services.journal.capabilities
    if (!ordered) {
      await this.#effects.behindDeletesOf(uses)
      if (before.length > 0) await this.#untilDurable(() => this.#writeRows(before))
    }
    let rowsBefore = ordered ? before : []
    let rowsBeside = beside
    for (let attempt = 1; ; attempt++) {
      const written = await Promise.allSettled([
        rowsBefore.length > 0 ? this.#writeRows(rowsBefore) : undefined,
        this.#tryAppend(row),
        rowsBeside.length > 0 ? this.#writeRows(rowsBeside) : undefined,
      ])
      if (written[0].status === 'fulfilled') rowsBefore = []
      if (written[2].status === 'fulfilled') rowsBeside = []
      if (written[1].status === 'rejected') throw written[1].reason
      if (written[1].value) break
      if (attempt >= this.#services.limits.appendAttemptsMax) {
        throw new JournalFault(
          'UNAVAILABLE',
          `${attempts(attempt)} to append to ${this.#hold.account} failed`,
        )
      }
      await this.#stall(attempt)
    }
    const missing = [...rowsBefore, ...rowsBeside]
    if (missing.length > 0) await this.#untilDurable(() => this.#writeRows(missing))
  }

  /** @returns whether the row is in. @throws when the activation is over. */
  async #tryAppend(row: Uint8Array): Promise<boolean> {
    try {
      await this.#services.journal.append(this.#hold, row)
      return true
    } catch (error) {
      const code = codeOf(error)
      if (final.has(code)) throw error
      if (code === 'UNAVAILABLE') return false
      this.#services.log.warn(
        { account: this.#hold.account, err: error },
        'the outcome of an append is unknown',
      )
      return this.#settle()
    }
  }

  /** Asks the serial head until it answers. */
  async #settle(): Promise<boolean> {
    const { journal, metrics } = this.#services
    const { account, epoch, head } = this.#hold
    const now = await this.#untilDurable(() => journal.head(account), { stalledFromStart: true })
    if (now.epoch !== epoch) {
      metrics.unknown({ outcome: 'fenced' })
      throw new JournalFault('FENCED', `${account} is in epoch ${now.epoch}, not in ours, ${epoch}`)
    }
    if (now.head !== head && now.head !== head + 1) {
      throw new JournalFault('CORRUPT', `${account} is at row ${now.head}, our hold at ${head}`)
    }
    this.#hold.head = now.head
    this.#hold.chain = now.chain
    metrics.unknown({ outcome: now.head === head ? 'out' : 'in' })
    return now.head !== head
  }

  /** We still were the owner when this resolves: what was read before it was the truth. */
  async #confirm(): Promise<void> {
    const { account, epoch } = this.#hold
    const now = await this.#untilDurable(() => this.#services.journal.head(account))
    if (now.epoch !== epoch)
      throw new JournalFault('FENCED', `${account} is in epoch ${now.epoch}, not in ours, ${epoch}`)
  }

  /** Repeats work that may be repeated, until it is done, the fault is final or the activation over. */
  async #untilDurable<T>(work: () => Promise<T>, { stalledFromStart = false } = {}): Promise<T> {
    if (stalledFromStart) this.#turnAwayNewcomers()
    for (let attempt = 0; ; attempt++) {
      try {
        return await work()
      } catch (error) {
        const code = codeOf(error)
        if (code !== 'UNAVAILABLE' && code !== 'UNKNOWN') throw error
        this.#services.log.warn({ account: this.#hold.account, attempt, err: error }, 'the stores refuse')
        await this.#stall(attempt)
      }
    }
  }

  /** Waits a while; who came too late for it is sent away. */
  async #stall(attempt: number): Promise<void> {
    const { limits, randomness } = this.#services
    this.#turnAwayNewcomers()
    const bounds = { firstMs: limits.retryFirstMs, maxMs: limits.retryMaxMs, fraction: randomness.fraction() }
    await this.#pauses.pause(backoffMs(attempt, bounds))
    if (this.#loss !== undefined) throw new JournalFault('UNAVAILABLE', `${this.#hold.account} was given up`)
  }

  #turnAwayNewcomers(): void {
    this.#stalled = true
    for (const ask of this.#mailbox.splice(0)) ask.unavailable()
    const nowMs = this.#services.clock.now()
    for (const { ask } of [...(this.#inFlight?.waiting ?? []), ...this.#open.waiting]) {
      if (ask.expired(nowMs)) ask.unavailable()
    }
  }

  #writeRows(rows: readonly LookupChange[]): Promise<void> {
    return writeRows(this.#services.lookups, rows, { rowsMax: this.#services.limits.lookupRowsMax })
  }

  // ---- effects and checkpoints

  #owe(change: number): void {
    this.#owed += change
    this.#services.metrics.effectsPending(change)
  }

  /** Effects are done: the journal hears of it with the next flush, or alone when none comes. */
  #finish(numbers: readonly number[]): void {
    if (numbers.length === 0) return
    this.#owe(-numbers.length)
    this.#finished.push(...numbers)
    if (this.#loss !== undefined || this.#cancelFinishedTimer !== undefined) return
    this.#cancelFinishedTimer = this.#services.timers.after(this.#services.limits.effectsIdleMs, () => {
      this.#cancelFinishedTimer = undefined
      this.#finishedDue = true
      void this.#kick()
    })
  }

  /** With nothing tentative the state is what the last row made. */
  async #cutCheckpoint(): Promise<void> {
    await this.#turnAway(() => this.#checkpoints.cut(this.#hold.head))
    void this.#writeCheckpoint()
  }

  /** A cut takes the turn: not while a decision in slices has it. */
  get #mayCut(): boolean {
    return this.#checkpoints.due && !this.#turnHeld
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
    const facts = { account: this.#hold.account, epoch: this.#hold.epoch, head: this.#hold.head, err: error }
    if (code === 'FENCED') this.#services.log.warn(facts, 'an activation was fenced')
    else this.#services.log.error(facts, 'an activation was given up')
    this.#lose(code === 'FENCED' ? 'fenced' : error instanceof JournalFault ? 'unavailable' : 'bug')
  }

  /** The state is dropped whole; nobody who waits is told a success. */
  #lose(loss: Loss): void {
    if (this.#loss !== undefined) return
    this.#loss = loss
    this.#cancelFinishedTimer?.()
    this.#cancelRetryTimer?.()
    this.#effects.stop()
    this.#pauses.endAll()
    this.#owe(-this.#owed)
    const waiting = [...(this.#inFlight?.waiting ?? []), ...this.#open.waiting].map(({ ask }) => ask)
    for (const ask of [...waiting, ...this.#mailbox.splice(0)]) this.#sendAway(ask)
    this.#onLost(loss)
  }

  #sendAway(ask: Ask): void {
    if (this.#loss === 'fenced') ask.moved()
    else ask.unavailable()
  }
}

function codeOf(error: unknown): string | undefined {
  return (error as { code?: string }).code
}

function attempts(count: number): string {
  return count === 1 ? 'one attempt' : `${count} attempts`
}
