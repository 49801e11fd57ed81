/**
 * The timers of the accounts of one host: reads those that are due soon from their durable rows,
 * and wakes an account when its timer is due.
 */
import type { AccountRequest } from '@holdfast/wire'
import type { Answer } from '../account/requests/pending-request.ts'
import { accountOfRow } from '../lookups/lookup-rows.ts'
import { hourOf } from '../lookups/wake-hours.ts'
import { forEachAtMost } from '../queues/semaphore.ts'
import type { Services } from '../services.ts'
import type { BackgroundWork } from './background-work.ts'
import { DueAccounts } from './due-accounts.ts'
import type { LocalActors } from './local-actors.ts'

/** The deadline of the request that fires a timer. */
const tickTimeoutMs = 30_000
/** A timer that could not be fired is retried after this. */
const tickRetrySeconds = 5
/** Timers are read this far ahead: until the next read, and the same time again. */
const lookAheadSeconds = 180
/**
 * A row that still exists this long after it was due no longer belongs to its account, or the
 * account could not be woken.
 */
const straySeconds = 180
/** Stray rows that one check removes. */
const straysAtOnceMax = 1_000
/** Timers are read again when dropped ones come this near. */
const horizonMarginSeconds = 60

export interface AccountTimersContext {
  actors: LocalActors
  background: BackgroundWork
  /** The wall clock is far from where it should be: no timer fires. */
  isClockOff: () => boolean
  /** Passes a request to its account, which decides it. */
  admit: (request: AccountRequest, answered: (answer: Answer) => void) => void
}

export class AccountTimers {
  readonly #services: Services
  readonly #actors: LocalActors
  readonly #background: BackgroundWork
  readonly #isClockOff: () => boolean
  readonly #admit: AccountTimersContext['admit']
  readonly #due: DueAccounts
  #clockWasOff = false
  #sweeping: Promise<void> | undefined

  constructor(services: Services, { actors, background, isClockOff, admit }: AccountTimersContext) {
    this.#services = services
    this.#actors = actors
    this.#background = background
    this.#isClockOff = isClockOff
    this.#admit = admit
    this.#due = new DueAccounts(services.bounds.dueAccountsMax)
  }

  /** @param due Unix seconds; undefined: it has no timer. */
  set(account: string, due: number | undefined): void {
    this.#due.set(account, due)
  }

  /** Fires due timers. Resolves when that is done; a call during another shares it. */
  sweep(): Promise<void> {
    this.#sweeping ??= this.#background
      .run('firing timers', () => this.#fireDue())
      .finally(() => {
        this.#sweeping = undefined
      })
    return this.#sweeping
  }

  async #fireDue(): Promise<void> {
    if (this.#timersRest()) return
    const nowSeconds = Math.floor(this.#services.clock.now() / 1000)
    if (this.#due.horizon <= nowSeconds + horizonMarginSeconds) await this.read()
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
      if (this.#actors.isClosing) return
      if (this.#actors.elsewhere(account) !== undefined) continue
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
    const active = this.#actors.isActive(account)
    // Still due, or unknown: the stores refused. Not again at once.
    if (!active || (due !== undefined && due <= nowSeconds))
      this.#due.set(account, nowSeconds + tickRetrySeconds)
    else this.#due.set(account, due)
  }

  /** Reads the timers of the open hours. @throws what the lookups throw. */
  async read(): Promise<void> {
    const { clock, homes, bounds, wakeHours } = this.#services
    const nowSeconds = Math.floor(clock.now() / 1000)
    const through = hourOf(nowSeconds + lookAheadSeconds)
    this.#due.resetHorizon((through + 1) * 3600)
    const strays: string[] = []
    for (const home of homes.served()) {
      for await (const { key, account, due } of wakeHours.rows(home, through)) {
        if (this.#actors.elsewhere(account) !== undefined) continue
        const actor = this.#actors.get(account)
        // An active account is more current than its row.
        if (actor?.active === true) this.#due.set(account, actor.nextDue)
        else this.#due.add(account, due)
        if (due < nowSeconds - straySeconds && strays.length < straysAtOnceMax) strays.push(key)
      }
      // A wrong clock would close hours that are not over.
      if (!this.#isClockOff()) await wakeHours.close(home)
    }
    // Their accounts were woken: they have left, or do not need these rows.
    await forEachAtMost(bounds.wakesAtOnceMax, strays, async (key) => {
      const account = accountOfRow(key)
      if (this.#actors.isOurs(account)) await this.#actors.of(account, { uses: false }).clear(key)
    })
  }
}
