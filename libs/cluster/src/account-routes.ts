/** Which host an account is to be asked at: rendezvous over the ready actor hosts of the region that serves it. */
import type { AccountId, IdCodec, RegionCode } from '@holdfast/kernel'
import type { Subscription } from '@holdfast/membership'
import type { NatsMembership } from '@holdfast/membership-nats'
import { Placement } from '@holdfast/placement'
import type { RegionMap } from './region-map.ts'

export class AccountRoutes {
  readonly #membership: NatsMembership
  readonly #regions: RegionMap
  readonly #ids: IdCodec
  readonly #placements = new Map<string, Placement>()
  readonly #subscription: Subscription
  readonly #listeners: (() => void)[] = []

  constructor({
    membership,
    regions,
    ids,
  }: { membership: NatsMembership; regions: RegionMap; ids: IdCodec }) {
    this.#membership = membership
    this.#regions = regions
    this.#ids = ids
    this.#subscription = membership.onChange(() => {
      this.refresh()
      for (const listener of this.#listeners) listener()
    })
  }

  /** Undefined when no ready host is known in the region that serves the account. */
  readonly hostOf = (account: string): string | undefined => {
    const { serving } = this.#regions.homeOf(this.#ids.birthRegion(account as AccountId))
    return this.#placementOf(serving).hostOf(account)
  }

  /** The host that had the account before this one came, if it was placed elsewhere: the second in its order. */
  readonly predecessorOf = (account: string): string | undefined => {
    const { serving } = this.#regions.homeOf(this.#ids.birthRegion(account as AccountId))
    const { id } = this.#membership.self()
    return this.#placementOf(serving)
      .ranked(account, { limit: 2 })
      .find((host) => host !== id)
  }

  /**
   * A host that has a copy of the account's journal, when no ready host is known in the region that serves it; undefined while one is,
   * or nobody has.
   */
  readonly replicaHostOf = (account: string): string | undefined => {
    const birth = this.#ids.birthRegion(account as AccountId)
    const { serving } = this.#regions.homeOf(birth)
    if (this.#placementOf(serving).hostOf(account) !== undefined) return undefined
    const other = this.#regions.keepersOf(birth).find((region) => region !== serving)
    return other && this.#placementOf(other).hostOf(account)
  }

  /** Told when hosts came or went. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener)
  }

  /** To be called when one's own readiness changed, of which nobody is told. */
  refresh(): void {
    this.#placements.clear()
  }

  close(): void {
    this.#subscription.close()
  }

  #placementOf(region: RegionCode): Placement {
    const known = this.#placements.get(region)
    if (known !== undefined) return known
    const hosts = this.#membership
      .beats()
      .filter((beat) => beat.ready && beat.region === region && beat.roles.includes('actor-host'))
    const placement = new Placement(hosts.map(({ id }) => id))
    this.#placements.set(region, placement)
    return placement
  }
}
