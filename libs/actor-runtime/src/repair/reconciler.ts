/**
 * Compares the references of blobs, and the routes of share codes and addresses, with the
 * accounts, which are authoritative, and repairs differences.
 *
 * A round has two parts. First every account is asked to restore its missing references and routes.
 * A region that was lost after a partition may have taken them with it. When all accounts have
 * answered, each reference that was lost before the round began is there again, and collectors may
 * rely on what they read (`confirmedMs`). Then every reference is read, and the account it names is
 * asked whether it knows the blob; an unclaimed reference is removed. An account does both itself,
 * as the owner of its rows and in its own order (see `reference-look.ts`), so nothing here can
 * block an upload, a copy, a move or a takeover.
 *
 * Memory is bounded in every case: accounts are asked a page at a time, references are gathered by
 * account up to `suspectsMax`. Each step may be repeated, so the last place is recorded at
 * intervals, and a round continues from there after a restart or elsewhere.
 *
 * Cost: an account is read into memory once in the first part, and once for each batch of its
 * references in the second. With few accounts there are few batches; with very many accounts each
 * reference costs a request. The second part is not urgent: what it finds costs only space.
 */

import { type AccountClient, ask, asSystem, viewOf } from '@holdfast/accounts'
import { blobIdBytes, type Clock, incarnationBytes, isUuid, pause, type Timers } from '@holdfast/kernel'
import type { ReconcileView } from '@holdfast/wire'
import type { RuntimeLog } from '../observer.ts'
import { forEachAtMost } from '../queues/semaphore.ts'

export interface ReconcilerOptions {
  accounts: AccountClient
  /** The accounts to be asked, in the order of places, from a place on. */
  listAccounts: (after: string | undefined) => AsyncIterable<{ account: string; place: string }>
  /** Keys of references, including those of others. */
  listReferences: (after: string | undefined) => AsyncIterable<{ key: string; place: string }>
  /** Whether this process judges its references. */
  isOurs: (account: string) => boolean
  /**
   * Names the listed accounts: when it changes, a running round counts for nothing and another one
   * begins.
   */
  scope: () => string
  notes: RoundNotes
  /**
   * How often rows are known to have been lost: a number that only grows. After another loss a
   * round begins at once.
   */
  losses: () => number
  /** Whether the rounds are made here now. */
  leads: () => boolean
  /**
   * Requests per second; a page of references counts as one. An operator's round is not limited.
   */
  perSecond: number
  /** From the beginning of one round to that of the next. */
  everyMs: number
  /** The same when a round is awaited. */
  wantedMs: number
  clock: Clock
  timers: Timers
  log: RuntimeLog
}

/** Stores the state of the rounds; at most `notesBytesMax`. */
export interface RoundNotes {
  read(): Promise<Uint8Array | undefined>
  write(bytes: Uint8Array): Promise<void>
}

export interface RoundFigures {
  /** Accounts asked what they use, and blobs in use that were checked. */
  accounts: number
  used: number
  /** References read, and those of accounts that are ours. */
  references: number
  /** Used, and without a reference. */
  missing: number
  /**
   * Routes that were checked, and those that were missing. A route may be checked several times,
   * and in a dry run it is missing each time.
   */
  routes: number
  missingRoutes: number
  /** References that no account claims. */
  orphaned: number
  /** Restored or removed. */
  mended: number
  /** Accounts that gave no answer. */
  failed: number
}

export interface Round extends RoundFigures {
  /** Unix ms. */
  beganMs: number
  /** Undefined: it is not over. */
  endedMs: number | undefined
  dryRun: boolean
  /** Known when it began. */
  losses: number
  /** Some of those that failed. */
  failures: string[]
  /** Accounts by tier. */
  tiers: Record<string, number>
}

/** The recorded state. */
export interface RoundState {
  version: 1
  /** The last round that ended. */
  last: Round | undefined
  /** When the last round began in which all accounts answered, and which accounts those were. */
  confirmedMs: number | undefined
  confirmedScope: string | undefined
  /** The running round. */
  round: (Round & Progress) | undefined
}

interface Progress {
  scope: string
  part: 'accounts' | 'references'
  after: string | undefined
}

/** Maximum of accounts asked before the place is recorded. */
const accountsPerPage = 64
/** References that are read at once. */
const referencesPerPage = 2_000
/** Accounts asked at one time. */
const asksAtOnce = 8
/** References gathered by account: some 10 MiB. */
const suspectsMax = 50_000
/** In one request: 64 KiB. */
const suspectsPerAsk = 1_024
/**
 * The time-out of one request. An account that cannot be asked now is retried at the end of its
 * page.
 */
const askTimeoutMs = 15_000
const attempts = 2
/**
 * A round stops, and continues later, when this many accounts in a row give no answer: a part is
 * down.
 */
const failedInARowMax = 32
const failuresNamed = 20
/** Between checks whether a round is due. */
const lookMs = 1_000
/** Between records of the place. */
const noteMs = 5_000
/** After a fault. */
const pauseMs = 30_000

/** The operator's call is answered after this long; a longer round continues in the background. */
export const reconcileAnsweredMs = 9 * 60_000

export class Reconciler {
  readonly #options: ReconcilerOptions
  #notes: RoundState | undefined
  #wanted = false
  #failedInARow = 0
  #nextAskMs = Number.NEGATIVE_INFINITY
  #notBeforeMs = Number.NEGATIVE_INFINITY
  #running: Promise<unknown> | undefined
  #interrupt = new AbortController()
  #cancelTimer: (() => void) | undefined
  #closed = false
  #current: Round | undefined

  constructor(options: ReconcilerOptions) {
    this.#options = options
  }

  /** Starts the rounds, in the background. */
  start(): void {
    if (this.#closed) return
    this.#cancelTimer = this.#options.timers.after(lookMs, () => {
      void this.#look().finally(() => this.start())
    })
  }

  /** Requests a round that begins from now on. */
  wanted(): void {
    this.#wanted = true
  }

  /**
   * When the last round began in which every account answered, Unix ms: references lost before it
   * are restored.
   * @throws what the notes throw
   */
  async confirmedMs(): Promise<number | undefined> {
    return (await this.#read()).confirmedMs
  }

  /**
   * For status and metrics: the round that runs here, and the last one that ended. Only where the
   * rounds are made: other processes do not read of later ones, and figures would count twice.
   */
  get rounds(): { running: Round | undefined; last: Round | undefined } {
    return {
      running: this.#current,
      last: this.#options.leads() ? this.#notes?.last : undefined,
    }
  }

  /**
   * A whole round at once, as fast as the accounts answer. It replaces a running one.
   * @param options.signal ends it early: it continues in the background then, unless it is a dry
   *   run.
   * @returns without `endedMs` when it was ended early.
   */
  async reconcile({ dryRun, signal }: { dryRun: boolean; signal?: AbortSignal }): Promise<Round> {
    this.#interrupt.abort()
    while (this.#running !== undefined) await this.#running
    const ends = [this.#renewInterrupt(), ...(signal === undefined ? [] : [signal])]
    const round = this.#fresh({ dryRun })
    return this.#exclusively(() =>
      this.#run(round, { perSecond: Number.POSITIVE_INFINITY, signal: AbortSignal.any(ends) }),
    )
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#cancelTimer?.()
    this.#interrupt.abort()
    await this.#running
  }

  #renewInterrupt(): AbortSignal {
    this.#interrupt = new AbortController()
    if (this.#closed) this.#interrupt.abort()
    return this.#interrupt.signal
  }

  #exclusively<T>(work: () => Promise<T>): Promise<T> {
    const running = work()
    const over: Promise<unknown> = running
      .catch(() => {})
      .finally(() => {
        if (this.#running === over) this.#running = undefined
      })
    this.#running = over
    return running
  }

  /** Never rejects. */
  async #look(): Promise<void> {
    const { clock, log, perSecond, leads } = this.#options
    if (this.#closed || this.#running !== undefined || !leads()) return
    if (clock.monotonic() < this.#notBeforeMs) return
    const signal = this.#renewInterrupt()
    try {
      await this.#exclusively(async () => {
        const round = await this.#dueRound()
        if (round !== undefined) await this.#run(round, { perSecond, signal })
      })
    } catch (error) {
      this.#notBeforeMs = clock.monotonic() + pauseMs
      log.warn({ err: error }, 'references could not be compared with the accounts, and will be later')
    }
  }

  async #dueRound(): Promise<(Round & Progress) | undefined> {
    const { clock, everyMs, wantedMs } = this.#options
    const { round, last, confirmedScope } = await this.#read()
    // A round that began before the last loss may have asked accounts for what was lost later.
    if (((round ?? last)?.losses ?? 0) !== this.#options.losses()) return this.#fresh({ dryRun: false })
    if (round !== undefined && round.scope === this.#scope) return round
    const began = last?.beganMs ?? Number.NEGATIVE_INFINITY
    const wanted = this.#wanted || confirmedScope !== this.#scope
    const due = clock.now() - began >= (wanted ? wantedMs : everyMs)
    return due ? this.#fresh({ dryRun: false }) : undefined
  }

  get #scope(): string {
    return this.#options.scope()
  }

  #fresh({ dryRun }: { dryRun: boolean }): Round & Progress {
    this.#wanted &&= dryRun
    return {
      scope: this.#scope,
      part: 'accounts',
      beganMs: this.#options.clock.now(),
      dryRun,
      losses: this.#options.losses(),
      accounts: 0,
      used: 0,
      references: 0,
      missing: 0,
      routes: 0,
      missingRoutes: 0,
      orphaned: 0,
      mended: 0,
      failed: 0,
      failures: [],
      tiers: {},
      endedMs: undefined,
      after: undefined,
    }
  }

  async #run(round: Round & Progress, how: PassOptions): Promise<Round> {
    this.#current = round
    this.#failedInARow = 0
    try {
      if (round.part === 'accounts') {
        if (!(await this.#askAccounts(round, how))) return reportOf(round)
        await this.#noteConfirmed(round)
      }
      if (!(await this.#askReferences(round, how))) return reportOf(round)
      const ended = { ...reportOf(round), endedMs: this.#options.clock.now() }
      if (!round.dryRun) await this.#write({ ...(await this.#read()), last: ended, round: undefined })
      this.#options.log.info(ended, 'references were compared with the accounts')
      return ended
    } finally {
      this.#current = undefined
    }
  }

  async #noteConfirmed(round: Round & Progress): Promise<void> {
    round.part = 'references'
    round.after = undefined
    if (round.dryRun) return
    const whole = round.failed === 0 && round.scope === this.#scope
    const confirmed = whole ? { confirmedMs: round.beganMs, confirmedScope: round.scope } : {}
    await this.#write({ ...(await this.#read()), ...confirmed, round })
  }

  // ---- the first part

  /** @returns false: it was ended early. */
  async #askAccounts(round: Round & Progress, how: PassOptions): Promise<boolean> {
    const { listAccounts } = this.#options
    const pages = pagesOf((after) => listAccounts(after), {
      after: round.after,
      size: accountsPerPage,
      nameOf: ({ account }) => account,
    })
    const noted = this.#everySoOften()
    for await (const { items, place } of pages) {
      await forEachAtMost(asksAtOnce, items, async ({ account }) => {
        if (!how.signal.aborted) await this.#askAccount(account, round, how)
      })
      if (how.signal.aborted) return false
      round.after = place
      await noted(round)
    }
    return !how.signal.aborted
  }

  async #askAccount(account: string, round: Round, how: PassOptions): Promise<void> {
    round.accounts++
    for (let uses: ReconcileView['next'] = { epoch: 0, row: 0, content: 0 }; uses !== undefined; ) {
      const view = await this.#ask(account, { uses, suspects: [] }, round, how)
      if (view === undefined) return
      if (uses.row === 0 && uses.content === 0) round.tiers[view.tier] = (round.tiers[view.tier] ?? 0) + 1
      round.used += view.looked
      round.missing += view.missing
      round.routes += view.routes
      round.missingRoutes += view.missingRoutes
      round.mended += view.mended
      uses = view.next
    }
  }

  // ---- the second part

  /** @returns false: it was ended early. */
  async #askReferences(round: Round & Progress, how: PassOptions): Promise<boolean> {
    const { listReferences } = this.#options
    const pages = pagesOf((after) => listReferences(after), {
      after: round.after,
      size: referencesPerPage,
      nameOf: ({ key }) => key,
    })
    const suspects = new Map<string, Buffer[]>()
    let gathered = 0
    const noted = this.#everySoOften()
    for await (const { items, place } of pages) {
      await this.#pace(how)
      for (const { key } of items) gathered += this.#gather(key, suspects, round)
      if (how.signal.aborted) return false
      if (gathered < suspectsMax) continue
      await this.#askSuspects(suspects, round, how)
      if (how.signal.aborted) return false
      gathered = 0
      round.after = place
      await noted(round)
    }
    await this.#askSuspects(suspects, round, how)
    return !how.signal.aborted
  }

  /** Keys `ref/<blob id>/<incarnation>/<account>`. @returns how many suspects it makes. */
  #gather(key: string, suspects: Map<string, Buffer[]>, round: Round): number {
    const { isOurs, log } = this.#options
    const [, id = '', incarnation = '', account = ''] = key.split('/')
    const name = Buffer.from(id + incarnation, 'hex')
    if (name.length !== nameBytes || !isUuid(account)) {
      log.warn({ key }, 'a reference names no copy or no account')
      return 0
    }
    if (!isOurs(account)) return 0
    round.references++
    const known = suspects.get(account)
    if (known === undefined) suspects.set(account, [name])
    else known.push(name)
    return 1
  }

  async #askSuspects(suspects: Map<string, Buffer[]>, round: Round, how: PassOptions): Promise<void> {
    await forEachAtMost(asksAtOnce, suspects, async ([account, names]) => {
      for (let at = 0; at < names.length && !how.signal.aborted; at += suspectsPerAsk) {
        const some = names.slice(at, at + suspectsPerAsk)
        const view = await this.#ask(account, { uses: undefined, suspects: some }, round, how)
        if (view === undefined) return
        round.orphaned += view.orphaned
        round.mended += view.mended
      }
    })
    suspects.clear()
  }

  // ---- one request

  /** @returns undefined when there is no answer: counted, and named. */
  async #ask(
    account: string,
    question: { uses: ReconcileView['next']; suspects: Buffer[] },
    round: Round,
    how: PassOptions,
  ): Promise<ReconcileView | undefined> {
    const { accounts, clock, log } = this.#options
    let fault: unknown
    for (let attempt = 0; attempt < attempts && !how.signal.aborted; attempt++) {
      await this.#pace(how)
      try {
        const result = await ask(
          { accounts, clock },
          {
            accountId: account,
            who: asSystem,
            operation: { $case: 'reconcile', value: { ...question, dryRun: round.dryRun } },
            timeoutMs: askTimeoutMs,
            signal: how.signal,
          },
        )
        const view = viewOf(result, 'reconcile')
        this.#failedInARow = 0
        return view
      } catch (error) {
        fault = error
      }
    }
    if (how.signal.aborted) return undefined
    round.failed++
    if (round.failures.length < failuresNamed && !round.failures.includes(account))
      round.failures.push(account)
    log.warn({ account, err: fault }, 'an account could not be asked for its references')
    if (++this.#failedInARow >= failedInARowMax)
      throw new Error(`${failedInARowMax} accounts in a row gave no answer`, { cause: fault })
    return undefined
  }

  async #pace({ perSecond, signal }: PassOptions): Promise<void> {
    const { clock, timers } = this.#options
    const nowMs = clock.monotonic()
    const atMs = Math.max(nowMs, this.#nextAskMs)
    this.#nextAskMs = atMs + 1000 / perSecond
    if (atMs > nowMs && !signal.aborted) await pause(timers, atMs - nowMs)
  }

  // ---- notes

  #everySoOften(): (round: Round & Progress) => Promise<void> {
    const { clock } = this.#options
    let notedMs = clock.monotonic()
    return async (round) => {
      if (round.dryRun || clock.monotonic() - notedMs < noteMs) return
      notedMs = clock.monotonic()
      await this.#write({ ...(await this.#read()), round })
    }
  }

  /** Possibly of another process: read each time. */
  async #read(): Promise<RoundState> {
    const bytes = await this.#options.notes.read()
    const notes = (bytes && notesOf(bytes)) ?? noRounds
    this.#notes = notes
    return notes
  }

  async #write({ round, ...rest }: RoundState): Promise<void> {
    this.#notes = { ...rest, round: round && { ...round } }
    await this.#options.notes.write(Buffer.from(JSON.stringify(this.#notes)))
  }
}

interface PassOptions {
  perSecond: number
  signal: AbortSignal
}

const nameBytes = blobIdBytes + incarnationBytes
const noRounds: RoundState = {
  ...{ version: 1, last: undefined, round: undefined },
  ...{ confirmedMs: undefined, confirmedScope: undefined },
}

/** For people. */
export function roundInWords({ beganMs, endedMs, losses: _, ...round }: Round) {
  return {
    began: new Date(beganMs).toISOString(),
    ended: endedMs === undefined ? null : new Date(endedMs).toISOString(),
    ...round,
  }
}

/** Notes of an unknown version count as none: a round begins. */
export function notesOf(bytes: Uint8Array): RoundState | undefined {
  const notes = JSON.parse(Buffer.from(bytes).toString()) as RoundState
  if (notes.version !== 1) return undefined
  for (const round of [notes.last, notes.round]) {
    if (round === undefined) continue
    // Rounds of earlier versions did not count these.
    round.tiers ??= {}
    round.routes ??= 0
    round.missingRoutes ??= 0
    round.losses ??= 0
  }
  return notes
}

function reportOf({ part: _, after: __, scope: ___, ...round }: Round & Progress): Round {
  return { ...round, failures: [...round.failures], tiers: { ...round.tiers } }
}

/**
 * A listing in pages, each read at once: no listing stays open while its results are processed. A
 * page does not end within items that share a place.
 */
async function* pagesOf<Item extends { place: string }>(
  list: (after: string | undefined) => AsyncIterable<Item>,
  { after, size, nameOf }: { after: string | undefined; size: number; nameOf: (item: Item) => string },
): AsyncGenerator<{ items: Item[]; place: string }> {
  /** At the place from which the list is read: it comes once more. */
  let known = new Set<string>()
  for (let from = after; ; ) {
    let items: Item[] = []
    let full = false
    for await (const item of list(from)) {
      if (item.place === from && known.has(nameOf(item))) continue
      items.push(item)
      if (items.length < size) continue
      full = item.place !== from
      if (full) break
      yield { items, place: item.place }
      items = []
    }
    const last = items.at(-1)
    if (last !== undefined) yield { items, place: last.place }
    if (!full) return
    from = last?.place
    known = new Set(items.filter(({ place }) => place === from).map(nameOf))
  }
}
