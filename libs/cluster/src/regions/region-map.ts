/**
 * Which region serves the accounts born in a region, and how often their home has moved: rows
 * `region/<code>/<term>`, each claimed once and never changed. Without a row a region serves its
 * own, in term 1. For routing the map is a hint. The partition key of journals has the term,
 * which only ever rises.
 *
 * Every region keeps all rows, and they are read from all that answer: a region that was taken over
 * learns it from any other. The region and the one that also keeps its journals take turns, so the
 * term's number shows which one serves it. The row is claimed there first, so no two rows of one
 * term ever differ.
 */
import { JournalFault, type LookupStore } from '@holdfast/journal'
import type { Clock, RegionCode } from '@holdfast/kernel'
import { RegionMapEntry } from '@holdfast/wire/cluster'
import { handedOverKey, homeKey, homesPrefix } from '../row-keys.ts'
import { backupOf, copyOrder, homeRegions, type RegionOrder } from './region-order.ts'

export interface Home {
  serving: RegionCode
  term: number
  /**
   * The region of the previous term is alive, and is asked for every account that was not opened
   * yet.
   */
  handedOver: boolean
}

export interface RegionMapOptions extends RegionOrder {
  region: RegionCode
  /** Each region's rows, from its own data centre. */
  stores: ReadonlyMap<RegionCode, LookupStore>
  clock: Clock
  /** Called when this region's rows cannot be read: the known ones stay. */
  onFault: (error: unknown) => void
}

interface MoveOptions {
  to?: RegionCode | undefined
  handedOver?: boolean
}

const rereadMs = 5_000
/** An older read, for instance because the process was paused, is repeated before it is used. */
const freshMs = 15_000

export class RegionMap {
  readonly #options: RegionMapOptions
  readonly #homes = new Map<RegionCode, Home>()
  readonly #answered = new Set<RegionCode>()
  readonly #timer: NodeJS.Timeout
  #lookedMs = Number.NEGATIVE_INFINITY
  #looking: Promise<void> | undefined

  private constructor(options: RegionMapOptions) {
    this.#options = options
    this.#timer = setInterval(() => void this.refresh().catch(options.onFault), rereadMs)
  }

  /** @throws what this region's lookups throw. */
  static async open(options: RegionMapOptions): Promise<RegionMap> {
    const map = new RegionMap(options)
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
    const { regions } = this.#options
    // An unknown birth region means that the account does not exist. The first region answers that.
    const serving = regions.includes(birth) ? birth : (regions[0] as RegionCode)
    return { serving, term: 1, handedOver: false }
  }

  /** All regions, and those with which the installation was made. */
  get order(): RegionOrder {
    return this.#options
  }

  /** This region, then those that may hold further copies of its files. */
  get copyOrder(): RegionCode[] {
    return copyOrder(this.#options, this.#options.region)
  }

  /** The regions that keep the journals of accounts born in this one. */
  keepersOf(birth: RegionCode): RegionCode[] {
    return homeRegions(this.#options, birth)
  }

  /** Its homes have moved: another region now makes its decisions. */
  isGivenUp(region: RegionCode): boolean {
    return this.homeOf(region).serving !== region
  }

  /**
   * Whether this region may still consider itself in charge: another region answered recently, or
   * there is no other. While this is false, a host that starts may acknowledge nothing.
   */
  get heardElsewhere(): boolean {
    const { region, regions } = this.#options
    return regions.every((other) => other === region || this.isGivenUp(other)) || this.#answered.size > 0
  }

  /** This region, and those whose rows could be read the last time. */
  get answering(): RegionCode[] {
    const { region } = this.#options
    return [region, ...this.#answered]
  }

  /**
   * Resolves when the map was read recently: nothing may be acknowledged under an older one.
   * Regions that do not answer are left out, so a region that is cut off continues.
   */
  async fresh(): Promise<void> {
    if (this.#options.clock.monotonic() - this.#lookedMs > freshMs)
      await this.refresh().catch(this.#options.onFault)
  }

  /**
   * Reads the rows of every region that answers; a call during another shares it. @throws what this
   * region's lookups throw
   */
  refresh(): Promise<void> {
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined
    })
    return this.#looking
  }

  async #look(): Promise<void> {
    const { region, regions, clock } = this.#options
    const beganMs = clock.monotonic()
    await Promise.all(
      regions
        .filter((other) => other !== region)
        .map((other) =>
          this.#read(other).then(
            () => this.#answered.add(other),
            () => this.#answered.delete(other),
          ),
        ),
    )
    this.#lookedMs = beganMs
    await this.#read(region)
  }

  /**
   * Moves the homes of a region to the one that also keeps its journals, or back. Safe to repeat.
   * @param options.to default: the one that also keeps its journals. @param options.handedOver the
   *   region that serves them is alive.
   * @returns the current home, and the regions that have the row.
   * @throws JournalFault `UNAVAILABLE` when the successor cannot take it; RangeError when there is
   *   none.
   */
  async moveHome(
    birth: RegionCode,
    { to = backupOf(this.#options, birth), handedOver = false }: MoveOptions = {},
  ): Promise<{ home: Home; heard: RegionCode[] }> {
    if (to === undefined) throw new RangeError(`no other region keeps the journals of ${birth}`)
    await this.refresh()
    const known = this.homeOf(birth)
    if (known.serving === to) return this.#claim(birth, known, homeKey(birth, known))
    const home = { serving: to, term: known.term + 1, handedOver }
    return this.#claim(birth, home as Home, homeKey(birth, home))
  }

  /** Everything was handed over: the old region is not asked any more. */
  async endHandover(birth: RegionCode): Promise<Home> {
    const { serving, term } = this.homeOf(birth)
    const home = { serving, term, handedOver: false }
    return (await this.#claim(birth, home, handedOverKey(birth, home))).home
  }

  /** Claims the row in the region that serves. The other regions get the row that it has then. */
  async #claim(birth: RegionCode, wanted: Home, key: string): Promise<{ home: Home; heard: RegionCode[] }> {
    const { regions, stores } = this.#options
    const heard = [wanted.serving]
    const written = RegionMapEntry.encode({ region: birth, ...wanted }).finish()
    const row = (await stores.get(wanted.serving)?.claim(key, written)) ?? written
    await Promise.all(
      regions
        .filter((region) => region !== wanted.serving)
        .map(async (region) => {
          try {
            await stores.get(region)?.claim(key, row)
            heard.push(region)
          } catch {
            // The region learns it from any other one.
          }
        }),
    )
    this.#learn(birth, homeOfRow(row))
    return { home: this.homeOf(birth), heard: regions.filter((region) => heard.includes(region)) }
  }

  close(): void {
    clearInterval(this.#timer)
  }

  async #read(region: RegionCode): Promise<void> {
    const { regions, stores } = this.#options
    const store = stores.get(region)
    if (store === undefined) throw new JournalFault('UNAVAILABLE', `no way to the lookups of ${region}`)
    for (const birth of regions)
      for await (const { value } of store.scan(homesPrefix(birth))) this.#learn(birth, homeOfRow(value))
  }

  #learn(birth: RegionCode, home: Home): void {
    const known = this.homeOf(birth)
    const ended = home.term === known.term && known.handedOver && !home.handedOver
    if (home.term > known.term || ended) this.#homes.set(birth, home)
  }
}

function homeOfRow(row: Uint8Array): Home {
  const { serving, term, handedOver } = RegionMapEntry.decode(row)
  return { serving: serving as RegionCode, term, handedOver }
}
