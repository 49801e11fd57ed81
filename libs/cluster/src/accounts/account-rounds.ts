/**
 * The rounds in which all accounts are asked for their references, over all regions.
 *
 * In each region its first actor host makes the rounds, of all accounts that the region serves. The
 * result is a row `reconcile/<region>` that reaches the other regions by replication. It names the
 * accounts by birth region and term, so a round that ended before homes moved does not count for
 * the moved accounts.
 *
 * Clocks of members differ by little; a round counts as begun that much earlier. A host whose clock
 * is far off makes no rounds. For a node whose clock is far off no round counts, because it cannot
 * know whether a round began after it saw a copy without a reference.
 */
import { notesOf, type RoundState } from '@holdfast/actor-runtime'
import type { JournalAccounts, LookupStore } from '@holdfast/journal'
import type { Clock, RegionCode } from '@holdfast/kernel'
import type { RegionMap } from '../regions/region-map.ts'
import { roundsKey } from '../row-keys.ts'

export interface AccountRoundsOptions {
  regions: readonly RegionCode[]
  map: Pick<RegionMap, 'homeOf' | 'keepersOf'>
  lookups: Pick<LookupStore, 'get'>
  clock: Clock
  /** Then no round counts. */
  isClockOff: () => boolean
}

/** More than clocks of members may differ. */
const skewMs = 5_000
/** How long a result that was read is used. */
const freshMs = 10_000

export class AccountRounds {
  readonly #options: AccountRoundsOptions
  /** By serving region. */
  #states = new Map<RegionCode, RoundState>()
  #readMs = Number.NEGATIVE_INFINITY

  constructor(options: AccountRoundsOptions) {
    this.#options = options
  }

  /**
   * When the earliest of the last rounds of all regions began, Unix ms; undefined while one is
   * missing, or the local clock is off.
   * @throws JournalFault
   */
  async confirmedMs(): Promise<number | undefined> {
    if (this.#options.isClockOff()) return undefined
    await this.#refresh()
    let earliest = Number.POSITIVE_INFINITY
    for (const birth of this.#options.regions) {
      const confirmedMs = this.#confirmedMs(birth)
      if (confirmedMs === undefined) return undefined
      earliest = Math.min(earliest, confirmedMs)
    }
    return earliest - skewMs
  }

  /**
   * Whether the region no longer serves any account, and other regions have the references of every
   * account that it ever served. The answer is that of the last read.
   */
  outlives(region: RegionCode): boolean {
    const { regions, map } = this.#options
    return regions.every((birth) => {
      if (map.homeOf(birth).serving === region) return false
      return !map.keepersOf(birth).includes(region) || this.#confirmedMs(birth) !== undefined
    })
  }

  /**
   * When the last confirmed round began that covers the accounts born in this region, in the region
   * that serves them now.
   */
  #confirmedMs(birth: RegionCode): number | undefined {
    const { map } = this.#options
    const { confirmedMs, confirmedScope = '' } = this.#states.get(map.homeOf(birth).serving) ?? {}
    return confirmedScope.split(' ').includes(scopeEntry(map, birth)) ? confirmedMs : undefined
  }

  async #refresh(): Promise<void> {
    const { regions, lookups, clock } = this.#options
    if (clock.monotonic() - this.#readMs < freshMs) return
    const states = new Map<RegionCode, RoundState>()
    for (const region of regions) {
      const row = await lookups.get(roundsKey(region))
      const state = row && notesOf(row)
      if (state !== undefined) states.set(region, state)
    }
    this.#states = states
    this.#readMs = clock.monotonic()
  }
}

/** Which accounts a region serves: birth regions with the terms of their homes. */
export function scopeOf(
  region: RegionCode,
  { regions, map }: { regions: readonly RegionCode[]; map: Pick<RegionMap, 'homeOf'> },
): string {
  const served = regions.filter((birth) => map.homeOf(birth).serving === region)
  return served.map((birth) => scopeEntry(map, birth)).join(' ')
}

function scopeEntry(map: Pick<RegionMap, 'homeOf'>, birth: RegionCode): string {
  return `${birth}:${map.homeOf(birth).term}`
}

/** The accounts of several birth regions, in sequence. A cursor names its region. */
export async function* accountsOf(
  journals: ReadonlyMap<RegionCode, JournalAccounts>,
  after: string | undefined,
): AsyncGenerator<{ account: string; place: string }> {
  const [from, behind] = after?.split(' ') ?? []
  const births = [...journals.keys()].sort()
  for (const birth of births) {
    if (from !== undefined && birth < from) continue
    const start = birth === from && behind !== undefined ? { after: behind } : {}
    for await (const { account, place } of journals.get(birth)?.accounts(start) ?? [])
      yield { account, place: `${birth} ${place}` }
  }
}
