/**
 * Accounts with faults, and how long a host does not open them, so that one of them costs the
 * others nothing.
 */
import type { Clock, Randomness } from '@holdfast/kernel'
import { LRUCache } from 'lru-cache'
import type { RuntimeBounds } from '../../bounds.ts'

/** An account in quarantine, and why. */
export interface QuarantinedAccount {
  account: string
  /** The fault of the last attempt. */
  reason: string
  /** Unix seconds. */
  since: number
  /** Number of attempts. */
  tries: number
}

interface FaultState {
  bugs: number
  faults: number
  fencedAtMs: number[]
  /** Monotonic; requests are refused until then. */
  refusedUntilMs: number
  /** Monotonic; activations wait until then. */
  pausedUntilMs: number
  /** From the first quarantine until the account was read, or left cleanly. */
  quarantine: { reason: string; since: number; tries: number; unreadable: boolean } | undefined
}

const takeoverWindowMs = 60_000

export class FaultBackoff {
  readonly #clock: Clock
  readonly #randomness: Randomness
  readonly #bounds: RuntimeBounds
  readonly #byAccount: LRUCache<string, FaultState>
  readonly #quarantined = new Set<string>()

  constructor({
    clock,
    randomness,
    bounds,
  }: { clock: Clock; randomness: Randomness; bounds: RuntimeBounds }) {
    this.#clock = clock
    this.#randomness = randomness
    this.#bounds = bounds
    this.#byAccount = new LRUCache({
      max: bounds.failingAccountsMax,
      dispose: (_, account, why) => {
        if (why !== 'set') this.#quarantined.delete(account)
      },
    })
  }

  /** Requests are refused as unavailable for now. */
  refused(account: string): boolean {
    return (this.#byAccount.get(account)?.refusedUntilMs ?? 0) > this.#clock.monotonic()
  }

  isQuarantined(account: string): boolean {
    return this.#quarantined.has(account)
  }

  /** Milliseconds an activation must wait. */
  pauseMs(account: string): number {
    return Math.max(0, (this.#byAccount.get(account)?.pausedUntilMs ?? 0) - this.#clock.monotonic())
  }

  /** Another host took the account: return after a jittered pause, and not too often. */
  fenced(account: string): void {
    const state = this.#of(account)
    const nowMs = this.#clock.monotonic()
    state.pausedUntilMs = nowMs + this.#bounds.fencedPauseMs * (1 + this.#randomness.fraction())
    state.fencedAtMs = [...state.fencedAtMs.filter((atMs) => atMs > nowMs - takeoverWindowMs), nowMs]
    if (state.fencedAtMs.length < this.#bounds.takeoversPerMinuteMax) return
    state.refusedUntilMs = nowMs + takeoverWindowMs / 6
    state.fencedAtMs = []
  }

  /** Another host took the account in the last minute: so the account is there. */
  wasFenced(account: string): boolean {
    const sinceMs = this.#clock.monotonic() - takeoverWindowMs
    return this.#byAccount.get(account)?.fencedAtMs.some((atMs) => atMs > sinceMs) ?? false
  }

  /**
   * A decision failed by a bug. A few are tolerated, so that others' requests to the account do not
   * suffer from one.
   */
  bug(account: string): void {
    const state = this.#of(account)
    if (++state.bugs < this.#bounds.bugsBeforeQuarantine) return
    const reason = `${state.bugs} decisions or changes failed: see the log`
    this.#quarantine(account, state, { reason, unreadable: false })
  }

  /**
   * The account could not be read: damage, or a bug while reading. @returns how long it is not
   * opened, ms.
   */
  damaged(account: string, reason: string): number {
    return this.#quarantine(account, this.#of(account), { reason, unreadable: true })
  }

  /** The account could be read. */
  read(account: string): void {
    if (this.#byAccount.get(account)?.quarantine?.unreadable) this.recovered(account)
  }

  /** The account was read and left cleanly: its faults are cleared. */
  recovered(account: string): void {
    const state = this.#byAccount.get(account)
    if (state === undefined) return
    state.bugs = 0
    state.faults = 0
    state.quarantine = undefined
    this.#quarantined.delete(account)
  }

  /** Retried at once. */
  forget(account: string): void {
    this.#byAccount.delete(account)
  }

  /** Oldest first. */
  quarantined(): QuarantinedAccount[] {
    return [...this.#quarantined].flatMap((account) => {
      const quarantine = this.#byAccount.peek(account)?.quarantine
      if (quarantine === undefined) return []
      const { reason, since, tries } = quarantine
      return [{ account, reason, since, tries }]
    })
  }

  get quarantinedCount(): number {
    return this.#quarantined.size
  }

  #quarantine(
    account: string,
    state: FaultState,
    { reason, unreadable }: { reason: string; unreadable: boolean },
  ): number {
    const { quarantineFirstMs, quarantineMaxMs } = this.#bounds
    const { since = Math.floor(this.#clock.now() / 1000), tries = 0 } = state.quarantine ?? {}
    state.quarantine = { reason, since, tries: tries + 1, unreadable }
    this.#quarantined.add(account)
    const ms = Math.min(quarantineMaxMs, quarantineFirstMs * 2 ** Math.min(state.faults++, 30))
    state.refusedUntilMs = this.#clock.monotonic() + ms
    return ms
  }

  #of(account: string): FaultState {
    const fresh = {
      ...{ bugs: 0, faults: 0, fencedAtMs: [], refusedUntilMs: 0, pausedUntilMs: 0 },
      quarantine: undefined,
    }
    const state = this.#byAccount.get(account) ?? fresh
    this.#byAccount.set(account, state)
    return state
  }
}
