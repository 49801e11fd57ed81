/**
 * The journals of several birth regions as one store: each account's are in the keyspace of the
 * region it was born in.
 */
import {
  type AcquireOptions,
  type Brought,
  firstChain,
  type JournalBackup,
  JournalFault,
  type JournalHold,
  type JournalRemain,
  type JournalRepair,
  type JournalRow,
  type JournalStore,
  unwrittenHold,
} from '@holdfast/journal'
import type { AccountId, IdCodec, RegionCode } from '@holdfast/kernel'

type KeptJournals = JournalStore & JournalRepair & JournalBackup

export class RegionalJournals implements KeptJournals {
  readonly capabilities = { ordered: false, exclusive: false }
  readonly #stores: ReadonlyMap<RegionCode, KeptJournals>
  readonly #regions: readonly RegionCode[]
  readonly #ids: Pick<IdCodec, 'birthRegion'>
  readonly #isServed: (birth: RegionCode) => boolean
  readonly #fresh: () => Promise<void>

  /**
   * @param options.regions all of the installation: in no other was an account ever born.
   * @param options.isServed whether this region serves the accounts born there: otherwise
   *   everything is fenced. Default: it does.
   * @param options.fresh awaited before that is used for a decision. Default: it is always known.
   */
  constructor(
    stores: ReadonlyMap<RegionCode, KeptJournals>,
    {
      regions,
      ids,
      isServed = () => true,
      fresh = async () => {},
    }: {
      regions: readonly RegionCode[]
      ids: Pick<IdCodec, 'birthRegion'>
      isServed?: (birth: RegionCode) => boolean
      fresh?: () => Promise<void>
    },
  ) {
    this.#stores = stores
    this.#regions = regions
    this.#ids = ids
    this.#isServed = isServed
    this.#fresh = fresh
  }

  async acquire(account: string, options: AcquireOptions): Promise<JournalHold> {
    if (options.unwritten === 'leave' && this.#isUnborn(account)) return unwrittenHold(account, options.owner)
    await this.#fresh()
    return this.#of(account).acquire(account, options)
  }

  rows(hold: JournalHold, after: number): AsyncIterable<JournalRow> {
    return this.#of(hold.account).rows(hold, after)
  }

  async append(hold: JournalHold, row: Uint8Array): Promise<void> {
    const bytes = Buffer.from(row)
    await this.#fresh()
    return this.#of(hold.account).append(hold, bytes)
  }

  async head(account: string): ReturnType<JournalStore['head']> {
    if (this.#isUnborn(account)) return { epoch: 0, head: 0, chain: firstChain }
    await this.#fresh()
    return this.#of(account).head(account)
  }

  async putPage(account: string, name: string, bytes: Uint8Array): Promise<void> {
    return this.#of(account).putPage(account, name, bytes)
  }

  async page(account: string, name: string): Promise<Uint8Array | undefined> {
    return this.#of(account).page(account, name)
  }

  async deletePages(hold: JournalHold, names: readonly string[]): Promise<void> {
    return this.#of(hold.account).deletePages(hold, names)
  }

  pageNames(account: string): AsyncIterable<string> {
    return this.#of(account).pageNames(account)
  }

  async setRoot(hold: JournalHold, options: { root: Uint8Array; through: number }): Promise<void> {
    return this.#of(hold.account).setRoot(hold, options)
  }

  async trim(hold: JournalHold, through: number): Promise<void> {
    return this.#of(hold.account).trim(hold, through)
  }

  async release(hold: JournalHold): Promise<void> {
    return this.#of(hold.account).release(hold)
  }

  async *remains(account: string): AsyncIterable<JournalRemain> {
    await this.#fresh()
    yield* this.#of(account).remains(account)
  }

  copiesOfPage(account: string, name: string): AsyncIterable<Uint8Array> {
    return this.#of(account).copiesOfPage(account, name)
  }

  async seize(account: string, options: { owner: string; aboveEpoch: number }): Promise<JournalHold> {
    await this.#fresh()
    return this.#of(account).seize(account, options)
  }

  async backUp(account: string): Promise<Brought> {
    await this.#fresh()
    return this.#of(account).backUp(account)
  }

  /** In no region of this installation. */
  #isUnborn(account: string): boolean {
    return !this.#regions.includes(this.#ids.birthRegion(account as AccountId))
  }

  #of(account: string): KeptJournals {
    const region = this.#ids.birthRegion(account as AccountId)
    const store = this.#stores.get(region)
    if (store === undefined)
      throw new JournalFault('UNAVAILABLE', `the journals of ${region} are not kept here`)
    if (!this.#isServed(region))
      throw new JournalFault('FENCED', `the accounts of ${region} are served elsewhere`)
    return store
  }
}
