/**
 * Journals and lookups as a process reaches them: over a line that is late or cut, in a cluster
 * that refuses, loses answers, or carries out a write long after its caller gave up.
 *
 * The stores behind are the memory adapters, unordered and not exclusive, like Cassandra. Lookup
 * rows keep the latest write by the writer's own clock, like Cassandra's cells.
 */
import {
  type AcquireOptions,
  JournalFault,
  type JournalOwnership,
  type JournalRow,
  type JournalStore,
  type LookupChange,
  type LookupRow,
  type LookupStore,
  lookupKeyOf,
} from '@holdfast/journal'
import { MemoryJournalStore, MemoryLookupStore, MemoryMedium } from '@holdfast/journal/testing'
import type { Network } from './network.ts'
import type { SimProcess } from './sim-process.ts'

export interface StoreWeather {
  /** Chances, of every operation. */
  refused: number
  /** The request does not arrive. */
  lost: number
  /** The answer does not. */
  unanswered: number
  /** A write whose caller has given up before it has its effect. */
  late: number
  slow: number
}

export const calmStores: StoreWeather = { refused: 0, lost: 0, unanswered: 0, late: 0, slow: 0 }

/** A caller gives up after this. */
const timeoutMs = 2_000
const latestMs = 8_000
const rowsPerRead = 16

export interface AppendedRow {
  account: string
  epoch: number
  seq: number
  bytes: Uint8Array
  step: number
  atMs: number
}

/** An epoch of an account, and who raised it. */
export interface HeldEpoch {
  host: string
  account: string
  epoch: number
  step: number
  /** Left cleanly. */
  released: boolean
}

/** What all processes share: the stores themselves and the events observed in them. */
export class SharedStores {
  /** Where the cuts of the network find it. */
  readonly id = 'metadata'
  readonly capabilities = { ordered: false, exclusive: false }
  readonly lookups: LookupStore
  journal: JournalStore
  readonly appended: AppendedRow[] = []
  readonly held: HeldEpoch[] = []
  weather: StoreWeather = calmStores
  /** Called when a row has become durable, in the same turn. */
  onAppended: (row: AppendedRow) => void = () => {}
  /** Called when a process sends rows. @returns whether they get lost on the way */
  onRowsSent: (process: SimProcess, changes: readonly LookupChange[]) => boolean = () => false
  /** By key: the stamp of the current write, microseconds. */
  readonly #stamps = new Map<string, number>()

  constructor() {
    const medium = new MemoryMedium(this.capabilities)
    this.journal = new MemoryJournalStore(medium)
    this.lookups = new MemoryLookupStore(medium)
  }

  /** Writes what is newer than the stored value. @param writeTime instead of the writer's clock */
  async write(
    changes: readonly LookupChange[],
    { stamp, writeTime }: { stamp: number; writeTime: bigint | undefined },
  ): Promise<void> {
    if (writeTime !== undefined) return this.lookups.write(changes, writeTime)
    const younger = changes.filter((change) => stamp >= (this.#stamps.get(lookupKeyOf(change)) ?? 0))
    for (const change of younger) this.#stamps.set(lookupKeyOf(change), stamp)
    await this.lookups.write(younger)
  }
}

/** The line from one process to the stores. */
export class StoreLine {
  readonly #process: SimProcess
  readonly #network: Network
  readonly shared: SharedStores
  #stamp = 0

  constructor(process: SimProcess, network: Network, shared: SharedStores) {
    this.#process = process
    this.#network = network
    this.shared = shared
  }

  /** The time of a write by this process' clock; never the same twice. */
  stamp(): number {
    this.#stamp = Math.max(this.#stamp + 1, this.#process.now() * 1000)
    return this.#stamp
  }

  /** @param effect has its effect before it first waits for anything but memory. */
  call<T>(
    what: string,
    effect: () => Promise<T>,
    { writes, isLost = false }: { writes: boolean; isLost?: boolean },
  ): Promise<T> {
    const { scheduler, dice } = this.#process
    const { weather } = this.shared
    const fate = dice.fraction()
    const there = this.#network.fates(this.#process.id, this.shared.id).slice(0, 1)
    const { refused, lost, unanswered, late } = weather
    const within = (least: number, chance: number) => fate >= least && fate < least + chance
    const isLate = writes && within(refused + lost + unanswered, late)
    const wait = isLate
      ? dice.between(timeoutMs, latestMs)
      : dice.chance(weather.slow)
        ? dice.between(5, 800)
        : 0
    return new Promise((resolve, reject) => {
      if (within(0, refused)) {
        scheduler.note(`${this.#process.name} ${what} refused`)
        this.#process.deliver(this.#network.delay(), () =>
          reject(new JournalFault('UNAVAILABLE', `${what}: refused`)),
        )
        return
      }
      const giveUp = this.#process.after(timeoutMs, () => {
        scheduler.note(`${this.#process.name} ${what} timed out`)
        reject(new JournalFault(writes ? 'UNKNOWN' : 'UNAVAILABLE', `${what}: no answer`))
      })
      const answer = (settle: () => void) => {
        const back = this.#network.fates(this.shared.id, this.#process.id)[0]
        if (back === undefined || within(refused + lost, unanswered)) return
        this.#process.deliver(back, () => {
          giveUp()
          settle()
        })
      }
      const [delay] = there
      if (delay === undefined || isLost || within(refused, lost)) return
      // A sent message arrives, even if its sender has died.
      scheduler.after(delay + wait, () => {
        effect().then(
          (value) => answer(() => resolve(value)),
          (error: unknown) => answer(() => reject(error)),
        )
      })
    })
  }

  losesRows(changes: readonly LookupChange[]): boolean {
    return this.shared.onRowsSent(this.#process, changes)
  }

  note(line: string): number {
    return this.#process.scheduler.note(`${this.#process.name} ${line}`)
  }

  get nowMs(): number {
    return this.#process.scheduler.nowMs
  }

  get host(): string {
    return this.#process.name
  }
}

export class SimJournal implements JournalStore {
  readonly #line: StoreLine

  constructor(line: StoreLine) {
    this.#line = line
  }

  get capabilities(): JournalStore['capabilities'] {
    return this.#line.shared.capabilities
  }

  get #store(): JournalStore {
    return this.#line.shared.journal
  }

  acquire(account: string, options: AcquireOptions): Promise<JournalOwnership> {
    return this.#write(`acquire ${short(account)}`, async () => {
      const ownership = await this.#store.acquire(account, options)
      const { epoch, head } = ownership
      const step = this.#line.note(`acquired ${short(account)} epoch ${epoch} head ${head}`)
      this.#line.shared.held.push({ host: this.#line.host, account, epoch, step, released: false })
      return ownership
    })
  }

  async *rows(ownership: JournalOwnership, after: number): AsyncIterable<JournalRow> {
    const rows = this.#store.rows({ ...ownership }, after)[Symbol.asyncIterator]()
    for (let over = false; !over; ) {
      const some: JournalRow[] = []
      await this.#read(`rows ${short(ownership.account)}`, async () => {
        while (some.length < rowsPerRead && !over) {
          const { done, value } = await rows.next()
          if (done) over = true
          else some.push(value)
        }
      })
      yield* some
    }
  }

  async append(ownership: JournalOwnership, row: Uint8Array): Promise<void> {
    // As it is now: a late append arrives with the condition that it was sent with.
    const sent = { ...ownership }
    const bytes = Buffer.from(row)
    const { account } = sent
    await this.#write(`append ${short(account)}`, async () => {
      await this.#store.append(sent, bytes)
      const { epoch } = sent
      const step = this.#line.note(`appended ${short(account)} epoch ${epoch} row ${sent.head}`)
      const appended = { account, epoch, seq: sent.head, bytes, step, atMs: this.#line.nowMs }
      this.#line.shared.appended.push(appended)
      this.#line.shared.onAppended(appended)
    })
    ownership.epoch = sent.epoch
    ownership.head = sent.head
    ownership.chain = sent.chain
  }

  head(account: string): ReturnType<JournalStore['head']> {
    return this.#read(`head ${short(account)}`, () => this.#store.head(account))
  }

  putPage(account: string, name: string, bytes: Uint8Array): Promise<void> {
    const copy = Buffer.from(bytes)
    return this.#write(`page ${short(account)} ${name}`, () => this.#store.putPage(account, name, copy))
  }

  page(account: string, name: string): Promise<Uint8Array | undefined> {
    return this.#read(`read page ${short(account)} ${name}`, () => this.#store.page(account, name))
  }

  deletePages(ownership: JournalOwnership, names: readonly string[]): Promise<void> {
    return this.#write(`delete pages ${short(ownership.account)} ${names.join()}`, () =>
      this.#store.deletePages(ownership, names),
    )
  }

  async *pageNames(account: string): AsyncIterable<string> {
    yield* await this.#read(`page names ${short(account)}`, async () => {
      const names: string[] = []
      for await (const name of this.#store.pageNames(account)) names.push(name)
      return names
    })
  }

  async setRoot(ownership: JournalOwnership, options: { root: Uint8Array; through: number }): Promise<void> {
    const sent = { ...ownership }
    await this.#write(`set root ${short(ownership.account)} through ${options.through}`, async () => {
      await this.#store.setRoot(sent, options)
      this.#line.note(`root of ${short(ownership.account)} is through ${options.through}`)
    })
    ownership.root = sent.root
  }

  trim(ownership: JournalOwnership, through: number): Promise<void> {
    const sent = { ...ownership }
    return this.#write(`trim ${short(ownership.account)}`, () => this.#store.trim(sent, through))
  }

  release(ownership: JournalOwnership): Promise<void> {
    const sent = { ...ownership }
    return this.#write(`release ${short(ownership.account)}`, async () => {
      await this.#store.release(sent)
      for (const held of this.#line.shared.held)
        if (held.account === sent.account && held.epoch === sent.epoch) held.released = true
    })
  }

  #write<T>(what: string, effect: () => Promise<T>): Promise<T> {
    return this.#line.call(what, effect, { writes: true })
  }

  #read<T>(what: string, effect: () => Promise<T>): Promise<T> {
    return this.#line.call(what, effect, { writes: false })
  }
}

export class SimLookups implements LookupStore {
  readonly #line: StoreLine

  constructor(line: StoreLine) {
    this.#line = line
  }

  async write(changes: readonly LookupChange[], writeTime?: bigint): Promise<void> {
    if (changes.length === 0) return
    const copies = [...changes]
    const stamp = this.#line.stamp()
    const first = lookupKeyOf(copies[0] as LookupChange)
    await this.#line.call(
      `lookups ${first} +${copies.length - 1}`,
      () => this.#line.shared.write(copies, { stamp, writeTime }),
      { writes: true, isLost: this.#line.losesRows(copies) },
    )
  }

  get(key: string): Promise<Uint8Array | undefined> {
    return this.#read(`lookup ${key}`, () => this.#store.get(key))
  }

  async *scan(
    prefix: string,
    { after = '', limit = Number.POSITIVE_INFINITY }: { after?: string; limit?: number } = {},
  ): AsyncIterable<LookupRow> {
    let last = after
    for (let left = limit; left > 0; ) {
      const count = Math.min(left, rowsPerRead)
      const rows = await this.#read(`scan ${prefix}`, async () => {
        const some: LookupRow[] = []
        for await (const row of this.#store.scan(prefix, { after: last, limit: count })) some.push(row)
        return some
      })
      yield* rows
      if (rows.length < count) return
      left -= rows.length
      last = rows.at(-1)?.key as string
    }
  }

  firstOf(prefixes: readonly string[]): Promise<(LookupRow | undefined)[]> {
    return this.#read(`first of ${prefixes.length}`, () => this.#store.firstOf(prefixes))
  }

  claim(key: string, value: Uint8Array): Promise<Uint8Array> {
    return this.#line.call(`claim ${key}`, () => this.#store.claim(key, value), { writes: true })
  }

  take(counter: string, count: number): Promise<number> {
    return this.#line.call(`take ${counter}`, () => this.#store.take(counter, count), { writes: true })
  }

  get #store(): LookupStore {
    return this.#line.shared.lookups
  }

  #read<T>(what: string, effect: () => Promise<T>): Promise<T> {
    return this.#line.call(what, effect, { writes: false })
  }
}

function short(account: string): string {
  return account.slice(0, 4)
}
