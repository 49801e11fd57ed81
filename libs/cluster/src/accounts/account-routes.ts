/**
 * Which host to ask for an account: rendezvous over the ready actor hosts of the region that serves
 * it.
 */
import type { AccountId, Clock, IdCodec, RegionCode, Subscription } from '@holdfast/kernel'
import type { NatsMembership } from '@holdfast/membership-nats'
import { Placement } from '@holdfast/placement'
import type { RegionMap } from '../regions/region-map.ts'

export interface AccountRoutesOptions {
  membership: Pick<NatsMembership, 'beats' | 'self' | 'onChange'>
  regions: Pick<RegionMap, 'homeOf' | 'keepersOf'>
  ids: Pick<IdCodec, 'birthRegion'>
  clock: Clock
  /**
   * How long copies answer for a lost region: they do not see changes made there meanwhile. 0:
   * never.
   */
  replicaReadsMs: number
}

export class AccountRoutes {
  readonly #membership: AccountRoutesOptions['membership']
  readonly #regions: AccountRoutesOptions['regions']
  readonly #ids: AccountRoutesOptions['ids']
  readonly #clock: Clock
  readonly #replicaReadsMs: number
  /** Since when a region has no known ready host, monotonic; for regions that were asked for. */
  readonly #lostSinceMs = new Map<string, number>()
  readonly #placements = new Map<string, Placement>()
  /** Regions whose hosts were looked up. */
  readonly #seen = new Set<RegionCode>()
  readonly #subscription: Subscription
  readonly #listeners: (() => void)[] = []

  constructor({ membership, regions, ids, clock, replicaReadsMs }: AccountRoutesOptions) {
    this.#membership = membership
    this.#regions = regions
    this.#ids = ids
    this.#clock = clock
    this.#replicaReadsMs = replicaReadsMs
    this.#subscription = membership.onChange(() => {
      this.refresh()
      // A loss counts from when it is noticed, not from the first download.
      for (const region of this.#seen) this.#placementOf(region)
      for (const listener of this.#listeners) listener()
    })
  }

  /** Undefined when the region that serves the account has no known ready host. */
  readonly hostOf = (account: string): string | undefined => {
    const { serving } = this.#regions.homeOf(this.#ids.birthRegion(account as AccountId))
    return this.#placementOf(serving).hostOf(account)
  }

  /**
   * The host that had the account before this one came, if it was placed elsewhere: the second in
   * its ranking.
   */
  readonly predecessorOf = (account: string): string | undefined => {
    const { serving } = this.#regions.homeOf(this.#ids.birthRegion(account as AccountId))
    const { id } = this.#membership.self()
    return this.#placementOf(serving)
      .ranked(account, { limit: 2 })
      .find((host) => host !== id)
  }

  /**
   * A host with a copy of the account's journal, when the region that serves it has no known ready
   * host. Undefined while it has one, when no host has a copy, or when the region was lost too long
   * ago.
   */
  readonly replicaHostOf = (account: string): string | undefined => {
    const birth = this.#ids.birthRegion(account as AccountId)
    const { serving } = this.#regions.homeOf(birth)
    if (this.#placementOf(serving).hostOf(account) !== undefined) return undefined
    if (this.#lostMs(serving) >= this.#replicaReadsMs) return undefined
    const other = this.#regions.keepersOf(birth).find((region) => region !== serving)
    return other && this.#placementOf(other).hostOf(account)
  }

  /** Called when hosts came or went. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener)
  }

  /** Call it when the local readiness changed, which membership does not report. */
  refresh(): void {
    this.#placements.clear()
  }

  close(): void {
    this.#subscription.close()
  }

  /** How long the region has had no known ready host, as far as this process has observed it. */
  #lostMs(region: RegionCode): number {
    const nowMs = this.#clock.monotonic()
    const sinceMs = this.#lostSinceMs.get(region) ?? nowMs
    this.#lostSinceMs.set(region, sinceMs)
    return nowMs - sinceMs
  }

  #placementOf(region: RegionCode): Placement {
    this.#seen.add(region)
    const known = this.#placements.get(region)
    if (known !== undefined) return known
    const hosts = this.#membership
      .beats()
      .filter((beat) => beat.ready && beat.region === region && beat.roles.includes('actor-host'))
    const placement = new Placement(hosts.map(({ id }) => id))
    if (hosts.length > 0) this.#lostSinceMs.delete(region)
    else this.#lostMs(region)
    this.#placements.set(region, placement)
    return placement
  }
}
