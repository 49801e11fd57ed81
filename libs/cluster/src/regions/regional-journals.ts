/**
 * The journals of several birth regions as one store: each account's are in the keyspace of the
 * region it was born in.
 */
import {
  type AcquireOptions,
  type BackupResult,
  firstChain,
  type JournalBackup,
  JournalFault,
  type JournalOwnership,
  type JournalRemain,
  type JournalRepair,
  type JournalRow,
  type JournalStore,
  unwrittenOwnership,
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
   * @param options.isServed whether this region serves the accounts born in the given one. If not,
   *   all operations on them are fenced. Default: it serves them.
   * @param options.fresh makes the answers of `isServed` current; awaited before they are used for
   *   a decision. Default: they are always current.
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

  async acquire(account: string, options: AcquireOptions): Promise<JournalOwnership> {
    if (options.unwritten === 'leave' && this.#isUnborn(account))
      return unwrittenOwnership(account, options.owner)
    await this.#fresh()
    return this.#of(account).acquire(account, options)
  }

  rows(ownership: JournalOwnership, after: number): AsyncIterable<JournalRow> {
    return this.#of(ownership.account).rows(ownership, after)
  }

  async append(ownership: JournalOwnership, row: Uint8Array): Promise<void> {
    const bytes = Buffer.from(row)
    await this.#fresh()
    return this.#of(ownership.account).append(ownership, bytes)
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

  async deletePages(ownership: JournalOwnership, names: readonly string[]): Promise<void> {
    return this.#of(ownership.account).deletePages(ownership, names)
  }

  pageNames(account: string): AsyncIterable<string> {
    return this.#of(account).pageNames(account)
  }

  async setRoot(ownership: JournalOwnership, options: { root: Uint8Array; through: number }): Promise<void> {
    return this.#of(ownership.account).setRoot(ownership, options)
  }

  async trim(ownership: JournalOwnership, through: number): Promise<void> {
    return this.#of(ownership.account).trim(ownership, through)
  }

  async release(ownership: JournalOwnership): Promise<void> {
    return this.#of(ownership.account).release(ownership)
  }

  async *remains(account: string): AsyncIterable<JournalRemain> {
    await this.#fresh()
    yield* this.#of(account).remains(account)
  }

  copiesOfPage(account: string, name: string): AsyncIterable<Uint8Array> {
    return this.#of(account).copiesOfPage(account, name)
  }

  async seize(account: string, options: { owner: string; aboveEpoch: number }): Promise<JournalOwnership> {
    await this.#fresh()
    return this.#of(account).seize(account, options)
  }

  async backUp(account: string, onLacking: () => Promise<void>): Promise<BackupResult> {
    await this.#fresh()
    return this.#of(account).backUp(account, onLacking)
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
