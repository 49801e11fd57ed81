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
  silentLog,
  systemClock,
  systemRandomness,
  type Tracer,
  traceparentOf,
} from '@holdfast/kernel'
import { type AccountReply, AccountRequest } from '@holdfast/wire'
import { LRUCache } from 'lru-cache'
import { AccountActor, type ActorHost } from '../account/account-actor.ts'
import { FaultBackoff, type QuarantinedAccount } from '../account/requests/fault-backoff.ts'
import { isVisitors } from '../account/requests/mailbox.ts'
import {
  type Answer,
  decodedAnswer,
  encodedAnswer,
  encodeReply,
  PendingRequest,
} from '../account/requests/pending-request.ts'
import { Refusals } from '../account/requests/refusals.ts'
import { codeOf } from '../account/rows/durable-log.ts'
import { defaultRuntimeBounds, type RuntimeBounds } from '../bounds.ts'
import { ActiveSegments } from '../lookups/active-segments.ts'
import { CodeLeases } from '../lookups/code-leases.ts'
import { WakeHours } from '../lookups/wake-hours.ts'
import { type HostMetrics, noMetrics, type RuntimeLog } from '../observer.ts'
import { Arrivals, type Lag } from '../queues/arrivals.ts'
import { type PasswordCheck, PasswordChecks } from '../queues/password-checks.ts'
import type { PasswordWork } from '../queues/password-work.ts'
import { forEachAtMost, Semaphore } from '../queues/semaphore.ts'
import { type RepairReport, readableState, repair } from '../repair/repair.ts'
import type { RepairAnswer, RepairQuestion } from '../repair/repair-client.ts'
import type { Homes, ReleasedBlob, Services, SignInMailer } from '../services.ts'
import { type LoopTimers, systemLoop } from '../timers.ts'
import { AccountReplicas } from './account-replicas.ts'
import { AccountTimers } from './account-timers.ts'
import { BackgroundWork } from './background-work.ts'
import { Departures } from './departures.ts'
import { LeftRows } from './left-rows.ts'
import { LocalActors } from './local-actors.ts'
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
  /** The turns of slow checks of passwords. Undefined: the host has its own. */
  passwordWork: PasswordWork | undefined
  /** Instead of scrypt: for tests. */
  checkPassword: PasswordCheck | undefined
}

const unavailable: AccountReply = {
  result: { $case: 'unavailable', value: { overloaded: false, damaged: false } },
}
/**
 * How long the state of an account that cannot be changed is kept: no longer than a visitor's
 * answer.
 */
const readOnlyKeptMs = 3_000
/** How often idleness and memory are checked. */
const tidyMs = 1000
/** Quarantined accounts that a host names; all are counted. */
const quarantinedReportedMax = 100
export class AccountHost implements AccountVersions {
  readonly #services: Services
  /** The host as actors see it. */
  readonly #actorHost: ActorHost

  readonly #bus: Bus
  readonly #journalRepair: JournalRepair | undefined
  readonly #predecessorOf: ((accountId: string) => string | undefined) | undefined
  readonly #sweepMs: number
  readonly #joiner: RequestJoiner
  readonly #replicas: AccountReplicas | undefined
  readonly #readOnly: ReadOnlyStates | undefined
  readonly #actors: LocalActors
  readonly #departures: Departures
  readonly #background: BackgroundWork
  readonly #leftRows: LeftRows
  readonly #timers: AccountTimers
  readonly #subscriptions: Subscription[] = []
  readonly #visitors: Visitors
  #requests = 0
  #closing: Promise<void> | undefined

  constructor(options: AccountHostOptions) {
    const { lookups, metrics = noMetrics, clock = systemClock } = options
    const bounds = { ...defaultRuntimeBounds, ...options.bounds }
    const randomness = options.randomness ?? systemRandomness()
    this.#bus = options.bus
    this.#journalRepair = options.journalRepair
    this.#predecessorOf = options.predecessorOf
    this.#sweepMs = options.sweepMs
    this.#joiner = new RequestJoiner(clock)
    this.#visitors = new Visitors(bounds)
    this.#services = {
      hostId: options.hostId,
      journal: options.journal,
      lookups,
      homes: options.homes ?? { of: () => 'home', served: () => ['home'] },
      activeSegments: new ActiveSegments(lookups, {
        hostId: options.hostId,
        clock,
        rowsPerSegment: bounds.activeRowsPerSegment,
        segmentsBack: bounds.activeSegmentsBack,
        goneSeconds: bounds.goneHostSeconds,
        trustMs: bounds.segmentsTrustMs,
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
      passwords: new PasswordChecks({
        ...{ check: options.checkPassword, clock, bounds, metrics, work: options.passwordWork },
      }),
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
      onDue: (account, due) => this.#timers.set(account, due),
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
      left: (left) => this.#leftRows.left(left),
      room: () => this.#departures.room(),
      changed: (actor) => {
        this.#actors.changed(actor)
        this.#departures.changed()
      },
      readOnly: this.#readOnly,
    }
    this.#actors = new LocalActors(this.#services, {
      hostOf: options.hostOf,
      make: (account) => new AccountActor(account, this.#actorHost),
    })
    this.#departures = new Departures(this.#services, this.#actors)
    this.#background = new BackgroundWork(this.#services)
    const shared = {
      actors: this.#actors,
      background: this.#background,
      isClockOff: options.isClockOff ?? (() => false),
    }
    this.#leftRows = new LeftRows(this.#services, { ...shared, bus: options.bus })
    this.#timers = new AccountTimers(this.#services, {
      ...shared,
      admit: (request, answered) => this.#admit(request, answered),
    })
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
        Buffer.from(JSON.stringify(this.quarantined.slice(0, quarantinedReportedMax))),
      ),
      this.#bus.serve(lagSubjectOf(hostId), async () => Buffer.from(JSON.stringify(this.backupLag))),
      this.#bus.serve(repairSubjectOf(hostId), (message) => this.#handleRepair(message)),
      this.#bus.serve(clearSubjectOf(hostId), (message) => this.#leftRows.handleClear(message)),
      this.#bus.serve(livingSubjectOf(hostId), async () => new Uint8Array()),
    )
    const replicas = this.#replicas
    if (replicas !== undefined)
      this.#subscriptions.push(this.#bus.serve(replicaSubjectOf(hostId), (message) => replicas.ask(message)))
    codes.prepare()
    this.#background.every('tidy', tidyMs, () => this.#tidy())
    this.#background.every('arrivals', this.#services.bounds.arrivalsMs, () => void this.bringArrivals())
    this.#leftRows.relist()
    void this.#background.run('reading timers', async () => {
      await this.#timers.read()
      this.#background.every('sweep', this.#sweepMs, () => void this.sweep())
    })
    this.#background.every('relist', this.#services.bounds.relistMs, () => {
      this.#leftRows.relist()
      void this.#background.run('reading timers', () => this.#timers.read())
    })
  }

  /** Accounts in memory. */
  get activeAccounts(): number {
    let count = 0
    for (const actor of this.#actors) if (actor.active) count++
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
    const host = this.#actors.elsewhere(request.accountId)
    if (host !== undefined) {
      new PendingRequest(request, answered).moved(host)
      return
    }
    // Maintenance of an account does not count as use: it leaves soon if it was loaded for that.
    const uses = request.operation?.$case !== 'reconcile'
    const actor = this.#actors.of(request.accountId, { uses })
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
      this.#actors.used(actor, { uses })
      actor.answered()
      answered(answer)
      if (this.#services.log.isLevelEnabled('debug')) this.#logAnswer(ask)
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

  #logAnswer({ request, arrivedMs }: PendingRequest): void {
    const { clock, log } = this.#services
    const { accountId: account, clientRequest: requestId, operation } = request
    const seconds = (clock.monotonic() - arrivedMs) / 1000
    log.debug({ requestId, account, operation: operation?.$case, seconds }, 'an account answered')
  }

  // ---- in and out of memory

  /**
   * Asks only the host that is expected to have the account. Any other holder is gone, or is about
   * to be fenced.
   */
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
      if (actor.quiet && this.#actors.elsewhere(account) !== undefined) await actor.passivate()
      else await pause(timers, restPollMs)
    }
  }

  /**
   * Sends rows that are missing in the second region. Accounts that cannot be passivated before
   * these rows have arrived are woken, and are passivated then.
   */
  bringArrivals(): Promise<void> {
    return this.#services.arrivals.pass({
      isOurs: (account) => this.#actors.isOurs(account),
      sendRoutes: (account) => this.#actors.of(account).sendRoutes(),
      arrived: (account) => this.#arrived(account),
    })
  }

  async #wake(account: string): Promise<void> {
    if (!this.#actors.isOurs(account)) return
    // Nothing to wake, and no use that would keep it in memory.
    if (this.#actors.isActive(account)) return
    await this.#actors.of(account).wake()
  }

  #tidy(): void {
    const { clock, metrics } = this.#services
    metrics.memory(this.#departures.look())
    metrics.backupLag(this.backupLag)
    metrics.quarantined({ accounts: this.#actorHost.faultBackoff.quarantinedCount })
    this.#leftRows.clearOverdue(clock.monotonic())
  }

  /** The second region has everything, too: it may leave cleanly. */
  async #arrived(account: string): Promise<void> {
    await this.#wake(account)
    await this.#leftRows.clearKeptOf(account)
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
    const actor = this.#actors.of(account)
    const report = await actor.whileAway(() => repair(this.#services, journal, { account, dryRun }))
    this.#readOnly?.forget(account)
    // Its timers and effects continue.
    if (report.outcome === 'repaired')
      void this.#background.run('waking an account', () => this.#wake(account))
    return report
  }

  async #handleRepair(message: Uint8Array): Promise<Uint8Array> {
    const { account, dryRun } = JSON.parse(Buffer.from(message).toString()) as RepairQuestion
    const elsewhere = this.#actors.elsewhere(account)
    if (elsewhere !== undefined) return jsonOf({ fault: 'UNAVAILABLE', message: `it is at ${elsewhere}` })
    try {
      return jsonOf({ report: await this.repair(account, { dryRun }) })
    } catch (error) {
      this.#services.log.error({ account, dryRun, err: error }, 'a repair failed')
      return jsonOf({ fault: codeOf(error) ?? 'INTERNAL', message: (error as Error).message })
    }
  }

  /**
   * Wakes accounts that dead hosts may have left with pending effects, and those that this host had
   * before its last start; a few at a time.
   */
  wakeListed(): Promise<void> {
    return this.#leftRows.wakeListed()
  }

  /** Fires due timers. Resolves when that is done; a call during another shares it. */
  sweep(): Promise<void> {
    return this.#timers.sweep()
  }

  // ---- life

  /**
   * Drains: accepts no more requests, lets running ones end, unloads every account cleanly.
   * @param options.drainMs what is not done by then is left as after a crash; nothing acknowledged
   *   is lost. 0 leaves all so.
   */
  close({ drainMs }: { drainMs: number }): Promise<void> {
    this.#actors.isClosing = true
    this.#departures.changed()
    this.#closing ??= this.#drain(drainMs)
    return this.#closing
  }

  async #drain(drainMs: number): Promise<void> {
    for (const subscription of this.#subscriptions) subscription.close()
    this.#background.end()
    if (drainMs > 0) await this.#leaveAll(drainMs)
    for (const actor of [...this.#actors]) actor.abandon()
  }

  async #leaveAll(drainMs: number): Promise<void> {
    const { timers, bounds } = this.#services
    const late = new AbortController()
    const timeout = Promise.withResolvers<void>()
    const cancel = timers.after(drainMs, timeout.resolve)
    const drained = forEachAtMost(bounds.passivationsAtOnceMax, [...this.#actors], (actor) =>
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

function jsonOf(answer: RepairAnswer): Uint8Array {
  return Buffer.from(JSON.stringify(answer))
}

function refusal(status: string) {
  return { result: { $case: 'refusal' as const, value: { status } } }
}
