/**
 * The accounts' journals in LevelDB: fenced by rows in memory, written by the group writer,
 * verified by the chain when read.
 */

import {
  type AcquireOptions,
  assertAccount,
  assertPage,
  assertRoot,
  assertRow,
  corruptJournal,
  firstChain,
  isUnwritten,
  type JournalAccounts,
  JournalFault,
  type JournalOwnership,
  type JournalRemain,
  type JournalRepair,
  type JournalRow,
  type JournalStore,
  rowBehind,
  unwrittenOwnership,
} from '@holdfast/journal'
import { equalBytes } from '@holdfast/kernel'
import { leap } from './damage/loss.ts'
import type { Rows } from './opening/rows.ts'
import {
  decodeFixed,
  decodeNamed,
  decodeRow,
  encodeFixed,
  encodeNamed,
  encodeRow,
  type JournalStatics,
  keys,
  maxOwnerBytes,
  namedDigest,
  neverWritten,
} from './rows/format.ts'
import type { LostRanges } from './rows/lost-ranges.ts'
import type { Suspicions } from './writing/commit-audit.ts'
import type { GroupWriter, RowChange, WritePlace } from './writing/group-writer.ts'
import { type Cell, UncommittedRows } from './writing/uncommitted-rows.ts'

/** Rows removed by one write, so that a long trim does not delay the next batch. */
const trimSliceRows = 1_000

/** The result of a decision, and the write it queued. */
interface WriteDecision<R> {
  result: R
  written: Promise<void> | undefined
}

export class LevelJournals implements JournalStore, JournalAccounts, JournalRepair {
  readonly capabilities = { ordered: true, exclusive: true }
  readonly #rows: Rows
  readonly #writer: GroupWriter
  readonly #cells: UncommittedRows<JournalStatics>
  readonly #suspicions: Suspicions
  readonly #lostRanges: LostRanges
  readonly #released = new WeakSet<JournalOwnership>()

  constructor(parts: {
    rows: Rows
    writer: GroupWriter
    suspicions: Suspicions
    lostRanges: LostRanges
    cachedAccounts: number
  }) {
    this.#rows = parts.rows
    this.#writer = parts.writer
    this.#suspicions = parts.suspicions
    this.#lostRanges = parts.lostRanges
    const load = (account: string) => this.#load(account, parts.suspicions)
    this.#cells = new UncommittedRows(load, { max: parts.cachedAccounts })
  }

  /** Rows in memory are read again. */
  forget(): void {
    this.#cells.forget()
  }

  /** No earlier host is asked to release an account: this process alone has the store. */
  async acquire(account: string, { owner, unwritten = 'begin' }: AcquireOptions): Promise<JournalOwnership> {
    assertAccount(account)
    if (Buffer.byteLength(owner) > maxOwnerBytes)
      throw new RangeError(`an owner is at most ${maxOwnerBytes} bytes`)
    const before = await this.#decide<JournalStatics>(account, (cell, place) => {
      const { value } = cell
      // `presume` says that the id is new: an account with a new id cannot be lost.
      if (isUnwritten(value) && unwritten !== 'presume') this.#assertNotLost(account)
      if (isUnwritten(value) && unwritten !== 'begin') return { result: value, written: undefined }
      return { result: value, written: this.#change(place, account, cell, { epoch: value.epoch + 1, owner }) }
    })
    if (isUnwritten(before) && unwritten !== 'begin') return unwrittenOwnership(account, owner)
    const ownership = { account, owner, epoch: before.epoch + 1, head: before.head, chain: before.chain }
    try {
      await this.#assertLastRow(account, before)
      return { ...ownership, root: await this.#root(account, before), previousOwner: before.owner }
    } catch (fault) {
      await this.#assertNewest(ownership)
      throw fault
    }
  }

  /** The last row exists and is the one that the static columns name. */
  async #assertLastRow(account: string, { head, chain, trimmed }: JournalStatics): Promise<void> {
    if (head === trimmed) return
    const stored = await this.#rows.get(keys.row(account, head))
    if (stored === undefined) throw corruptJournal(account, `row ${head}, the last one, is missing`)
    const { checksum } = decodeRow(account, stored, { seq: head })
    if (!equalBytes(checksum, chain))
      throw corruptJournal(account, `row ${head} is not the last one that was written`)
  }

  async #root(account: string, { root }: JournalStatics): Promise<Uint8Array | undefined> {
    if (root === undefined) return undefined
    const stored = await this.#rows.get(keys.root(account))
    if (stored === undefined) throw corruptJournal(account, 'the root is missing')
    const bytes = decodeNamed(account, '', stored)
    if (!namedDigest(account, '', bytes).equals(root.digest))
      throw corruptJournal(account, 'the root is another one')
    return bytes
  }

  rows(ownership: JournalOwnership, after: number): AsyncIterable<JournalRow> {
    return this.#rowsThrough(ownership, { after, last: ownership.head, chain: ownership.chain })
  }

  async *#rowsThrough(
    ownership: JournalOwnership,
    { after, last, chain }: { after: number; last: number; chain: Uint8Array },
  ): AsyncGenerator<JournalRow> {
    const { account } = ownership
    let seq = after
    let predecessor: Uint8Array | undefined = after === 0 ? firstChain : undefined
    const range = { gt: keys.row(account, after), lte: keys.row(account, last) }
    for await (const [key, stored] of this.#rows.scan(range)) {
      if (!equalBytes(key, keys.row(account, seq + 1))) break
      seq++
      const row = decodeRow(account, stored, { seq })
      if (predecessor !== undefined && !equalBytes(predecessor, row.predecessor)) {
        throw corruptJournal(account, `row ${seq} names another predecessor`)
      }
      predecessor = row.checksum
      if (seq === last && !equalBytes(row.checksum, chain)) {
        throw corruptJournal(account, `row ${seq} is not the last one that was written`)
      }
      yield { seq, bytes: row.bytes }
      if (seq === last) return
    }
    if (after >= last) return
    await this.#assertNewest(ownership)
    throw corruptJournal(account, `a gap behind row ${seq} of ${last}`)
  }

  async append(ownership: JournalOwnership, row: Uint8Array): Promise<void> {
    assertRow(row)
    const { account } = ownership
    const moved = await this.#decide(account, (cell, place) => {
      const { head, chain, owner } = this.#assertHeld(ownership, cell.value)
      if (head !== ownership.head) {
        throw new JournalFault(
          'FENCED',
          `${account} is at row ${head}, not at the ownership's ${ownership.head}`,
        )
      }
      const next = rowBehind({ ...ownership, chain }, row)
      const result = { epoch: next.epoch, head: next.seq, chain: next.checksum }
      const put: RowChange = { type: 'put', key: keys.row(account, next.seq), value: encodeRow(next) }
      const statics = { ...result, owner: isUnwritten(ownership) ? ownership.owner : owner }
      return { result, written: this.#change(place, account, cell, statics, [put]) }
    })
    Object.assign(ownership, moved)
  }

  async head(account: string): Promise<{ epoch: number; head: number; chain: Uint8Array }> {
    assertAccount(account)
    await this.#writer.flushed()
    return this.#cells.decide(account, ({ value }) => {
      if (isUnwritten(value)) this.#assertNotLost(account)
      const { epoch, head, chain } = value
      return { epoch, head, chain }
    })
  }

  async putPage(account: string, name: string, bytes: Uint8Array): Promise<void> {
    assertAccount(account)
    assertPage(name, bytes)
    const key = keys.page(account, name)
    const value = encodeNamed(account, name, bytes)
    await this.#writer.write([{ type: 'put', key, value }])
  }

  async page(account: string, name: string): Promise<Uint8Array | undefined> {
    const stored = await this.#rows.get(keys.page(account, name))
    return stored && decodeNamed(account, name, stored)
  }

  async deletePages({ account }: JournalOwnership, names: readonly string[]): Promise<void> {
    if (names.length === 0) return
    await this.#writer.write(names.map((name) => ({ type: 'del', key: keys.page(account, name) })))
  }

  async *pageNames(account: string): AsyncIterable<string> {
    assertAccount(account)
    for await (const [key] of this.#rows.scan(keys.pages(account))) yield keys.pageOf(account, key)
  }

  async setRoot(
    ownership: JournalOwnership,
    { root, through }: { root: Uint8Array; through: number },
  ): Promise<void> {
    assertRoot(root)
    const { account } = ownership
    const bytes = Buffer.from(root)
    const value = encodeNamed(account, '', bytes)
    if (isUnwritten(ownership)) throw new JournalFault('FENCED', `${account} was never written`)
    await this.#decide(account, (cell, place) => {
      const fixed = this.#assertHeld(ownership, cell.value)
      const least = fixed.root?.through ?? 0
      if (through < least || through > fixed.head) {
        throw new RangeError(`a root through row ${through} of ${fixed.head}, the last one ${least}`)
      }
      const digest = namedDigest(account, '', bytes)
      const put: RowChange = { type: 'put', key: keys.root(account), value }
      const written = this.#change(place, account, cell, { root: { through, digest } }, [put])
      return { result: undefined, written }
    })
    ownership.root = bytes
  }

  async trim(ownership: JournalOwnership, through: number): Promise<void> {
    let more = true
    while (more) {
      more = await this.#decide(ownership.account, (cell, place) =>
        this.#trimSlice(ownership.account, { cell, place, through }),
      )
    }
  }

  #trimSlice(
    account: string,
    { cell, place, through }: { cell: Cell<JournalStatics>; place: WritePlace; through: number },
  ): WriteDecision<boolean> {
    const { root, trimmed } = cell.value
    if (through > (root?.through ?? 0)) {
      throw new RangeError(`rows through ${through} are not all behind the root's ${root?.through ?? 0}`)
    }
    const last = Math.min(through, trimmed + trimSliceRows)
    if (last <= trimmed) return { result: false, written: undefined }
    const deletes = Array.from(
      { length: last - trimmed },
      (_, at): RowChange => ({ type: 'del', key: keys.row(account, trimmed + 1 + at) }),
    )
    const written = this.#change(place, account, cell, { trimmed: last }, deletes)
    return { result: last < through, written }
  }

  async release(ownership: JournalOwnership): Promise<void> {
    const { account } = ownership
    if (isUnwritten(ownership)) {
      this.#released.add(ownership)
      return
    }
    await this.#decide(account, (cell, place) => {
      this.#assertHeld(ownership, cell.value)
      const written = this.#change(place, account, cell, { owner: undefined })
      this.#released.add(ownership)
      return { result: undefined, written }
    })
  }

  /** One short iteration per account: the rows in between are skipped. */
  async *accounts({ after }: { after?: string } = {}) {
    let range = after === undefined ? keys.journals : keys.journalsBehind(after)
    for (;;) {
      let account: string | undefined
      for await (const [key] of this.#rows.scan(range, { limit: 1 })) account = keys.accountOf(key)
      if (account === undefined) return
      yield { account, place: account }
      range = keys.journalsBehind(account)
    }
  }

  async *remains(account: string): AsyncIterable<JournalRemain> {
    assertAccount(account)
    // After a failed write nothing is on its way, and what is stored can still be read.
    if (this.#writer.failure === undefined) await this.#writer.flushed()
    const fixed = await this.#rows.get(keys.fixed(account))
    const root = await this.#rows.get(keys.root(account))
    const statics = this.#staticsRemain(account, fixed)
    let isThere = fixed !== undefined || statics.lastRow > 0
    for await (const _ of this.#rows.scan(keys.everythingOf(account), { limit: 1 })) isThere = true
    if (!isThere && !this.#lostRanges.touches(keys.everythingOf(account))) return
    yield statics
    if (root !== undefined) {
      const { value, damage } = read(() => decodeNamed(account, '', root))
      yield { kind: 'root', stored: root, damage, bytes: value }
    }
    const rows = { gt: keys.row(account, 0), lt: keys.rowsEnd(account) }
    for await (const [key, stored] of this.#rows.scan(rows)) {
      const seq = keys.seqOf(key)
      const { value, damage } = read(() => decodeRow(account, stored, { seq }))
      yield { kind: 'row', seq, stored, damage, row: value }
    }
    for await (const [key, stored] of this.#rows.scan(keys.pages(account))) {
      const name = keys.pageOf(account, key)
      const { value, damage } = read(() => decodeNamed(account, name, stored))
      yield { kind: 'page', name, stored, damage, bytes: value }
    }
  }

  #staticsRemain(
    account: string,
    fixed: Uint8Array | undefined,
  ): Extract<JournalRemain, { kind: 'statics' }> {
    const stored = fixed ?? new Uint8Array()
    const { value, damage } = read(() => {
      if (fixed === undefined) throw corruptJournal(account, 'the static row is missing')
      return decodeFixed(account, fixed)
    })
    const seen = this.#suspicions.newest(`j${account}`)
    const head = value?.head ?? 0
    const isBehind = seen !== undefined && (seen.number > head || seen.epoch > (value?.epoch ?? 0))
    const lost = isBehind
      ? `journal of ${account}: row ${seen.number} of epoch ${seen.epoch} was written, row ${head} is the last`
      : undefined
    const lastRow = Math.max(head, seen?.number ?? 0)
    return { kind: 'statics', stored, damage: damage ?? lost, statics: value, lastRow }
  }

  async *copiesOfPage(account: string, name: string): AsyncIterable<Uint8Array> {
    const stored = await this.#rows.get(keys.page(account, name))
    const page = stored && read(() => decodeNamed(account, name, stored)).value
    if (page !== undefined) yield page
  }

  async seize(
    account: string,
    { owner, aboveEpoch }: { owner: string; aboveEpoch: number },
  ): Promise<JournalOwnership> {
    assertAccount(account)
    await this.#writer.flushed()
    const known = this.#cells.known(account)
    const found = known === undefined || isUnwritten(known) ? await this.#whatIsLeft(account) : known
    const fixed = { ...found, epoch: Math.max(found.epoch, aboveEpoch) }
    const ownership = await this.#writer.inOrder(async (place) => {
      const { before, written } = this.#cells.decideFrom(account, fixed, (cell) => {
        const { value } = cell
        const change = { ...fixed, epoch: Math.max(value.epoch, fixed.epoch) + 1, owner }
        return { before: change, written: this.#change(place, account, cell, change) }
      })
      await written
      return before
    })
    const { epoch, head, chain } = ownership
    return { account, owner, epoch, head, chain, root: undefined, previousOwner: found.owner }
  }

  /** The static columns, judged by the rows, the commit audit and themselves. */
  async #whatIsLeft(account: string): Promise<JournalStatics> {
    let fixed: JournalStatics | undefined
    let first: number | undefined
    let last: { seq: number; checksum: Uint8Array | undefined } | undefined
    const seen = this.#suspicions.newest(`j${account}`)
    let epoch = seen?.epoch ?? (this.#lostRanges.touches(keys.everythingOf(account)) ? leap : 0)
    for await (const remain of this.remains(account)) {
      if (remain.kind === 'statics' && remain.statics !== undefined)
        fixed = decodeFixed(account, remain.stored)
      if (remain.kind !== 'row') continue
      first ??= remain.seq
      last = { seq: remain.seq, checksum: remain.row?.checksum }
      if (remain.row !== undefined) epoch = Math.max(epoch, decodeRow(account, remain.stored, remain).epoch)
    }
    fixed ??= { ...neverWritten, trimmed: (first ?? 1) - 1 }
    const head = Math.max(fixed.head, last?.seq ?? 0, seen?.number ?? 0)
    const chain = last?.seq === head ? last.checksum : undefined
    return { ...fixed, epoch: Math.max(fixed.epoch, epoch), head, chain: chain ?? fixed.chain }
  }

  /**
   * Decides at the next place in the order of all writes, and waits until the decision is durable.
   */
  #decide<R>(
    account: string,
    decision: (cell: Cell<JournalStatics>, place: WritePlace) => WriteDecision<R>,
  ): Promise<R> {
    return this.#writer.inOrder(async (place) => {
      const { result, written } = await this.#cells.decide(account, (cell) => decision(cell, place))
      await written
      return result
    })
  }

  /**
   * Queues the new static row with everything that belongs to it, and updates the row in memory in
   * the same step.
   */
  #change(
    place: WritePlace,
    account: string,
    cell: Cell<JournalStatics>,
    fixed: Partial<JournalStatics>,
    more: RowChange[] = [],
  ): Promise<void> {
    const value = { ...cell.value, ...fixed }
    const put: RowChange = { type: 'put', key: keys.fixed(account), value: encodeFixed(account, value) }
    const note = { subject: `j${account}`, epoch: value.epoch, number: value.head }
    return cell.change(value, place.write([...more, put], note))
  }

  async #load(account: string, suspicions: Suspicions): Promise<JournalStatics> {
    const stored = await this.#rows.get(keys.fixed(account))
    const fixed = stored === undefined ? neverWritten : decodeFixed(account, stored)
    const behind = { gt: keys.row(account, fixed.head), lt: keys.rowsEnd(account) }
    for await (const _ of this.#rows.scan(behind, { limit: 1 })) {
      throw corruptJournal(account, `rows lie behind row ${fixed.head}, the last one by the static row`)
    }
    if (stored === undefined && (await this.#rows.get(keys.root(account))) !== undefined) {
      throw corruptJournal(account, 'the static row is missing')
    }
    const seen = suspicions.newest(`j${account}`)
    if (seen !== undefined && (seen.epoch > fixed.epoch || seen.number > fixed.head)) {
      throw corruptJournal(
        account,
        `row ${seen.number} of epoch ${seen.epoch} was written, row ${fixed.head} is the last`,
      )
    }
    return fixed
  }

  /** That an account without rows was never written. */
  #assertNotLost(account: string): void {
    if (this.#lostRanges.touches(keys.everythingOf(account)))
      throw corruptJournal(account, 'it has no rows, and a part of the disk that may have had them is lost')
  }

  #assertNewest(ownership: Pick<JournalOwnership, 'account' | 'epoch'>): Promise<void> {
    return this.#cells.decide(ownership.account, ({ value }) => assertNewest(ownership, value))
  }

  #assertHeld(ownership: JournalOwnership, fixed: JournalStatics): JournalStatics {
    assertNewest(ownership, fixed)
    if (!this.#released.has(ownership)) return fixed
    throw new JournalFault('FENCED', `the ownership of ${ownership.account} was released`)
  }
}

function assertNewest(
  ownership: Pick<JournalOwnership, 'account' | 'epoch'>,
  { epoch }: JournalStatics,
): void {
  if (epoch === ownership.epoch) return
  throw new JournalFault(
    'FENCED',
    `${ownership.account} is in epoch ${epoch}, not in the ownership's ${ownership.epoch}`,
  )
}

/** Damage is reported, not thrown. */
function read<Value>(decode: () => Value): { value: Value | undefined; damage: string | undefined } {
  try {
    return { value: decode(), damage: undefined }
  } catch (error) {
    if (!(error instanceof JournalFault)) throw error
    return { value: undefined, damage: error.message }
  }
}
