/** Share code → content id. A code is never given twice, so a hit is kept for long; a miss is asked again each time. */
import type { LookupStore } from '@holdfast/journal'
import { LRUCache } from 'lru-cache'

const routesMax = 50_000

export class ShareCodeRoutes {
  readonly #lookups: LookupStore
  readonly #known = new LRUCache<string, string>({ max: routesMax })

  constructor(lookups: LookupStore) {
    this.#lookups = lookups
  }

  async contentOf(code: string): Promise<string | undefined> {
    const known = this.#known.get(code)
    if (known !== undefined) return known
    const row = await this.#lookups.get(`code/${code}`)
    if (row === undefined) return undefined
    const contentId = Buffer.from(row).toString()
    this.#known.set(code, contentId)
    return contentId
  }
}
