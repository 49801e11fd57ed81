/**
 * Whether the changes that accounts acknowledged are in the second region, too.
 *
 * The stores copy everything there soon, but not after a long partition. So the host that serves an
 * account remembers since when part of it may be only here, and asks the store repeatedly to
 * compare both places and to send what is missing, the longest waiting account first. An account
 * leaves memory cleanly only when that is done. Otherwise its ownership stays unreleased and its
 * `active` row stays: it is found again after a crash, and its next activation does not assume that
 * the second region is complete.
 *
 * While the second region is unreachable no account waits for it: after a few failures in a row it
 * is not asked for a while. If only one account fails, it does not block others.
 *
 * Where a part of the journal is missing, routes of the account may be missing as well: it writes
 * all of them again, and the stores copy them.
 *
 * Cost: a request for each changed account in `freshMs`, and one when it leaves; five small
 * parallel reads.
 */
import type { JournalBackup } from '@holdfast/journal'
import type { Clock } from '@holdfast/kernel'
import type { RuntimeLog } from '../observer.ts'
import { forEachAtMost } from './semaphore.ts'

export interface ArrivalsOptions {
  /** Default: there is no second region, and everything has arrived. */
  backup: JournalBackup | undefined
  clock: Clock
  log: RuntimeLog
  /** Remembered accounts. The `active` rows lead to the others. */
  accountsMax: number
}

/** Maximum lag of the second region behind changes acknowledged here. */
export interface Lag {
  /** Accounts with data that may be only here. */
  accounts: number
  /** For how long, for the longest waiting account, ms. */
  ms: number
}

/** Recent changes are in transit, and are not checked yet. */
const freshMs = 30_000
/**
 * Accounts compared at one time: between regions a request is some 100 ms of waiting and little
 * work.
 */
const atOnce = 64
/** After this many failures in a row the second region is not asked for this long. */
const failuresMax = 3
const pauseMs = 5_000
/** An account that failed is retried after this time. */
const accountPauseMs = 30_000

interface LateAccount {
  sinceMs: number
  changedMs: number
  retryAtMs: number
}

export class Arrivals {
  readonly #options: ArrivalsOptions
  /** The longest waiting first; monotonic times. */
  readonly #behind = new Map<string, LateAccount>()
  #failures = 0
  #retryAtMs = Number.NEGATIVE_INFINITY
  #passing = false

  constructor(options: ArrivalsOptions) {
    this.#options = options
  }

  get lag(): Lag {
    const [first] = this.#behind.values()
    const ms = first === undefined ? 0 : this.#options.clock.monotonic() - first.sinceMs
    return { accounts: this.#behind.size, ms }
  }

  has(account: string): boolean {
    return this.#behind.has(account)
  }

  /** A change of the account became durable here, or may have before it was opened. */
  changed(account: string): void {
    const { backup, clock, accountsMax } = this.#options
    if (backup === undefined) return
    const changedMs = clock.monotonic()
    const known = this.#behind.get(account)
    if (known !== undefined) known.changedMs = changedMs
    else if (this.#behind.size < accountsMax)
      this.#behind.set(account, { sinceMs: changedMs, changedMs, retryAtMs: changedMs })
  }

  /** Another host serves the account. */
  forget(account: string): void {
    this.#behind.delete(account)
  }

  /**
   * Compares, and sends what is missing. Never rejects.
   * @param sendRoutes writes the routes of the account again, so that the second region gets them.
   * @returns whether everything that was durable before the call is in both places. False at once
   *   while that cannot be determined.
   */
  async confirm(account: string, sendRoutes: () => Promise<void>): Promise<boolean> {
    const { backup, clock, log } = this.#options
    if (backup === undefined) return true
    const askedMs = clock.monotonic()
    if (this.#isLeftAlone) return false
    try {
      const brought = await backup.backUp(account, sendRoutes)
      this.#failures = 0
      if (brought.rows + brought.pages > 0)
        log.info({ account, ...brought }, 'rows and pages that the second region lacked were sent there')
      const known = this.#behind.get(account)
      this.#behind.delete(account)
      // Changed meanwhile: the state of that is unknown.
      if (known !== undefined && known.changedMs >= askedMs)
        this.#behind.set(account, { sinceMs: askedMs, changedMs: known.changedMs, retryAtMs: askedMs })
      return true
    } catch (error) {
      const failedMs = clock.monotonic()
      this.#failures++
      this.#retryAtMs = failedMs + pauseMs
      const known = this.#behind.get(account)
      if (known !== undefined) known.retryAtMs = failedMs + accountPauseMs
      log.warn({ account, err: error }, 'the second region lags; sending is paused')
      return false
    }
  }

  /**
   * One pass over the waiting accounts, the longest waiting first, until the second region is not
   * asked any more.
   * @param arrived called for those that are in both places now. @param isOurs others are dropped.
   * @param sendRoutes see `confirm`.
   */
  async pass({
    isOurs,
    sendRoutes,
    arrived,
  }: {
    isOurs: (account: string) => boolean
    sendRoutes: (account: string) => Promise<void>
    arrived: (account: string) => Promise<void>
  }): Promise<void> {
    if (this.#passing) return
    this.#passing = true
    try {
      await forEachAtMost(atOnce, this.#waiting(), async (account) => {
        if (!isOurs(account)) this.forget(account)
        else if (await this.confirm(account, () => sendRoutes(account))) await arrived(account)
      })
    } finally {
      this.#passing = false
    }
  }

  *#waiting(): Generator<string> {
    const { clock } = this.#options
    const beforeMs = clock.monotonic() - freshMs
    for (const [account, { sinceMs, retryAtMs }] of [...this.#behind]) {
      if (sinceMs > beforeMs || this.#isLeftAlone) return
      if (retryAtMs <= clock.monotonic()) yield account
    }
  }

  get #isLeftAlone(): boolean {
    return this.#failures >= failuresMax && this.#options.clock.monotonic() < this.#retryAtMs
  }
}
