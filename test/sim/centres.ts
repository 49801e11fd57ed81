/**
 * Journals in two data centres, like Cassandra's: conditions are decided within the caller's
 * centre, each written cell reaches the other one later, and where both were written the later
 * stamp wins. A batch is not atomic on its way.
 *
 * The partition key holds the home term. A successor opens the partition of its term from what it
 * has of the one before, cut at the first gap, and nothing that arrives later for an older term
 * affects it.
 */
import { createHash } from 'node:crypto'
import { JournalFault, type JournalOwnership, type JournalRow, type JournalStore } from '@holdfast/journal'
import type { Dice } from './random.ts'
import type { Scheduler } from './scheduler.ts'

interface Cell {
  value: unknown
  stamp: number
}

type Cells = Map<string, Cell>

interface Row {
  bytes: Uint8Array
  chain: Buffer
}

const none = Buffer.alloc(32)

export class Centre implements JournalStore {
  readonly capabilities = { ordered: false, exclusive: false }
  readonly #scheduler: Scheduler
  readonly #dice: Dice
  readonly #keyOf: (account: string, term: number) => string
  readonly #partitions = new Map<string, Cells>()
  /** Cells that wait for the line. */
  readonly #hints: (() => void)[] = []
  #other: Centre | undefined
  #connected = true
  /** The home term as this centre knows it. */
  term = 1
  /** By account: the last row that was taken over from the previous term. */
  readonly cuts = new Map<string, number>()

  /** @param keyOf of partitions; a planted fault omits the term. */
  constructor(scheduler: Scheduler, dice: Dice, keyOf: (account: string, term: number) => string) {
    this.#scheduler = scheduler
    this.#dice = dice
    this.#keyOf = keyOf
  }

  replicateTo(other: Centre): void {
    this.#other = other
  }

  set connected(connected: boolean) {
    this.#connected = connected
    if (connected) for (const send of this.#hints.splice(0)) send()
  }

  async acquire(account: string, { owner }: { owner: string }): Promise<JournalOwnership> {
    const cells = this.#cells(account)
    const epoch = ((valueIn(cells, 'epoch') as number | undefined) ?? 0) + 1
    const previousOwner = valueIn(cells, 'owner') as string | undefined
    this.#write(account, { epoch, owner })
    const { head, chain } = await this.head(account)
    return { account, owner, epoch, head, chain, root: undefined, previousOwner }
  }

  async *rows(ownership: JournalOwnership, after: number): AsyncIterable<JournalRow> {
    const cells = this.#cells(ownership.account)
    let chain: Uint8Array =
      after === 0 ? none : ((valueIn(cells, `row ${after}`) as Row | undefined)?.chain ?? none)
    for (let seq = after + 1; seq <= ownership.head; seq++) {
      const row = valueIn(cells, `row ${seq}`) as Row | undefined
      if (row === undefined || Buffer.compare(row.chain, chained(chain, row.bytes)) !== 0)
        throw new JournalFault('CORRUPT', `row ${seq} of ${ownership.account} is missing or another one`)
      chain = row.chain
      yield { seq, bytes: Buffer.from(row.bytes) }
    }
    if (Buffer.compare(chain, ownership.chain) !== 0)
      throw new JournalFault('CORRUPT', `the rows of ${ownership.account} end elsewhere`)
  }

  async append(ownership: JournalOwnership, bytes: Uint8Array): Promise<void> {
    const now = await this.head(ownership.account)
    if (now.epoch !== ownership.epoch || now.head !== ownership.head)
      throw new JournalFault('FENCED', `${ownership.account} is at epoch ${now.epoch}, row ${now.head}`)
    const chain = chained(ownership.chain, bytes)
    this.#write(ownership.account, {
      head: ownership.head + 1,
      chain,
      [`row ${ownership.head + 1}`]: { bytes, chain },
    })
    ownership.head++
    ownership.chain = chain
  }

  async head(account: string): Promise<{ epoch: number; head: number; chain: Uint8Array }> {
    const cells = this.#cells(account)
    return {
      epoch: (valueIn(cells, 'epoch') as number | undefined) ?? 0,
      head: (valueIn(cells, 'head') as number | undefined) ?? 0,
      chain: (valueIn(cells, 'chain') as Uint8Array | undefined) ?? none,
    }
  }

  async release(ownership: JournalOwnership): Promise<void> {
    const { epoch } = await this.head(ownership.account)
    if (epoch !== ownership.epoch)
      throw new JournalFault('FENCED', `${ownership.account} is at epoch ${epoch}`)
    this.#write(ownership.account, { owner: undefined })
  }

  // Accounts stay so small here that no checkpoint is made.
  async putPage(): Promise<void> {
    throw new Error('not simulated')
  }

  async page(): Promise<undefined> {}
  async deletePages(): Promise<void> {}
  async *pageNames(): AsyncIterable<string> {}
  async trim(): Promise<void> {}

  async setRoot(): Promise<void> {
    throw new Error('not simulated')
  }

  /** What was taken over: whole rows up to the first gap of the previous term. */
  #open(account: string): void {
    const before = this.#partition(this.#keyOf(account, this.term - 1))
    const taken: Record<string, unknown> = {}
    let chain: Uint8Array = none
    let head = 0
    for (;;) {
      const row = valueIn(before, `row ${head + 1}`) as Row | undefined
      if (row === undefined || Buffer.compare(row.chain, chained(chain, row.bytes)) !== 0) break
      head++
      chain = row.chain
      taken[`row ${head}`] = row
    }
    this.cuts.set(account, head)
    this.#scheduler.note(`term ${this.term} of ${account.slice(0, 4)} begins behind row ${head}`)
    this.#write(account, { ...taken, head, chain })
  }

  #write(account: string, values: Record<string, unknown>): void {
    const key = this.#keyOf(account, this.term)
    const stamp = this.#scheduler.nowMs
    for (const [name, value] of Object.entries(values)) {
      const cell = { value, stamp }
      put(this.#partition(key), name, cell)
      const arrive = () => put((this.#other as Centre).#partition(key), name, cell)
      const send = () => void this.#scheduler.after(this.#dice.between(40, 400), arrive)
      if (this.#connected) send()
      else this.#hints.push(send)
    }
  }

  /** The first request opens it, even if it only asks whether the account exists. */
  #cells(account: string): Cells {
    if (this.term > 1 && !this.cuts.has(account)) this.#open(account)
    return this.#partition(this.#keyOf(account, this.term))
  }

  #partition(key: string): Cells {
    const known = this.#partitions.get(key) ?? new Map()
    this.#partitions.set(key, known)
    return known
  }
}

function put(cells: Cells, name: string, cell: Cell): void {
  if ((cells.get(name)?.stamp ?? 0) <= cell.stamp) cells.set(name, cell)
}

function valueIn(cells: Cells, name: string): unknown {
  return cells.get(name)?.value
}

function chained(predecessor: Uint8Array, bytes: Uint8Array): Buffer {
  return createHash('sha256').update(predecessor).update(bytes).digest()
}
