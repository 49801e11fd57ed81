/**
 * The actors of one host: those of accounts that are in memory, or on their way in or out. An actor
 * is made for each request for its account, unless the account is elsewhere.
 */
import type { AccountActor } from '../account/account-actor.ts'
import type { Services } from '../services.ts'

export class LocalActors {
  readonly #services: Pick<Services, 'clock' | 'bounds' | 'hostId'>
  readonly #hostOf: ((accountId: string) => string | undefined) | undefined
  readonly #make: (account: string) => AccountActor
  /** Least recently used first. */
  readonly #byAccount = new Map<string, AccountActor>()
  /** The host ends: nothing is begun for an account. */
  isClosing = false
  #bytes = 0
  #accounts = 0

  /** @param hostOf the placement as seen here; undefined: all accounts are ours. */
  constructor(
    services: Pick<Services, 'clock' | 'bounds' | 'hostId'>,
    {
      hostOf,
      make,
    }: {
      hostOf: ((accountId: string) => string | undefined) | undefined
      make: (account: string) => AccountActor
    },
  ) {
    this.#services = services
    this.#hostOf = hostOf
    this.#make = make
  }

  [Symbol.iterator](): Iterator<AccountActor> {
    return this.#byAccount.values()
  }

  get(account: string): AccountActor | undefined {
    return this.#byAccount.get(account)
  }

  /**
   * Estimated bytes of those in memory. Each counts as when it came in, until all are counted
   * again.
   */
  get bytes(): number {
    return this.#bytes
  }

  /** Number of those in memory. */
  get accounts(): number {
    return this.#accounts
  }

  /** It is in memory. */
  isActive(account: string): boolean {
    return this.#byAccount.get(account)?.active === true
  }

  /** Something may be begun for it here. */
  isOurs(account: string): boolean {
    return !this.isClosing && this.elsewhere(account) === undefined
  }

  /** Another host, when our own view of the placement names one. */
  elsewhere(account: string): string | undefined {
    const host = this.#hostOf?.(account)
    return host === undefined || host === this.#services.hostId ? undefined : host
  }

  of(account: string, { uses = true }: { uses?: boolean } = {}): AccountActor {
    const actor = this.#byAccount.get(account) ?? this.#make(account)
    if (uses) this.#byAccount.delete(account)
    this.#byAccount.set(account, actor)
    this.used(actor, { uses })
    return actor
  }

  used(actor: AccountActor, { uses }: { uses: boolean }): void {
    const { clock, bounds } = this.#services
    const nowMs = clock.monotonic()
    const idleMs = uses ? 0 : Math.max(0, bounds.idleMs - bounds.lookedAfterMs)
    actor.lastUsedMs = Math.max(actor.lastUsedMs, nowMs - idleMs)
  }

  /** It came into memory or left it. Actors without state are dropped. */
  changed(actor: AccountActor): void {
    const { bytes } = actor
    this.#bytes += bytes - actor.countedBytes
    this.#accounts += Number(bytes > 0) - Number(actor.countedBytes > 0)
    actor.countedBytes = bytes
    if (actor.empty && this.#byAccount.get(actor.account) === actor) this.#byAccount.delete(actor.account)
  }

  countAgain(): void {
    for (const actor of this.#byAccount.values()) this.changed(actor)
  }
}
