/**
 * Journals in memory: tests of everything above the port run on them. Bytes are copied in and out.
 */

import { equalBytes, hex } from '@holdfast/kernel'
import { assertAccount, assertPage, assertRoot, assertRow } from './bounds.ts'
import { corruptJournal, JournalFault } from './errors.ts'
import type { JournalRemain, JournalRepair } from './journal-repair.ts'
import {
  type AcquireOptions,
  type BackupResult,
  isUnwritten,
  type JournalAccounts,
  type JournalBackup,
  type JournalOwnership,
  type JournalRow,
  type JournalStore,
  rowBehind,
  unwrittenOwnership,
} from './journal-store.ts'
import { MemoryMedium } from './memory-medium.ts'
import { firstChain, rowChecksum } from './row-checksum.ts'
import {
  type AccountEntry,
  type JournalRowEntry,
  type PageEntry,
  restoredEpochsAhead,
} from './whole-store.ts'

interface Partition {
  epoch: number
  head: number
  chain: Uint8Array
  owner: string | undefined
  root: { bytes: Uint8Array; through: number } | undefined
  rows: Map<number, StoredRow>
  pages: Map<string, Uint8Array>
}

interface StoredRow {
  epoch: number
  predecessor: Uint8Array
  bytes: Uint8Array
  checksum: Uint8Array
}

export class MemoryJournalStore implements JournalStore, JournalAccounts, JournalBackup, JournalRepair {
  readonly #medium: MemoryMedium
  readonly #partitions = new Map<string, Partition>()
  readonly #released = new WeakSet<JournalOwnership>()

  /** @param medium shared with the lookup store that belongs to it. */
  constructor(medium: MemoryMedium = new MemoryMedium()) {
    this.#medium = medium
  }

  get capabilities(): JournalStore['capabilities'] {
    return this.#medium.capabilities
  }

  async acquire(account: string, options: AcquireOptions): Promise<JournalOwnership> {
    const { owner, unwritten = 'begin', askRelease } = options
    assertAccount(account)
    const holder = this.#partitions.get(account)?.owner
    if (holder !== undefined && holder !== owner) await askRelease?.(holder)
    return this.#write('acquire', account, () => {
      if (unwritten !== 'begin' && !this.#isWritten(account)) return unwrittenOwnership(account, owner)
      const partition = this.#partition(account)
      const previousOwner = partition.owner
      partition.epoch++
      partition.owner = owner
      return {
        account,
        owner,
        epoch: partition.epoch,
        head: partition.head,
        chain: partition.chain,
        root: partition.root && copyOf(partition.root.bytes),
        previousOwner,
      }
    })
  }

  rows(ownership: JournalOwnership, after: number): AsyncIterable<JournalRow> {
    return this.#rowsThrough(ownership, { after, last: ownership.head, chain: ownership.chain })
  }

  async *#rowsThrough(
    ownership: JournalOwnership,
    { after, last, chain }: { after: number; last: number; chain: Uint8Array },
  ): AsyncGenerator<JournalRow> {
    let predecessor = after === 0 ? firstChain : undefined
    for (let seq = after + 1; seq <= last; seq++) {
      const row = await this.#read('rows', ownership.account, () => this.#rowOf(ownership, seq, predecessor))
      predecessor = row.checksum
      if (seq === last && !equalBytes(chain, row.checksum))
        throw corruptJournal(ownership.account, `row ${seq} is another one`)
      yield { seq, bytes: copyOf(row.bytes) }
    }
  }

  #rowOf(ownership: JournalOwnership, seq: number, predecessor: Uint8Array | undefined): StoredRow {
    const row = this.#partition(ownership.account).rows.get(seq)
    if (row === undefined) {
      this.#assertNewest(ownership)
      throw corruptJournal(ownership.account, `row ${seq} of ${ownership.head} is missing`)
    }
    if (predecessor !== undefined && !equalBytes(row.predecessor, predecessor)) {
      throw corruptJournal(ownership.account, `row ${seq} names another predecessor`)
    }
    const checksum = rowChecksum({ account: ownership.account, seq, ...row })
    if (!equalBytes(checksum, row.checksum))
      throw corruptJournal(ownership.account, `row ${seq} has a wrong checksum`)
    return row
  }

  async append(ownership: JournalOwnership, row: Uint8Array): Promise<void> {
    assertRow(row)
    const bytes = copyOf(row)
    const { epoch, seq, checksum } = await this.#write('append', ownership.account, () => {
      const partition = this.#held(ownership)
      const { seq, ...row } = rowBehind({ ...ownership, chain: partition.chain }, bytes)
      if (isUnwritten(ownership)) partition.owner = ownership.owner
      partition.epoch = row.epoch
      partition.rows.set(seq, row)
      partition.head = seq
      partition.chain = row.checksum
      return { seq, ...row }
    })
    ownership.epoch = epoch
    ownership.head = seq
    ownership.chain = checksum
  }

  async head(account: string): Promise<{ epoch: number; head: number; chain: Uint8Array }> {
    return this.#read('head', account, () => {
      const { epoch, head, chain } = this.#partition(account)
      return { epoch, head, chain }
    })
  }

  async putPage(account: string, name: string, bytes: Uint8Array): Promise<void> {
    assertAccount(account)
    assertPage(name, bytes)
    const page = copyOf(bytes)
    await this.#write('putPage', account, () => {
      const { pages } = this.#partition(account)
      const there = pages.get(name)
      if (there !== undefined && !equalBytes(there, page)) {
        throw corruptJournal(account, `page ${name} is there with other bytes`)
      }
      pages.set(name, page)
    })
  }

  async page(account: string, name: string): Promise<Uint8Array | undefined> {
    return this.#read('page', account, () => {
      const page = this.#partition(account).pages.get(name)
      return page && copyOf(page)
    })
  }

  async deletePages({ account }: JournalOwnership, names: readonly string[]): Promise<void> {
    await this.#write('deletePages', account, () => {
      for (const name of names) this.#partition(account).pages.delete(name)
    })
  }

  /** As a second place that has everything at once; faults of `backUp` make it unreachable. */
  async backUp(account: string, _onLacking: () => Promise<void>): Promise<BackupResult> {
    return this.#read('backUp', account, () => ({ rows: 0, pages: 0 }))
  }

  async *pageNames(account: string): AsyncIterable<string> {
    yield* await this.#read('pageNames', account, () => [...this.#partition(account).pages.keys()].sort())
  }

  async setRoot(
    ownership: JournalOwnership,
    { root, through }: { root: Uint8Array; through: number },
  ): Promise<void> {
    assertRoot(root)
    const bytes = copyOf(root)
    await this.#write('setRoot', ownership.account, () => {
      const partition = this.#heldEpoch(ownership)
      if (isUnwritten(ownership)) throw new JournalFault('FENCED', `${ownership.account} was never written`)
      const least = partition.root?.through ?? 0
      if (through < least || through > partition.head) {
        throw new RangeError(`the root names row ${through}; allowed: ${least} to ${partition.head}`)
      }
      partition.root = { bytes, through }
    })
    ownership.root = copyOf(bytes)
  }

  async trim(ownership: JournalOwnership, through: number): Promise<void> {
    await this.#write('trim', ownership.account, () => {
      const { root, rows } = this.#partition(ownership.account)
      if (through > (root?.through ?? 0)) {
        throw new RangeError(`rows through ${through} are not all behind the root's ${root?.through ?? 0}`)
      }
      for (const seq of rows.keys()) if (seq <= through) rows.delete(seq)
    })
  }

  async release(ownership: JournalOwnership): Promise<void> {
    if (isUnwritten(ownership)) {
      this.#released.add(ownership)
      return
    }
    await this.#write('release', ownership.account, () => {
      this.#heldEpoch(ownership).owner = undefined
      this.#released.add(ownership)
    })
  }

  async *accounts({ after = '' }: { after?: string } = {}) {
    const known = [...this.#partitions].filter(([, { epoch }]) => epoch > 0).map(([account]) => account)
    for (const account of known.sort()) if (account > after) yield { account, place: account }
  }

  async *remains(account: string): AsyncIterable<JournalRemain> {
    const { head, chain, root, rows, pages } = this.#partition(account)
    if (rows.size === 0 && pages.size === 0 && head === 0) return
    const stored = Buffer.from(JSON.stringify({ head, chain: hex(chain) }))
    yield { kind: 'statics', stored, statics: { head, chain }, lastRow: head }
    if (root !== undefined) yield { kind: 'root', stored: root.bytes, bytes: copyOf(root.bytes) }
    for (const [seq, row] of [...rows].sort(([one], [other]) => one - other)) {
      const whole = equalBytes(rowChecksum({ account, seq, ...row }), row.checksum)
      const damage = whole ? undefined : `row ${seq} has a wrong checksum`
      yield { kind: 'row', seq, stored: row.bytes, damage, row: whole ? row : undefined }
    }
    for (const [name, bytes] of [...pages].sort()) yield { kind: 'page', name, stored: bytes, bytes }
  }

  async *copiesOfPage(account: string, name: string): AsyncIterable<Uint8Array> {
    const page = await this.page(account, name)
    if (page !== undefined) yield page
  }

  async seize(account: string, { owner, aboveEpoch }: { owner: string; aboveEpoch: number }) {
    return this.#write('acquire', account, () => {
      const partition = this.#partition(account)
      const { rows, root } = partition
      const rowEpochs = [...rows.values()].map(({ epoch }) => epoch)
      const last = Math.max(partition.head, ...rows.keys())
      const previousOwner = partition.owner
      partition.epoch = Math.max(partition.epoch, aboveEpoch, ...rowEpochs) + 1
      partition.owner = owner
      partition.chain = rows.get(last)?.checksum ?? partition.chain
      partition.head = last
      const { epoch, head, chain } = partition
      return { account, owner, epoch, head, chain, root: root && copyOf(root.bytes), previousOwner }
    })
  }

  /** Test seam: changes a stored page behind the store's back. False when it does not exist. */
  damagePage(account: string, name: string, change: (page: Uint8Array) => Uint8Array | undefined): boolean {
    const { pages } = this.#partition(account)
    const page = pages.get(name)
    if (page === undefined) return false
    const changed = change(page)
    if (changed === undefined) pages.delete(name)
    else pages.set(name, changed)
    return true
  }

  /** Test seam: changes a stored row behind the store's back. False when it does not exist. */
  damage(account: string, seq: number, change: (row: StoredRow) => StoredRow | undefined): boolean {
    const { rows } = this.#partition(account)
    const row = rows.get(seq)
    if (row === undefined) return false
    const changed = change(row)
    if (changed === undefined) rows.delete(seq)
    else rows.set(seq, changed)
    return true
  }

  /** See `WholeStore`: each account as it is when it is reached. */
  *entries(onDamaged: (fault: JournalFault) => void): Generator<AccountEntry | JournalRowEntry | PageEntry> {
    const written = [...this.#partitions].filter(([, { epoch }]) => epoch > 0).map(([account]) => account)
    for (const account of written) {
      const { epoch, head, chain, root, rows, pages } = this.#partition(account)
      const entries: (JournalRowEntry | PageEntry)[] = []
      for (const [name, bytes] of pages) entries.push({ kind: 'page', account, name, bytes })
      for (let seq = (root?.through ?? 0) + 1; seq <= head; seq++) {
        const row = rows.get(seq)
        if (row === undefined) onDamaged(corruptJournal(account, `row ${seq} of ${head} is missing`))
        else entries.push({ kind: 'row', account, seq, ...row })
      }
      const begun = { kind: 'account' as const, account, epoch }
      yield { ...begun, head: 0, chain: firstChain, root: undefined, through: 0 }
      yield* entries
      yield { ...begun, head, chain, root: root?.bytes, through: root?.through ?? 0 }
    }
  }

  /** See `EntryWriter`. */
  putEntry(entry: AccountEntry | JournalRowEntry | PageEntry): void {
    const partition = this.#partition(entry.account)
    if (entry.kind === 'page') partition.pages.set(entry.name, copyOf(entry.bytes))
    else if (entry.kind === 'row') {
      const { epoch, predecessor, bytes, checksum } = entry
      partition.rows.set(entry.seq, { epoch, predecessor, bytes: copyOf(bytes), checksum })
    } else {
      const { epoch, head, chain, root, through } = entry
      const bytes = root && copyOf(root)
      const stored = { head, chain, owner: undefined, root: bytes && { bytes, through } }
      Object.assign(partition, stored, { epoch: epoch + restoredEpochsAhead })
    }
  }

  #held(ownership: JournalOwnership): Partition {
    const partition = this.#heldEpoch(ownership)
    if (partition.head === ownership.head) return partition
    throw new JournalFault(
      'FENCED',
      `${ownership.account} is at row ${partition.head}, not at the ownership's ${ownership.head}`,
    )
  }

  #heldEpoch(ownership: JournalOwnership): Partition {
    this.#assertNewest(ownership)
    if (!this.#released.has(ownership)) return this.#partition(ownership.account)
    throw new JournalFault('FENCED', `the ownership of ${ownership.account} was released`)
  }

  #assertNewest(ownership: JournalOwnership): void {
    const { epoch } = this.#partition(ownership.account)
    if (epoch === ownership.epoch) return
    throw new JournalFault(
      'FENCED',
      `${ownership.account} is in epoch ${epoch}, not in the ownership's ${ownership.epoch}`,
    )
  }

  #isWritten(account: string): boolean {
    return (this.#partitions.get(account)?.epoch ?? 0) > 0
  }

  #partition(account: string): Partition {
    const known = this.#partitions.get(account)
    if (known !== undefined) return known
    const fresh: Partition = {
      epoch: 0,
      head: 0,
      chain: firstChain,
      owner: undefined,
      root: undefined,
      rows: new Map(),
      pages: new Map(),
    }
    this.#partitions.set(account, fresh)
    return fresh
  }

  #write<T>(
    operation: 'acquire' | 'append' | 'putPage' | 'deletePages' | 'setRoot' | 'trim' | 'release',
    account: string,
    effect: () => T,
  ) {
    return this.#medium.run(operation, account, effect, { writes: true })
  }

  #read<T>(operation: 'rows' | 'head' | 'page' | 'pageNames' | 'backUp', account: string, effect: () => T) {
    return this.#medium.run(operation, account, effect, { writes: false })
  }
}

function copyOf(bytes: Uint8Array): Uint8Array {
  return Buffer.from(bytes)
}
