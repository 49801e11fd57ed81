/**
 * The lookup rows of all regions as one store, seen from one region.
 *
 * Lightweight transactions of two data centres do not exclude each other, so each claimed or
 * allocated row has one region that decides: for settings the first one, for e-mail addresses the
 * one of the founders that their hash names, for placement groups their own. Share codes never
 * collide: each region takes its numbers from its own range. All other rows are written at the
 * writer's region and reach the others by replication. A route that is missing here is looked up
 * elsewhere before it is denied. References are read from all regions except those that were taken
 * over and whose accounts have since reported, elsewhere, what they use. The next tasks of a
 * region's accounts (`wake/`, `hours/`, `active/`, `hosts/`) stay with their journals: these keys
 * name the region.
 *
 * A region that cannot be reached is a fault, never an absence. When the homes of a region have
 * moved, its successor decides for it. When they are back it decides again: then the other is asked
 * first, because not all of its rows may have arrived.
 */
import { createHash } from 'node:crypto'
import {
  JournalFault,
  type LookupChange,
  type LookupRow,
  type LookupStore,
  lookupKindOf,
} from '@holdfast/journal'
import { codesPerBlock, type RegionCode, regionCodes } from '@holdfast/kernel'
import type { RegionMap } from './region-map.ts'
import type { RegionOrder } from './region-order.ts'

export interface RegionalLookupsOptions extends RegionOrder {
  region: RegionCode
  /** Each region's, from its own data centre. */
  stores: ReadonlyMap<RegionCode, LookupStore>
  /** Rows that stay with the journals of a birth region; empty in processes without accounts. */
  homes: ReadonlyMap<RegionCode, LookupStore>
}

/** Whole blocks of them. */
const codesOfRegion = Math.floor(62 ** 8 / regionCodes.length / codesPerBlock) * codesPerBlock

/**
 * Numbers of codes of each of the eight regions; region 0 begins at 0, as an embedded installation
 * does.
 */
const rangeOf = {
  codes: codesOfRegion,
  'legacy-codes': Math.floor(62 ** 6 / regionCodes.length),
} as const

/** Kinds whose rows stay with the accounts of the region that the key names. */
export const homeKinds: ReadonlySet<string> = new Set(['wake', 'hours', 'active', 'hosts'])
/** Kinds whose rows are routes: looked up everywhere before they are denied. */
const routeKinds = new Set(['code'])
/** Kinds whose rows are written once, or only rise. */
const fixedKinds = new Set(['setting'])

export class RegionalLookups implements LookupStore {
  readonly #region: RegionCode
  readonly #regions: readonly RegionCode[]
  readonly #founders: readonly RegionCode[]
  readonly #stores: ReadonlyMap<RegionCode, LookupStore>
  readonly #homes: ReadonlyMap<RegionCode, LookupStore>
  #map: Pick<RegionMap, 'homeOf' | 'keepersOf'> | undefined
  #rounds: { outlives(region: RegionCode): boolean } | undefined

  constructor({ region, regions, founders, stores, homes }: RegionalLookupsOptions) {
    this.#region = region
    this.#regions = regions
    this.#founders = founders
    this.#stores = stores
    this.#homes = homes
  }

  /**
   * Uses this map of homes from now on. For a region whose homes have moved, the successor decides
   * instead of the region, and the routes that other regions know count as complete.
   */
  useHomes(map: Pick<RegionMap, 'homeOf' | 'keepersOf'>): void {
    this.#map = map
  }

  /** Uses these rounds to see of which regions all references are also in other regions. */
  useRounds(rounds: { outlives(region: RegionCode): boolean }): void {
    this.#rounds = rounds
  }

  async write(changes: readonly LookupChange[], writeTime?: bigint): Promise<void> {
    const byStore = new Map<LookupStore, LookupChange[]>()
    for (const change of changes) {
      const store = this.#storeOf('put' in change ? change.put : change.delete)
      byStore.set(store, [...(byStore.get(store) ?? []), change])
    }
    await Promise.all([...byStore].map(([store, own]) => store.write(own, writeTime)))
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    if (fixedKinds.has(lookupKindOf(key))) return this.#getFixed(key)
    const found = (await this.#storeOf(key).get(key)) ?? (await this.#decidedMeanwhile(key))
    if (found !== undefined || !routeKinds.has(lookupKindOf(key))) return found
    for (const region of this.#others()) {
      if (this.#servingOf(region) !== region) continue
      const elsewhere = await this.#of(region).get(key)
      if (elsewhere !== undefined) return elsewhere
    }
    return undefined
  }

  /**
   * Rows that never change back may be read from the own region when the deciding one is
   * unavailable.
   */
  async #getFixed(key: string): Promise<Uint8Array | undefined> {
    try {
      return await this.#storeOf(key).get(key)
    } catch (error) {
      const here = await this.#own.get(key)
      if (here === undefined) throw error
      return here
    }
  }

  async *scan(prefix: string, options: { after?: string; limit?: number } = {}): AsyncIterable<LookupRow> {
    const kind = lookupKindOf(prefix)
    if (kind === 'ref') yield* this.#scanAll(prefix, options)
    else if (kind === 'pg') yield* this.#own.scan(prefix, options)
    else yield* this.#storeOf(prefix).scan(prefix, options)
  }

  /**
   * Rows of all regions, each once. A reader that only needs the existence gets it from the
   * nearest.
   */
  async *#scanAll(prefix: string, options: { after?: string; limit?: number }): AsyncIterable<LookupRow> {
    const seen = new Set<string>()
    for (const region of this.#referring())
      for await (const row of this.#scanIn(region, prefix, options)) {
        if (seen.has(row.key)) continue
        seen.add(row.key)
        yield row
        if (seen.size === options.limit) return
      }
  }

  /** A fault names the region: operators read why nothing is collected. */
  async *#scanIn(
    region: RegionCode,
    prefix: string,
    options: { after?: string; limit?: number },
  ): AsyncIterable<LookupRow> {
    try {
      yield* this.#of(region).scan(prefix, options)
    } catch (error) {
      throw unreadable(region, error)
    }
  }

  async #readReferences<T>(region: RegionCode, read: (store: LookupStore) => Promise<T>): Promise<T> {
    try {
      return await read(this.#of(region))
    } catch (error) {
      throw unreadable(region, error)
    }
  }

  /** The nearest region is asked first, the others for what it lacks. */
  async firstOf(prefixes: readonly string[]): Promise<(LookupRow | undefined)[]> {
    const [first] = prefixes
    if (first !== undefined && homeKinds.has(lookupKindOf(first))) {
      const home = this.#storeOf(first)
      if (prefixes.some((prefix) => this.#storeOf(prefix) !== home))
        throw new RangeError('the first rows of several homes are asked for one by one')
      return home.firstOf(prefixes)
    }
    const found: (LookupRow | undefined)[] = prefixes.map(() => undefined)
    for (const region of this.#referring()) {
      const open = prefixes.flatMap((_, at) => (found[at] === undefined ? [at] : []))
      if (open.length === 0) break
      const rows = await this.#firstIn(
        region,
        open.map((at) => prefixes[at] as string),
      )
      for (const [place, at] of open.entries()) found[at] = rows[place]
    }
    return found
  }

  #firstIn(region: RegionCode, prefixes: readonly string[]): Promise<(LookupRow | undefined)[]> {
    return this.#readReferences(region, (store) => store.firstOf(prefixes))
  }

  async claim(key: string, value: Uint8Array): Promise<Uint8Array> {
    const copy = Buffer.from(value)
    return this.#storeOf(key).claim(key, (await this.#decidedMeanwhile(key)) ?? copy)
  }

  /** Rows that were claimed elsewhere while the deciding region was taken over. */
  async #decidedMeanwhile(key: string): Promise<Uint8Array | undefined> {
    if (lookupKindOf(key) !== 'email') return undefined
    const region = this.#regionOfHash(key)
    const { serving = region, term = 1 } = this.#map?.homeOf(region) ?? {}
    if (term === 1 || serving !== region) return undefined
    const other = this.#map?.keepersOf(region).find((keeper) => keeper !== region)
    return other && this.#of(other).get(key)
  }

  /** Codes come from this region's range; any other counter is this region's alone. */
  async take(counter: string, count: number): Promise<number> {
    const own = `${counter}/${this.#region}`
    const first = await this.#own.take(own, count)
    const range = rangeOf[counter as keyof typeof rangeOf]
    if (range === undefined) return first
    if (first + count > range)
      throw new JournalFault('UNAVAILABLE', `the numbers of ${own} are used up (${range})`)
    return regionCodes.indexOf(this.#region) * range + first
  }

  get #own(): LookupStore {
    return this.#of(this.#region)
  }

  #others(): RegionCode[] {
    return this.#regions.filter((region) => region !== this.#region)
  }

  /** Where references are read. */
  #referring(): RegionCode[] {
    return [this.#region, ...this.#others().filter((region) => this.#rounds?.outlives(region) !== true)]
  }

  #of(region: RegionCode): LookupStore {
    const store = this.#stores.get(region)
    if (store === undefined) throw new JournalFault('UNAVAILABLE', `no way to the lookups of ${region}`)
    return store
  }

  #storeOf(key: string): LookupStore {
    const kind = lookupKindOf(key)
    if (homeKinds.has(kind)) return this.#homeOf(key.split('/')[1] as RegionCode)
    return this.#of(this.#deciding(kind, key))
  }

  #deciding(kind: string, key: string): RegionCode {
    if (kind === 'setting') return this.#servingOf(this.#regions[0] as RegionCode)
    if (kind === 'pg') return key.split('/')[1] as RegionCode
    return kind === 'email' ? this.#servingOf(this.#regionOfHash(key)) : this.#region
  }

  #regionOfHash(key: string): RegionCode {
    const [first = 0, second = 0] = createHash('sha256').update(key).digest()
    return this.#founders[(first * 256 + second) % this.#founders.length] as RegionCode
  }

  #servingOf(region: RegionCode): RegionCode {
    return this.#map?.homeOf(region).serving ?? region
  }

  #homeOf(region: RegionCode | undefined): LookupStore {
    const home = region && this.#homes.get(region)
    if (home === undefined)
      throw new JournalFault('UNAVAILABLE', `accounts of ${region} are not kept in ${this.#region}`)
    return home
  }
}

function unreadable(region: RegionCode, error: unknown): unknown {
  if (!(error instanceof JournalFault)) return error
  const message = `the references in ${region} cannot be read: ${error.message}`
  return new JournalFault(error.code, message, { cause: error })
}
