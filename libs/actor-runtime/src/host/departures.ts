/**
 * Accounts that leave memory: those without requests, and while memory is short those that were
 * used longest ago.
 *
 * A look at all of them, once a second, is too late where clients make a thousand accounts in
 * that time, and accounts leave more slowly than they are made. So while memory is short an account
 * comes in when another one has left, as long as one may leave.
 */
import type { AccountActor } from '../account/account-actor.ts'
import type { Services } from '../services.ts'
import type { LocalActors } from './local-actors.ts'

/**
 * For an account that comes in, only those leave that were not used for this long. One large
 * account must not make all others leave and return with each request.
 */
const restedMs = 250

export class Departures {
  readonly #services: Pick<Services, 'clock' | 'bounds'>
  readonly #actors: LocalActors
  /** Accounts that are to leave, as the last look chose them. The last element leaves first. */
  #leaving: AccountActor[] = []
  #lookedMs = 0
  #passivating = 0
  /** Accounts on their way in. */
  readonly #arriving: (() => void)[] = []

  constructor(services: Pick<Services, 'clock' | 'bounds'>, actors: LocalActors) {
    this.#services = services
    this.#actors = actors
  }

  /** Chooses those that are to leave. @returns what is in memory before they do */
  look(): { accounts: number; bytes: number } {
    const { clock, bounds } = this.#services
    const nowMs = clock.monotonic()
    this.#actors.countAgain()
    const { accounts, bytes } = this.#actors
    let [accountsLeft, bytesLeft] = [accounts, bytes]
    this.#leaving = []
    for (const actor of this.#actors) {
      const crowded = bytesLeft > bounds.memoryBytesMax || accountsLeft > bounds.activeAccountsMax
      const idle = nowMs - actor.lastUsedMs >= bounds.idleMs && !actor.effectsBusy
      const leaves =
        crowded || idle || actor.isUnwritten || this.#actors.elsewhere(actor.account) !== undefined
      if (!leaves || !actor.quiet) continue
      bytesLeft -= actor.bytes
      accountsLeft--
      this.#leaving.push(actor)
    }
    this.#lookedMs = nowMs
    this.#leaving.reverse()
    this.#passivateNext()
    return { accounts, bytes }
  }

  /**
   * Resolves when the memory has room for one more account, or no account may leave. Few wait: as
   * many as may be read at one time.
   */
  async room(): Promise<void> {
    while (this.#isCrowded && this.#makesRoom())
      await new Promise<void>((resolve) => this.#arriving.push(resolve))
  }

  /** An account came in or left, or accounts do not leave any more. */
  changed(): void {
    if (!this.#isCrowded || this.#passivating === 0) for (const arrive of this.#arriving.splice(0)) arrive()
    else this.#arriving.shift()?.()
  }

  get #isCrowded(): boolean {
    const { bounds } = this.#services
    return this.#actors.bytes > bounds.memoryBytesMax || this.#actors.accounts > bounds.activeAccountsMax
  }

  /** @returns whether an account is leaving */
  #makesRoom(): boolean {
    const { clock, bounds } = this.#services
    const rested = clock.monotonic() - restedMs
    for (const actor of this.#actors) {
      if (this.#passivating >= bounds.passivationsAtOnceMax || this.#actors.isClosing) break
      if (actor.lastUsedMs > rested) break
      if (actor.quiet) void this.#passivate(actor)
    }
    return this.#passivating > 0
  }

  /**
   * As many as may leave at one time; the others follow as those have left. A fixed number in each
   * look would be less than the accounts that clients make meanwhile.
   */
  #passivateNext(): void {
    const { bounds } = this.#services
    while (this.#passivating < bounds.passivationsAtOnceMax && !this.#actors.isClosing) {
      const actor = this.#leaving.pop()
      if (actor === undefined) return
      if (actor.quiet && actor.lastUsedMs <= this.#lookedMs) void this.#passivate(actor)
    }
  }

  async #passivate(actor: AccountActor): Promise<void> {
    this.#passivating++
    try {
      await actor.passivate()
    } finally {
      this.#passivating--
      this.#passivateNext()
      this.changed()
    }
  }
}
