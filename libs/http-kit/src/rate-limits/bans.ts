/**
 * Networks that are banned for a while because they exceeded limits repeatedly. Each ban of the
 * same network lasts twice as long as the one before.
 *
 * The list is data (`active`, `take`), so that frontends can exchange it. Bounded: when it is full,
 * the ban that ends first is dropped.
 */
export interface Ban {
  /** As `networkOf` writes it. */
  network: string
  /** Unix milliseconds. */
  untilMs: number
  /** Number of consecutive bans, 1 for the first. */
  times: number
}

const banSeconds = 60
const banSecondsMax = 24 * 60 * 60
const bansMax = 50_000

export class Bans {
  readonly #byNetwork = new Map<string, Ban>()

  /** Milliseconds this network is still banned for; 0: it is not. */
  remainingMs(network: string, nowMs: number): number {
    const ban = this.#byNetwork.get(network)
    return ban === undefined ? 0 : Math.max(0, ban.untilMs - nowMs)
  }

  add(network: string, nowMs: number): Ban {
    const times = (this.#byNetwork.get(network)?.times ?? 0) + 1
    const seconds = Math.min(banSeconds * 2 ** Math.min(times - 1, 16), banSecondsMax)
    const ban = { network, untilMs: nowMs + seconds * 1000, times }
    this.take([ban], nowMs)
    return ban
  }

  lift(network: string): boolean {
    return this.#byNetwork.delete(network)
  }

  active(nowMs: number): Ban[] {
    return [...this.#byNetwork.values()].filter(({ untilMs }) => untilMs > nowMs)
  }

  /** Merges bans of another frontend: for one network the later end wins. */
  take(bans: readonly Ban[], nowMs: number) {
    for (const ban of bans) {
      const known = this.#byNetwork.get(ban.network)
      if (known !== undefined && known.untilMs >= ban.untilMs) continue
      if (known === undefined && this.#byNetwork.size >= bansMax) this.#makeRoom(nowMs)
      this.#byNetwork.set(ban.network, ban)
    }
  }

  /**
   * Drops bans that ended more than the longest ban ago; if there are none, the one that ends
   * first.
   */
  #makeRoom(nowMs: number) {
    let first: Ban | undefined
    for (const ban of this.#byNetwork.values()) {
      if (ban.untilMs + banSecondsMax * 1000 < nowMs) this.#byNetwork.delete(ban.network)
      else if (first === undefined || ban.untilMs < first.untilMs) first = ban
    }
    if (this.#byNetwork.size >= bansMax && first !== undefined) this.#byNetwork.delete(first.network)
  }
}
