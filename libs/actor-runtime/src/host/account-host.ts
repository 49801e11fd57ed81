/**
 * The accounts of one process: passes requests from the bus to their actors, loads accounts into
 * memory and unloads them, fires their timers.
 *
 * All its knowledge of placement is a hint; the journal prevents two hosts from both changing an
 * account.
 */

import {
  type AccountVersions,
  clearSubjectOf,
  lagSubjectOf,
  livingSubjectOf,
  partSubjectOf,
  quarantineSubjectOf,
  RequestJoiner,
  releaseSubjectOf,
  repairSubjectOf,
  replicaSubjectOf,
  subjectOf,
} from '@holdfast/accounts'
import type { Bus } from '@holdfast/bus'
import type { AccountStates } from '@holdfast/content-tree'
import {
  type JournalBackup,
  JournalFault,
  type JournalRepair,
  type JournalReplica,
  type JournalStore,
  type LookupStore,
} from '@holdfast/journal'
import {
  type Clock,
  forTrace,
  isUuid,
  pause,
  type Randomness,
  type Span,
  type Subscription,
  systemClock,
  systemRandomness,
  type Tracer,
  traceparentOf,
} from '@holdfast/kernel'
import { type AccountReply, AccountRequest } from '@holdfast/wire'
import { LRUCache } from 'lru-cache'
import { AccountActor, type ActorHost } from '../account/account-actor.ts'
import { codeOf } from '../account/durable-log.ts'
import { FaultBackoff, type QuarantinedAccount } from '../account/fault-backoff.ts'
import { isVisitors } from '../account/mailbox.ts'
import {
  type Answer,
  decodedAnswer,
  encodedAnswer,
  encodeReply,
  PendingRequest,
} from '../account/pending-request.ts'
import { Refusals } from '../account/refusals.ts'
import { defaultBounds, type RuntimeBounds } from '../bounds.ts'
import { ActiveSlots } from '../lookups/active-slots.ts'
import { CodeLeases } from '../lookups/code-leases.ts'
import { activePlaceOf } from '../lookups/lookup-rows.ts'
import { hourOf, WakeHours } from '../lookups/wake-hours.ts'
import { type HostMetrics, noMetrics, type RuntimeLog, silentLog } from '../observer.ts'
import { Arrivals, type Lag } from '../queues/arrivals.ts'
import { type PasswordCheck, PasswordChecks } from '../queues/password-checks.ts'
import { forEachAtMost, Semaphore } from '../queues/semaphore.ts'
import { type RepairReport, readableState, repair } from '../repair/repair.ts'
import type { RepairAnswer, RepairQuestion } from '../repair/repair-client.ts'
import type { Homes, ReleasedBlob, Services, SignInMailer } from '../services.ts'
import { type LoopTimers, Pauses, systemLoop } from '../timers.ts'
import { AccountReplicas } from './account-replicas.ts'
import { DueAccounts } from './due-accounts.ts'
import { ReadOnlyStates, readOnlyOperations } from './read-only-states.ts'
import { Visitors } from './visitors.ts'

export interface AccountHostOptions {
  /** Unique among living hosts; letters, digits, `-`. */
  hostId: string
  bus: Bus
  journal: JournalStore
  /** The same store, for repairs of damaged accounts. Undefined: none are made here. */
  journalRepair: JournalRepair | undefined
  /** The same store, where a second region keeps the journals too. Undefined: there is none. */
  journalBackup: JournalBackup | undefined
  lookups: LookupStore
  states: AccountStates
  mailer: SignInMailer
  /** Called after a reference row was removed: the collector may check the blob. Must not throw. */
  onBlobReleased: ((released: ReleasedBlob) => void) | undefined
  /**
   * This host's view of the placement; requests for other accounts are redirected. Undefined:
   * all are ours.
   */
  hostOf: ((accountId: string) => string | undefined) | undefined
  /**
   * The host that has the account if it was recently placed there: it is asked to release it before
   * it is fenced. Undefined: none is asked.
   */
  predecessorOf: ((accountId: string) => string | undefined) | undefined
  /**
   * Copies of journals that other regions write, for downloads while their homes are unavailable.
   * Undefined: there are none.
   */
  replicaOf: ((accountId: string) => Promise<JournalReplica | undefined>) | undefined
  /** Undefined: all accounts are kept together. */
  homes: Homes | undefined
  /** Between checks for due timers (HOLDFAST_EXPIRY_SWEEP_SECONDS), milliseconds. */
  sweepMs: number
  /**
   * The wall clock is far from those of the other members: meanwhile no timer fires, because what
   * expired by this clock may not be expired. Undefined: never.
   */
  isClockOff: (() => boolean) | undefined
  bounds: Partial<RuntimeBounds> | undefined
  clock: Clock | undefined
  timers: LoopTimers | undefined
  randomness: Randomness | undefined
  log: RuntimeLog | undefined
  metrics: HostMetrics | undefined
  /** Undefined: no request is traced. */
  tracer: Tracer | undefined
  /** Instead of scrypt: for tests. */
  checkPassword: PasswordCheck | undefined
}

const unavailable: AccountReply = {
  result: { $case: 'unavailable', value: { overloaded: false, damaged: false } },
}
/** Of an account that cannot be changed: until it can, and no longer than a visitor's answer. */
const readOnlyKeptMs = 3_000
/** How often idleness and memory are checked. */
const tidyMs = 1000
/** Of a timer's own request. */
const tickTimeoutMs = 30_000
/** A timer that could not be fired is retried after this. */
const tickRetrySeconds = 5
/** Quarantined accounts that a host names; all are counted. */
const quarantinedToldMax = 100
/** Timers are read this far ahead: until the next read, and the same time again. */
const lookAheadSeconds = 180
/**
 * A row that still exists this long after it was due no longer belongs to its account, or the
 * account could not be woken.
 */
const straySeconds = 180
/** Such rows per check. */
const straysAtOnceMax = 1_000
/** Timers are read again when dropped ones come this near. */
const horizonMarginSeconds = 60

export class AccountHost implements AccountVersions {
  readonly #services: Services
  /** The host as actors see it. */
  readonly #actorHost: ActorHost

  readonly #bus: Bus
  readonly #journalRepair: JournalRepair | undefined
  readonly #hostOf: ((accountId: string) => string | undefined) | undefined
  readonly #predecessorOf: ((accountId: string) => string | undefined) | undefined
  readonly #sweepMs: number
  readonly #isClockOff: () => boolean
  #clockWasOff = false
  readonly #joiner: RequestJoiner
  readonly #replicas: AccountReplicas | undefined
  readonly #readOnly: ReadOnlyStates | undefined
  /** Least recently used first. */
  readonly #actors = new Map<string, AccountActor>()
  readonly #due: DueAccounts
  /**
   * Active rows that stayed when their accounts left, by when these are woken for them (monotonic
   * ms).
   */
  readonly #keptRows = new Map<string, { atMs: number; owed: boolean }>()
  /** There were more of them than are remembered: they are read. */
  #rowsForgotten = false
  readonly #subscriptions: Subscription[] = []
  readonly #cancelTimers = new Map<string, () => void>()
  readonly #pauses: Pauses
  readonly #visitors: Visitors
  #requests = 0
  #sweeping: Promise<void> | undefined
  #relisting: Promise<void> | undefined
  #passivating = 0
  #closing: Promise<void> | undefined

  constructor(options: AccountHostOptions) {
    const { lookups, metrics = noMetrics, clock = systemClock } = options
    const bounds = { ...defaultBounds, ...options.bounds }
    const randomness = options.randomness ?? systemRandomness()
    this.#bus = options.bus
    this.#journalRepair = options.journalRepair
    this.#hostOf = options.hostOf
    this.#predecessorOf = options.predecessorOf
    this.#sweepMs = options.sweepMs
    this.#isClockOff = options.isClockOff ?? (() => false)
    this.#due = new DueAccounts(bounds.dueAccountsMax)
    this.#joiner = new RequestJoiner(clock)
    this.#visitors = new Visitors(bounds)
    this.#pauses = new Pauses(options.timers ?? systemLoop)
    this.#services = {
      hostId: options.hostId,
      journal: options.journal,
      lookups,
      homes: options.homes ?? { of: () => 'home', served: () => ['home'] },
      activeSlots: new ActiveSlots(lookups, {
        hostId: options.hostId,
        clock,
        rowsPerSlot: bounds.activeRowsPerSlot,
        slotsBack: bounds.activeSlotsBack,
        goneSeconds: bounds.goneHostSeconds,
        trustMs: bounds.slotsTrustMs,
      }),
      wakeHours: new WakeHours(lookups, {
        buckets: bounds.wakeBuckets,
        nowSeconds: () => Math.floor(clock.now() / 1000),
      }),
      states: options.states,
      clock,
      timers: options.timers ?? systemLoop,
      randomness,
      bounds,
      log: options.log ?? silentLog,
      metrics,
      tracer: options.tracer,
      codes: new CodeLeases(lookups, { drawn: bounds.codesDrawn }),
      passwords: new PasswordChecks({ check: options.checkPassword, clock, bounds, metrics }),
      refusals: new Refusals({ max: bounds.refusalsKeptMax }),
      mailer: options.mailer,
      mailSemaphore: new Semaphore(bounds.mailsAtOnceMax),
      arrivals: new Arrivals({
        backup: options.journalBackup,
        clock,
        log: options.log ?? silentLog,
        accountsMax: bounds.unarrivedAccountsMax,
      }),
      askRelease: (account, holder) => this.#askRelease(account, holder),
      onBlobReleased: options.onBlobReleased ?? (() => {}),
      onDue: (account, due) => this.#due.set(account, due),
    }
    const { journalRepair } = options
    this.#readOnly =
      journalRepair &&
      new ReadOnlyStates(this.#services, {
        read: (account) => readableState(this.#services, journalRepair, account),
        operations: readOnlyOperations,
        keptMs: readOnlyKeptMs,
      })
    this.#replicas = options.replicaOf && new AccountReplicas(this.#services, options.replicaOf)
    this.#actorHost = {
      services: this.#services,
      faultBackoff: new FaultBackoff({ clock, randomness, bounds }),
      semaphore: new Semaphore(bounds.activationsAtOnceMax),
      absent: new LRUCache({
        max: bounds.absentAccountsMax,
        ttl: bounds.absentMs,
        ttlResolution: 0,
        perf: { now: () => clock.monotonic() + 1 },
      }),
      left: (left) => this.#left(left),
      changed: (actor) => this.#forgetEmpty(actor),
      readOnly: this.#readOnly,
    }
  }

  /**
   * Serves. Accounts with pending effects are woken and timers read in the background; faults there
   * are logged and retried.
   */
  start(): void {
    const { hostId, codes } = this.#services
    this.#subscriptions.push(
      this.#bus.serve(subjectOf(hostId), (message) => this.#handle(message)),
      this.#bus.serve(partSubjectOf(hostId), (message) => this.#handlePart(message)),
      this.#bus.serve(releaseSubjectOf(hostId), (message) => this.#letGo(Buffer.from(message).toString())),
    )
    this.#subscriptions.push(
      this.#bus.serve(quarantineSubjectOf(hostId), async () =>
        Buffer.from(JSON.stringify(this.quarantined.slice(0, quarantinedToldMax))),
      ),
      this.#bus.serve(lagSubjectOf(hostId), async () => Buffer.from(JSON.stringify(this.backupLag))),
      this.#bus.serve(repairSubjectOf(hostId), (message) => this.#handleRepair(message)),
      this.#bus.serve(clearSubjectOf(hostId), (message) => this.#handleClear(message)),
      this.#bus.serve(livingSubjectOf(hostId), async () => new Uint8Array()),
    )
    const replicas = this.#replicas
    if (replicas !== undefined)
      this.#subscriptions.push(this.#bus.serve(replicaSubjectOf(hostId), (message) => replicas.ask(message)))
    codes.prepare()
    this.#every('tidy', tidyMs, () => this.#tidy())
    this.#every('arrivals', this.#services.bounds.arrivalsMs, () => void this.bringArrivals())
    this.#relist()
    void this.#background('reading timers', async () => {
      await this.#readTimers()
      this.#every('sweep', this.#sweepMs, () => void this.sweep())
    })
    this.#every('relist', this.#services.bounds.relistMs, () => {
      this.#relist()
      void this.#background('reading timers', () => this.#readTimers())
    })
  }

  /** Accounts in memory. */
  get activeAccounts(): number {
    let count = 0
    for (const actor of this.#actors.values()) if (actor.active) count++
    return count
  }

  /** Accounts in quarantine because of damage or a bug, oldest first. */
  get quarantined(): QuarantinedAccount[] {
    return this.#actorHost.faultBackoff.quarantined()
  }

  /** Maximum lag of the second region behind changes acknowledged here. */
  get backupLag(): Lag {
    return this.#services.arrivals.lag
  }

  /** See `AccountVersions`. */
  versionOf(account: string): object | undefined {
    return this.#actors.get(account)?.version
  }

  // ---- requests

  async #handlePart(message: Uint8Array): Promise<Uint8Array> {
    const joined = this.#joiner.add(message)
    if (joined === 'more') return new Uint8Array()
    if (joined === 'unknown') return encodeReply(unavailable)
    return this.#handle(joined)
  }

  #handle(message: Uint8Array): Promise<Uint8Array> {
    return new Promise((resolve) => {
      const request = this.#parse(message)
      if (request === undefined) return resolve(encodeReply(refusal('error-internal')))
      this.#admit(request, (answer) => resolve(encodedAnswer(answer)))
    })
  }

  /**
   * Takes a request from this very process, as if it had come over the bus, and gives the result
   * back unencoded. The request does not change any more. The caller bounds its own wait.
   */
  take(request: AccountRequest): Promise<AccountReply> {
    const checked = this.#checked(request)
    if (checked === undefined) return Promise.resolve(refusal('error-internal'))
    return new Promise((resolve) => {
      if (this.#closing !== undefined) resolve(unavailable)
      else this.#admit(checked, (answer) => resolve(decodedAnswer(answer)), { inProcess: true })
    })
  }

  #parse(message: Uint8Array): AccountRequest | undefined {
    try {
      return this.#checked(AccountRequest.decode(message))
    } catch (error) {
      this.#services.log.error({ bytes: message.length, err: error }, 'a request cannot be read')
      return undefined
    }
  }

  #checked(request: AccountRequest): AccountRequest | undefined {
    if (isUuid(request.accountId)) return { ...request, accountId: request.accountId.toLowerCase() }
    this.#services.log.error({ account: request.accountId }, 'a request names no account')
    return undefined
  }

  #admit(
    request: AccountRequest,
    answered: (answer: Answer) => void,
    kind: { inProcess?: boolean } = {},
  ): void {
    const { clock, bounds, metrics } = this.#services
    const host = this.#elsewhere(request.accountId)
    if (host !== undefined) {
      new PendingRequest(request, answered).moved(host)
      return
    }
    // Maintenance of an account does not count as use: it leaves soon if it was loaded for that.
    const uses = request.operation?.$case !== 'reconcile'
    const actor = this.#actorOf(request.accountId, { uses })
    const full = this.#requests >= bounds.requestsMax || actor.inHand >= bounds.mailboxMax
    const visits = isVisitors(request)
    if (full || (visits && !this.#visitors.enter(request))) {
      metrics.overloaded()
      new PendingRequest(request, answered).unavailable({ overloaded: true })
      return
    }
    this.#requests++
    actor.admitted()
    metrics.requested({ depth: actor.inHand })
    const span = this.#spanOf(request)
    const ended = (answer: Answer) => {
      this.#requests--
      span?.end()
      if (visits) this.#visitors.left(request)
      this.#used(actor, { uses })
      actor.answered()
      answered(answer)
      if (this.#services.log.isLevelEnabled('debug')) this.#tell(ask)
    }
    const traced = span === undefined ? request : { ...request, traceparent: span.traceparent }
    const ask = new PendingRequest(traced, ended, kind)
    ask.arrivedMs = clock.monotonic()
    if (span === undefined) actor.submit(ask)
    else forTrace(span.traceparent, () => actor.submit(ask))
  }

  /** From its arrival to its answer. */
  #spanOf({ accountId, operation, traceparent: parent }: AccountRequest): Span | undefined {
    const { tracer, hostId } = this.#services
    if (tracer === undefined || parent === undefined) return undefined
    const attributes = { 'holdfast.account': accountId, 'holdfast.host': hostId }
    return tracer.begin(`account ${operation?.$case}`, { parent: traceparentOf(parent), attributes })
  }

  #tell({ request, arrivedMs }: PendingRequest): void {
    const { clock, log } = this.#services
    const { accountId: account, clientRequest: requestId, operation } = request
    const seconds = (clock.monotonic() - arrivedMs) / 1000
    log.debug({ requestId, account, operation: operation?.$case, seconds }, 'an account answered')
  }

  /** Another host, when our own view of the placement names one. */
  #elsewhere(account: string): string | undefined {
    const host = this.#hostOf?.(account)
    return host === undefined || host === this.#services.hostId ? undefined : host
  }

  #actorOf(account: string, { uses = true }: { uses?: boolean } = {}): AccountActor {
    const actor = this.#actors.get(account) ?? new AccountActor(account, this.#actorHost)
    if (uses) this.#actors.delete(account)
    this.#actors.set(account, actor)
    this.#used(actor, { uses })
    return actor
  }

  #used(actor: AccountActor, { uses }: { uses: boolean }): void {
    const { clock, bounds } = this.#services
    const nowMs = clock.monotonic()
    const idleMs = uses ? 0 : Math.max(0, bounds.idleMs - bounds.lookedAfterMs)
    actor.lastUsedMs = Math.max(actor.lastUsedMs, nowMs - idleMs)
  }

  /** Actors without state are dropped. */
  #forgetEmpty(actor: AccountActor): void {
    if (actor.empty && this.#actors.get(actor.account) === actor) this.#actors.delete(actor.account)
  }

  // ---- in and out of memory

  /** A holder that is not expected to have the account is gone, or is about to be fenced. */
  async #askRelease(account: string, holder: string): Promise<void> {
    const { bounds } = this.#services
    if (this.#predecessorOf?.(account) !== holder) return
    const question = Buffer.from(account)
    // A host that does not answer is taken over: the journal fences it.
    await this.#bus
      .request(releaseSubjectOf(holder), question, { timeoutMs: bounds.releaseWaitMs })
      .catch(() => {})
  }

  /**
   * Unloads the account once its requests have ended and the local placement puts it elsewhere,
   * too.
   */
  async #letGo(account: string): Promise<Uint8Array> {
    const { clock, timers, bounds } = this.#services
    const untilMs = clock.monotonic() + bounds.releaseWaitMs
    for (;;) {
      const actor = this.#actors.get(account)
      if (actor === undefined || actor.empty || clock.monotonic() >= untilMs) return new Uint8Array()
      if (actor.quiet && this.#elsewhere(account) !== undefined) await actor.passivate()
      else await pause(timers, restPollMs)
    }
  }

  /**
   * Wakes accounts that dead hosts may have left with pending effects, and those that this host
   * had before its last start; a few at a time.
   */
  async wakeListed(): Promise<void> {
    const { activeSlots, homes } = this.#services
    for (const home of homes.served()) {
      await activeSlots.confirm(home)
      const past = await activeSlots.past(home)
      if (past !== undefined && (await this.#clearAll(activeSlots.rowsIn({ home, range: past }))))
        activeSlots.pastCleared(home)
      if (this.#rowsForgotten) await this.#findForgotten(home)
      for await (const { host, range } of activeSlots.others(home))
        if (await this.#isGone(host)) {
          await this.#clearAll(activeSlots.rowsIn({ home, host, range }))
          if (!this.#isClockOff()) await activeSlots.prune(home, { host, range })
        }
    }
  }

  /** Of this host's rows, those whose accounts are not in memory here. */
  async #findForgotten(home: string): Promise<void> {
    const { activeSlots, clock, bounds } = this.#services
    this.#rowsForgotten = false
    for await (const { key, account } of activeSlots.rowsIn({ home, range: await activeSlots.own(home) })) {
      if (this.#actors.get(account)?.active === true || this.#keptRows.has(key)) continue
      if (this.#keptRows.size >= bounds.ailingAccountsMax) this.#rowsForgotten = true
      else this.#keptRows.set(key, { atMs: clock.monotonic(), owed: true })
    }
  }

  /** @returns whether none is left that this host must clear. */
  async #clearAll(rows: AsyncIterable<{ key: string }>): Promise<boolean> {
    let all = true
    await forEachAtMost(this.#services.bounds.wakesAtOnceMax, rows, async ({ key }) => {
      if (!this.#keptRows.has(key)) all = (await this.#clear(key)) && all
    })
    return all
  }

  /** A host that does not answer is only suspected: checking what it may have left is harmless. */
  async #isGone(host: string): Promise<boolean> {
    const { journal, bounds } = this.#services
    if (journal.capabilities.exclusive) return true
    return this.#bus
      .request(livingSubjectOf(host), new Uint8Array(), { timeoutMs: bounds.releaseWaitMs })
      .then(
        () => false,
        () => true,
      )
  }

  /** The owner removes the row, here or elsewhere. @returns false: retry */
  async #clear(key: string): Promise<boolean> {
    if (this.#closing !== undefined) return false
    const { hostId, bounds, activeSlots, log } = this.#services
    const { home, host, slot } = activePlaceOf(key)
    const account = accountOfRow(key)
    const elsewhere = this.#elsewhere(account)
    if (elsewhere !== undefined) {
      // The host that has the account finds the rows of dead hosts itself.
      if (host !== hostId) return true
      const timeoutMs = bounds.releaseWaitMs
      try {
        const answer = await this.#bus.request(clearSubjectOf(elsewhere), Buffer.from(key), { timeoutMs })
        if (answer.length !== clearedAnswer.length) return false
      } catch (err) {
        log.warn({ account, err }, 'an active row is not cleared by its host yet')
        return false
      }
    } else if (!(await this.#actorOf(account, { uses: false }).clear(key))) return false
    if (host === hostId) activeSlots.left(home, slot)
    return true
  }

  async #handleClear(message: Uint8Array): Promise<Uint8Array> {
    const key = Buffer.from(message).toString()
    const account = accountOfRow(key)
    if (this.#closing !== undefined || this.#elsewhere(account) !== undefined) return new Uint8Array()
    const cleared = await this.#actorOf(account, { uses: false }).clear(key)
    return cleared ? Buffer.from(clearedAnswer) : new Uint8Array()
  }

  /**
   * Accounts move to this host without a message: from a dead one, or one that lost them with
   * pending effects.
   */
  #relist(): void {
    this.#relisting ??= this.#background('waking accounts', () => this.wakeListed()).finally(() => {
      this.#relisting = undefined
    })
  }

  /**
   * Sends the second region what did not arrive by itself. Accounts that wait for it before they
   * leave are woken, and leave cleanly.
   */
  bringArrivals(): Promise<void> {
    return this.#services.arrivals.pass({
      isOurs: (account) => this.#closing === undefined && this.#elsewhere(account) === undefined,
      sendRoutes: (account) => this.#actorOf(account).sendRoutes(),
      arrived: (account) => this.#arrived(account),
    })
  }

  async #wake(account: string): Promise<void> {
    if (this.#closing !== undefined || this.#elsewhere(account) !== undefined) return
    // Nothing to wake, and no use that would keep it in memory.
    if (this.#actors.get(account)?.active === true) return
    await this.#actorOf(account).wake()
  }

  #tidy(): void {
    const { clock, bounds, metrics } = this.#services
    const nowMs = clock.monotonic()
    let bytes = 0
    let accounts = 0
    for (const actor of this.#actors.values()) {
      bytes += actor.bytes
      if (actor.active) accounts++
    }
    metrics.memory({ accounts, bytes })
    metrics.backupLag(this.backupLag)
    metrics.quarantined({ accounts: this.#actorHost.faultBackoff.quarantinedCount })
    for (const actor of this.#actors.values()) {
      if (this.#passivating >= bounds.passivationsAtOnceMax) break
      const crowded = bytes > bounds.memoryBytesMax || accounts > bounds.activeAccountsMax
      const idle = nowMs - actor.lastUsedMs >= bounds.idleMs && !actor.effectsBusy
      const leaves = crowded || idle || actor.isUnwritten || this.#elsewhere(actor.account) !== undefined
      if (!leaves || !actor.quiet) continue
      bytes -= actor.bytes
      accounts--
      void this.#passivate(actor)
    }
    this.#clearOverdue(nowMs)
  }

  async #passivate(actor: AccountActor): Promise<void> {
    this.#passivating++
    try {
      await actor.passivate()
    } finally {
      this.#passivating--
    }
  }

  #left({ pendingEffects, activeRows }: { pendingEffects: boolean; activeRows: readonly string[] }): void {
    const { clock, bounds } = this.#services
    const atMs = clock.monotonic() + (pendingEffects ? bounds.effectsWakeMs : bounds.relistMs)
    for (const row of activeRows) {
      if (this.#keptRows.size >= bounds.ailingAccountsMax) this.#rowsForgotten = true
      else this.#keptRows.set(row, { atMs, owed: pendingEffects })
    }
  }

  #clearOverdue(nowMs: number): void {
    for (const [row, { atMs, owed }] of this.#keptRows) {
      // An account that waits only for the second region is woken when that has everything.
      if (atMs > nowMs || (!owed && this.#services.arrivals.has(accountOfRow(row)))) continue
      void this.#clearKept(row)
    }
  }

  async #clearKept(row: string): Promise<void> {
    this.#keptRows.delete(row)
    if (await this.#clear(row)) return
    const atMs = this.#services.clock.monotonic() + this.#services.bounds.relistMs
    this.#keptRows.set(row, { atMs, owed: false })
  }

  /** The second region has everything, too: it may leave cleanly. */
  async #arrived(account: string): Promise<void> {
    await this.#wake(account)
    const rows = [...this.#keptRows.keys()].filter((row) => accountOfRow(row) === account)
    await Promise.all(rows.map((row) => this.#clearKept(row)))
  }

  /**
   * Makes an account whose journal is damaged readable again, and reports what was lost. Its
   * requests wait meanwhile. A dry run changes nothing.
   *
   * @throws JournalFault `UNAVAILABLE`, `FENCED`: nothing, or not all, was done; it may be
   *   repeated.
   */
  async repair(account: string, { dryRun }: { dryRun: boolean }): Promise<RepairReport> {
    const journal = this.#journalRepair
    if (journal === undefined) throw new JournalFault('UNAVAILABLE', 'this host repairs no accounts')
    const actor = this.#actorOf(account)
    const report = await actor.whileAway(() => repair(this.#services, journal, { account, dryRun }))
    this.#readOnly?.forget(account)
    // Its timers and effects continue.
    if (report.outcome === 'repaired') void this.#background('waking an account', () => this.#wake(account))
    return report
  }

  async #handleRepair(message: Uint8Array): Promise<Uint8Array> {
    const { account, dryRun } = JSON.parse(Buffer.from(message).toString()) as RepairQuestion
    const elsewhere = this.#elsewhere(account)
    if (elsewhere !== undefined) return jsonOf({ fault: 'UNAVAILABLE', message: `it is at ${elsewhere}` })
    try {
      return jsonOf({ report: await this.repair(account, { dryRun }) })
    } catch (error) {
      this.#services.log.error({ account, dryRun, err: error }, 'a repair failed')
      return jsonOf({ fault: codeOf(error) ?? 'INTERNAL', message: (error as Error).message })
    }
  }

  // ---- timers of accounts

  /** Fires due timers. Resolves when that is done; a call during another shares it. */
  sweep(): Promise<void> {
    this.#sweeping ??= this.#background('firing timers', () => this.#fireDue()).finally(() => {
      this.#sweeping = undefined
    })
    return this.#sweeping
  }

  async #fireDue(): Promise<void> {
    if (this.#timersRest()) return
    const nowSeconds = Math.floor(this.#services.clock.now() / 1000)
    if (this.#due.horizon <= nowSeconds + horizonMarginSeconds) await this.#readTimers()
    await forEachAtMost(this.#services.bounds.ticksAtOnceMax, this.#takeDue(nowSeconds), (account) =>
      this.#tick(account),
    )
  }

  *#takeDue(nowSeconds: number): Generator<string> {
    for (
      let account = this.#due.take(nowSeconds);
      account !== undefined;
      account = this.#due.take(nowSeconds)
    ) {
      if (this.#closing !== undefined) return
      if (this.#elsewhere(account) !== undefined) continue
      if (this.#timersRest()) return this.#due.set(account, nowSeconds)
      yield account
    }
  }

  /** Logged when it begins and when it ends. */
  #timersRest(): boolean {
    const isOff = this.#isClockOff()
    if (isOff !== this.#clockWasOff) {
      this.#clockWasOff = isOff
      const message = isOff
        ? 'the wall clock is far from where it should be: no timer of an account fires'
        : 'the wall clock is where it should be again: timers of accounts fire'
      this.#services.log.warn({}, message)
    }
    return isOff
  }

  async #tick(account: string): Promise<void> {
    const { clock, randomness } = this.#services
    const nowMs = clock.now()
    const requestId = Buffer.from(randomness.bytes(16))
    requestId.writeUIntBE(nowMs, 0, 6)
    const request: AccountRequest = {
      accountId: account,
      requestId,
      deadlineMs: nowMs + tickTimeoutMs,
      caller: { who: { $case: 'system', value: {} } },
      clientNetwork: undefined,
      clientRequest: undefined,
      traceparent: undefined,
      tierNeeded: '',
      operation: { $case: 'tick', value: { uses: undefined } },
    }
    await new Promise<Answer>((resolve) => this.#admit(request, resolve))
    const due = this.#actors.get(account)?.nextDue
    const nowSeconds = Math.floor(clock.now() / 1000)
    const active = this.#actors.get(account)?.active === true
    // Still due, or unknown: the stores refused. Not again at once.
    if (!active || (due !== undefined && due <= nowSeconds))
      this.#due.set(account, nowSeconds + tickRetrySeconds)
    else this.#due.set(account, due)
  }

  /** Reads the timers of the open hours. @throws what the lookups throw. */
  async #readTimers(): Promise<void> {
    const { clock, homes, bounds, wakeHours } = this.#services
    const nowSeconds = Math.floor(clock.now() / 1000)
    const through = hourOf(nowSeconds + lookAheadSeconds)
    this.#due.resetHorizon((through + 1) * 3600)
    const strays: string[] = []
    for (const home of homes.served()) {
      for await (const { key, account, due } of wakeHours.rows(home, through)) {
        if (this.#elsewhere(account) !== undefined) continue
        const actor = this.#actors.get(account)
        // An active account is more current than its row.
        if (actor?.active === true) this.#due.set(account, actor.nextDue)
        else this.#due.add(account, due)
        if (due < nowSeconds - straySeconds && strays.length < straysAtOnceMax) strays.push(key)
      }
      // By a wrong clock hours would be over that are not.
      if (!this.#isClockOff()) await wakeHours.close(home)
    }
    // Their accounts were woken, and have left or do not need them.
    await forEachAtMost(bounds.wakesAtOnceMax, strays, async (key) => {
      const account = accountOfRow(key)
      if (this.#closing === undefined && this.#elsewhere(account) === undefined)
        await this.#actorOf(account, { uses: false }).clear(key)
    })
  }

  // ---- life

  #every(name: string, ms: number, run: () => void): void {
    const { timers } = this.#services
    const again = () => {
      this.#cancelTimers.set(
        name,
        timers.after(ms, () => {
          if (this.#closing !== undefined) return
          again()
          run()
        }),
      )
    }
    if (this.#closing === undefined) again()
  }

  /**
   * Background work: its faults are logged and, for the work of a start, retried until it is done.
   */
  async #background(what: string, work: () => Promise<void>): Promise<void> {
    const { log, bounds } = this.#services
    while (this.#closing === undefined) {
      try {
        return await work()
      } catch (error) {
        log.warn({ what, err: error }, 'background work failed and is retried')
        await this.#pauses.pause(bounds.retryMaxMs)
      }
    }
  }

  /**
   * Drains: accepts no more requests, lets running ones end, unloads every account cleanly.
   * @param options.drainMs what is not done by then is left as after a crash; nothing acknowledged
   *   is lost. 0 leaves all so.
   */
  close({ drainMs }: { drainMs: number }): Promise<void> {
    this.#closing ??= this.#drain(drainMs)
    return this.#closing
  }

  async #drain(drainMs: number): Promise<void> {
    for (const subscription of this.#subscriptions) subscription.close()
    for (const cancel of this.#cancelTimers.values()) cancel()
    this.#pauses.endAll()
    if (drainMs > 0) await this.#leaveAll(drainMs)
    for (const actor of [...this.#actors.values()]) actor.abandon()
  }

  async #leaveAll(drainMs: number): Promise<void> {
    const { timers, bounds } = this.#services
    const late = new AbortController()
    const timeout = Promise.withResolvers<void>()
    const cancel = timers.after(drainMs, timeout.resolve)
    const drained = forEachAtMost(bounds.passivationsAtOnceMax, [...this.#actors.values()], (actor) =>
      leave(actor, this.#services, late.signal),
    )
    await Promise.race([drained, timeout.promise])
    cancel()
    late.abort()
  }
}

/** How often a draining host checks whether an account has settled. */
const restPollMs = 5
/** The time that running effects get; the next activation carries out the others. */
const effectsDrainMs = 1000

async function leave(actor: AccountActor, { clock, timers }: Services, late: AbortSignal): Promise<void> {
  const effectsUntilMs = clock.monotonic() + effectsDrainMs
  while (!actor.empty && !late.aborted) {
    const rests = actor.quiet && (!actor.effectsBusy || clock.monotonic() >= effectsUntilMs)
    if (rests) await actor.passivate()
    else await pause(timers, restPollMs)
  }
}

/** The answer about an active row that does not exist any more. */
const clearedAnswer = 'cleared'

function accountOfRow(key: string): string {
  return key.slice(key.lastIndexOf('/') + 1)
}

function jsonOf(answer: RepairAnswer): Uint8Array {
  return Buffer.from(JSON.stringify(answer))
}

function refusal(status: string) {
  return { result: { $case: 'refusal' as const, value: { status } } }
}
