/**
 * One account on one host, whether it is in memory or not: its mailbox outlives activations.
 *
 * Requests that come while the account is being read, or leaves memory, wait here. An account that
 * was never written answers like an empty one: requests for random ids make nothing durable.
 */
import { AccountsUnavailable } from '@holdfast/accounts'
import { type AcquireOptions, isUnwritten, JournalFault, type JournalOwnership } from '@holdfast/journal'
import { isShortage, pause } from '@holdfast/kernel'
import type { AccountReply } from '@holdfast/wire'
import type { ReadOnlyStates } from '../host/read-only-states.ts'
import type { Semaphore } from '../queues/semaphore.ts'
import type { Services } from '../services.ts'
import type { Loss } from './account-turn.ts'
import { Activation } from './activation.ts'
import { SpareIds } from './needs/spare-ids.ts'
import type { FaultBackoff } from './requests/fault-backoff.ts'
import { encodeReply, type PendingRequest } from './requests/pending-request.ts'

export interface ActorHost {
  readonly services: Services
  readonly faultBackoff: FaultBackoff
  /** Concurrent activations. */
  readonly semaphore: Semaphore
  /** Accounts known not to exist, for a short time. */
  readonly absent: {
    has(account: string): boolean
    set(account: string, absent: true): unknown
    delete(account: string): unknown
  }
  /** An account has left memory. @param left.activeRows those of its active rows that stay */
  left(left: { pendingEffects: boolean; activeRows: readonly string[] }): void
  /** Answers queries of accounts that cannot be changed; undefined: nothing does. */
  readonly readOnly: ReadOnlyStates | undefined
  /** Resolves when memory has room for one more account. */
  room(): Promise<void>
  /** The actor's memory estimate may have changed, or it may be dropped. */
  changed(actor: AccountActor): void
}

export class AccountActor {
  readonly account: string
  readonly #host: ActorHost
  #waiting: PendingRequest[] = []
  #activation: Activation | undefined
  /** Being read or leaving. */
  #underWay: Promise<void> | undefined
  #wanted = false
  #abandoned = false
  #inHand = 0
  lastUsedMs = Number.NEGATIVE_INFINITY
  /** `bytes` as its host has counted them last. */
  countedBytes = 0

  constructor(account: string, host: ActorHost) {
    this.account = account
    this.#host = host
  }

  /** Requests without an answer yet. */
  get inHand(): number {
    return this.#inHand
  }

  get active(): boolean {
    return this.#activation !== undefined
  }

  /** Nothing would be lost by dropping the actor. */
  get empty(): boolean {
    return this.#activation === undefined && this.#underWay === undefined && this.#inHand === 0
  }

  get bytes(): number {
    return this.#activation?.bytes ?? 0
  }

  /** In memory, and never written. */
  get isUnwritten(): boolean {
    return this.#activation?.isUnwritten === true
  }

  /** Unix seconds; undefined also when not in memory. */
  get nextDue(): number | undefined {
    return this.#activation?.nextDue
  }

  /** See `AccountVersions`. */
  get version(): object | undefined {
    return this.#activation?.version
  }

  /** May leave: no request waits. */
  get quiet(): boolean {
    return this.#underWay === undefined && this.#inHand === 0 && this.#activation?.quiet === true
  }

  get effectsBusy(): boolean {
    return this.#activation?.effectsBusy === true
  }

  submit(ask: PendingRequest): void {
    this.#waiting.push(ask)
    this.#advance()
  }

  admitted(): void {
    this.#inHand++
  }

  answered(): void {
    this.#inHand--
    if (this.empty) this.#host.changed(this)
  }

  /** Loads the account into memory, so that its pending effects continue. Never rejects. */
  async wake(): Promise<void> {
    if (this.#activation === undefined) this.#wanted = true
    this.#advance()
    while (this.#underWay !== undefined) await this.#underWay
  }

  /**
   * Loads the account into memory, and removes an active row of it. Never rejects. @returns false:
   * it may still exist.
   */
  async clear(row: string): Promise<boolean> {
    if (this.#activation === undefined) await this.wake()
    return (await this.#activation?.clear(row)) ?? false
  }

  /**
   * Loads the account into memory, and writes the routes of its share codes again.
   * @throws JournalFault `UNAVAILABLE`
   */
  async sendRoutes(): Promise<void> {
    await this.wake()
    if (this.#activation === undefined)
      throw new JournalFault('UNAVAILABLE', `${this.account} is not in memory`)
    await this.#activation.sendRoutes()
  }

  /** Leaves memory, cleanly as far as the stores permit. Call it when quiet. */
  async passivate(): Promise<void> {
    const activation = this.#activation
    if (activation === undefined || this.#underWay !== undefined) return
    await this.#track(async () => {
      const left = await activation.retire()
      this.#activation = undefined
      this.#host.services.metrics.passivated(left)
      this.#host.faultBackoff.recovered(this.account)
      this.#host.left({ ...left, activeRows: activation.activeRows })
    })
  }

  /**
   * Runs work while the account is not in memory here; requests wait. Unsettled work is left as
   * after a crash.
   */
  async whileAway<Result>(work: () => Promise<Result>): Promise<Result> {
    while (this.#underWay !== undefined) await this.#underWay
    const done = Promise.withResolvers<Result>()
    // Only the caller sees a failure.
    done.promise.catch(() => {})
    await this.#track(async () => {
      const activation = this.#activation
      if (activation?.quiet) await activation.retire()
      else activation?.abandon()
      this.#activation = undefined
      const activeRows = activation?.activeRows ?? []
      this.#host.left({ pendingEffects: false, activeRows })
      await work().then(done.resolve, done.reject)
      this.#host.faultBackoff.forget(this.account)
    })
    return done.promise
  }

  /** Leaves at once, like a crash. */
  abandon(): void {
    this.#abandoned = true
    this.#activation?.abandon()
    this.#refuseWaiting()
  }

  #advance(): void {
    if (this.#abandoned) this.#refuseWaiting()
    if (this.#underWay !== undefined) return
    const activation = this.#activation
    if (activation !== undefined) {
      this.#wanted = false
      activation.submit(...this.#waiting.splice(0))
    } else if (this.#waiting.length > 0 || (this.#wanted && !this.#abandoned))
      void this.#track(() => this.#activate())
  }

  /** One thing at a time; later work continues afterwards. */
  async #track(work: () => Promise<void>): Promise<void> {
    this.#underWay = work()
    await this.#underWay
    this.#underWay = undefined
    this.#advance()
    this.#host.changed(this)
  }

  async #activate(): Promise<void> {
    const { faultBackoff, services, semaphore, absent } = this.#host
    const wanted = this.#wanted
    this.#wanted = false
    if (faultBackoff.refused(this.account))
      return faultBackoff.isQuarantined(this.account)
        ? this.#readAlone({ damaged: true })
        : this.#refuseWaiting()
    try {
      const pauseMs = faultBackoff.pauseMs(this.account)
      if (pauseMs > 0) await pause(services.timers, pauseMs)
      const mayBeAbsent = !wanted && !this.#waiting.some(creates)
      if (mayBeAbsent && absent.has(this.account) && this.#answerAbsent()) return
      let lostEarly = false
      const onLost = (loss: Loss) => {
        lostEarly = true
        this.#lost(loss)
      }
      const activation = await semaphore.run(async () => {
        await this.#host.room()
        const startedMs = services.clock.monotonic()
        const ownership = await this.#acquire(wanted)
        return ownership && Activation.open(ownership, services, { onLost, startedMs })
      })
      if (activation === undefined) return
      absent.delete(this.account)
      faultBackoff.read(this.account)
      if (this.#abandoned) activation.abandon()
      else if (!lostEarly) this.#activation = activation
    } catch (error) {
      await this.#failed(error)
    }
  }

  /** @returns undefined: the account does not exist, and all waiting requests were answered. */
  async #acquire(wanted: boolean): Promise<JournalOwnership | undefined> {
    const { faultBackoff, services, absent } = this.#host
    const early = [...this.#waiting]
    const acquire = (unwritten: NonNullable<AcquireOptions['unwritten']>) =>
      services.journal.acquire(this.account, {
        owner: services.hostId,
        unwritten,
        askRelease: (holder) => services.askRelease(this.account, holder),
      })
    if (!wanted && !early.some(clears)) {
      if (early.some(isNewborn) && !faultBackoff.wasFenced(this.account)) return acquire('presume')
      const ownership = await acquire('leave')
      if (isUnwritten(ownership)) {
        absent.set(this.account, true)
        return this.#answerAbsent() ? undefined : acquire('presume')
      }
      for (const ask of early) ask.proven = true
      return ownership
    }
    const ownership = await acquire('begin')
    for (const ask of early) ask.proven = true
    return ownership
  }

  /**
   * Answers like an account that was never written.
   * @returns true when no request is left that needs the account: a creation does.
   */
  #answerAbsent(): boolean {
    this.#waiting = this.#waiting.filter((ask) => !this.#answeredEmpty(ask))
    return this.#waiting.length === 0
  }

  #answeredEmpty(ask: PendingRequest): boolean {
    const { clock, randomness, states, log } = this.#host.services
    const none = { next: 0, end: 0 }
    const nowMs = clock.now()
    if (ask.expired(nowMs)) ask.unavailable()
    if (ask.done) return true
    const spareIds = new SpareIds(this.account, this.#host.services)
    try {
      const outcome = states.empty(this.account).decide(ask.request, {
        nowMs,
        seed: randomness.bytes(16),
        newId: () => spareIds.take(),
        codes: none,
        legacyCodes: none,
        verdict: () => undefined,
      })
      if (outcome.kind !== 'reply') return false
      ask.answer(encodeReply(withoutStrangers(outcome.reply)))
    } catch (error) {
      log.error(
        { requestId: ask.request.clientRequest, account: this.account, err: error },
        'a decision failed',
      )
      ask.refuse('error-internal')
    }
    return true
  }

  async #failed(error: unknown): Promise<void> {
    const { faultBackoff, services } = this.#host
    const { log, metrics } = services
    const code = error instanceof JournalFault ? error.code : undefined
    if (code === 'FENCED') {
      faultBackoff.fenced(this.account)
      metrics.lost({ reason: 'fenced' })
      for (const ask of this.#waiting.splice(0)) ask.moved()
      return
    }
    if ((code === undefined && !isShortage(error)) || code === 'CORRUPT') {
      const ms = faultBackoff.damaged(this.account, String((error as Error).message))
      metrics.lost({ reason: code === undefined ? 'bug' : 'corrupt' })
      log.error(
        { account: this.account, leftAloneMs: ms, err: error },
        'an account cannot be read and is quarantined',
      )
      await this.#readAlone({ damaged: true })
      return
    }
    metrics.lost({ reason: 'unavailable' })
    // The disk is full or read-only: everything acknowledged is on it, and there is no other host.
    // Each read comes here, and the store has logged it.
    const isAlone = code === 'UNAVAILABLE' && services.journal.capabilities.exclusive
    log[isAlone ? 'debug' : 'warn'](
      { account: this.account, err: error },
      'an account could not be activated',
    )
    if (isAlone) await this.#readAlone({ damaged: false })
    else this.#refuseWaiting()
  }

  #refuseWaiting(): void {
    for (const ask of this.#waiting.splice(0)) ask.unavailable()
  }

  /**
   * Only queries are answered, from the stored rows: the account cannot be changed. Requests that
   * arrive meanwhile are answered after it.
   */
  async #readAlone({ damaged }: { damaged: boolean }): Promise<void> {
    const { readOnly, services } = this.#host
    const answered = this.#waiting.splice(0).map(async (ask) => {
      try {
        const reply = await readOnly?.answer(ask.request)
        if (reply === undefined) ask.unavailable({ damaged })
        else ask.answer(encodeReply(reply))
      } catch (error) {
        services.log.warn({ account: this.account, err: error }, 'what is left of an account cannot be read')
        ask.unavailable({ damaged, overloaded: error instanceof AccountsUnavailable && error.overloaded })
      }
    })
    await Promise.all(answered)
  }

  #lost(loss: Loss): void {
    const { faultBackoff, services } = this.#host
    services.metrics.lost({ reason: loss })
    if (loss === 'fenced') faultBackoff.fenced(this.account)
    if (loss === 'bug') faultBackoff.bug(this.account)
    const activeRows = this.#activation?.activeRows ?? []
    this.#activation = undefined
    this.#host.left({ pendingEffects: false, activeRows })
    this.#host.changed(this)
  }
}

/** In a dry run all references of an account that was never made are orphans. */
function withoutStrangers(reply: AccountReply): AccountReply {
  if (reply.result?.$case !== 'reconcile') return reply
  const { strangers: unknown, ...view } = reply.result.value
  return {
    result: { $case: 'reconcile', value: { ...view, strangers: [], orphaned: unknown.length } },
  }
}

/** Requests that need an account which may never have been made. */
function creates(ask: PendingRequest): boolean {
  return ask.request.operation?.$case === 'createAccount' || isNewborn(ask) || clears(ask)
}

/** Its id was made for this request, or for an earlier one that it repeats. */
function isNewborn({ request: { operation } }: PendingRequest): boolean {
  if (operation?.$case === 'createAccount')
    return operation.value.isNewId || operation.value.email === undefined
  return operation?.$case === 'addFile' && operation.value.createAccount !== undefined
}

/**
 * References of an account that was never made are removed like all others: by an owner, whose
 * epoch fences the host that put them.
 */
function clears({ request: { operation } }: PendingRequest): boolean {
  return operation?.$case === 'reconcile' && !operation.value.dryRun
}
