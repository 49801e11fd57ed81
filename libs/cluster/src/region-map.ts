/**
 * Who serves the accounts born in a region, and how often their home has moved: rows `region/<code>`. Without a row a region
 * serves its own, in term 1. The map is a hint for routing; in the partition key of journals the term is a fact, and only
 * ever rises.
 */
import type { LookupStore } from '@holdfast/journal'
import type { RegionCode } from '@holdfast/kernel'
import { RegionMapEntry } from '@holdfast/wire/cluster'

export interface Home {
  serving: RegionCode
  term: number
}

const rereadMs = 5_000

export class RegionMap {
  readonly #lookups: LookupStore
  readonly #regions: readonly RegionCode[]
  readonly #homes = new Map<RegionCode, Home>()
  readonly #timer: NodeJS.Timeout

  private constructor(
    lookups: LookupStore,
    regions: readonly RegionCode[],
    onFault: (error: unknown) => void,
  ) {
    this.#lookups = lookups
    this.#regions = regions
    this.#timer = setInterval(() => void this.refresh().catch(onFault), rereadMs)
  }

  /** @param onFault told when the rows cannot be read again: what was known stays. @throws what the lookups throw */
  static async open(
    lookups: LookupStore,
    { regions, onFault }: { regions: readonly RegionCode[]; onFault: (error: unknown) => void },
  ): Promise<RegionMap> {
    const map = new RegionMap(lookups, regions, onFault)
    try {
      await map.refresh()
    } catch (error) {
      map.close()
      throw error
    }
    return map
  }

  homeOf(birth: RegionCode): Home {
    const known = this.#homes.get(birth)
    if (known !== undefined) return known
    // No account was ever born in a region that the installation lacks: whoever asks for one is told so by the first.
    return { serving: this.#regions.includes(birth) ? birth : (this.#regions[0] as RegionCode), term: 1 }
  }

  async refresh(): Promise<void> {
    for (const region of this.#regions) {
      const row = await this.#lookups.get(`region/${region}`)
      if (row === undefined) continue
      const { serving, term } = RegionMapEntry.decode(row)
      if (term > this.homeOf(region).term) this.#homes.set(region, { serving: serving as RegionCode, term })
    }
  }

  close(): void {
    clearInterval(this.#timer)
  }
}
