/**
 * Journals in Cassandra: one partition per (account, home term), fenced by `IF epoch = ? AND head =
 * ?`.
 *
 * A lightweight transaction conditions one partition of one table, so epoch, head, root and owner
 * are statics of the partition that holds the rows. Serial consistency is the home data centre's;
 * rows are read after the epoch was raised, which completes what an earlier owner left half done.
 * In a term above 1 the first host to acquire an account opens it (`region-terms.ts`), or a pass
 * over all of them (`open-at-once.ts`).
 *
 * Where another data centre would take over, nothing is deleted before that one has the
 * replacement.
 */

import { randomInt } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import {
  type AcquireOptions,
  assertAccount,
  assertPage,
  assertRoot,
  assertRow,
  type BackupResult,
  corruptJournal,
  firstChain,
  isUnwritten,
  type JournalAccounts,
  type JournalBackup,
  JournalFault,
  type JournalOwnership,
  type JournalRemain,
  type JournalRepair,
  type JournalReplica,
  type JournalRow,
  type JournalStore,
  rowBehind,
  rowChecksum,
  unwrittenOwnership,
} from '@holdfast/journal'
import { equalBytes } from '@holdfast/kernel'
import { bring, type Copies, untilBackedUp } from './backing-up.ts'
import type { CassandraConnection, CassandraRow } from './connection.ts'
import { copyNotes } from './copy-notes.ts'
import { type Gap, inOrder, type KnownAccount, knownBefore, partitions } from './known-accounts.ts'
import { openAtOnce } from './open-at-once.ts'
import {
  changedMsOf,
  type EarlierTerm,
  fence,
  firstEpochOf,
  insertRow,
  isBegun,
  isOpen,
  lastEpochOf,
  numberOf,
  type OpenedPartition,
  optionalBytes,
  type Partition,
  type PassStep,
  pageNames,
  pagesKeyOf,
  readPage,
  rowsUpToGap,
  servedBefore,
  statics,
  storedRows,
  type TakenJournal,
  takeOverTerm,
  termBefore,
  writePage,
} from './region-terms.ts'
import { copiesOfPage, remainsOf } from './remains.ts'

/**
 * Raises with an unknown outcome, under contention or a failing node, before the store counts as
 * unavailable.
 */
const acquireAttemptsMax = 4
/**
 * An overtaken opener waits up to this long, doubling each time, until another has opened the
 * account.
 */
const overtakenWaitMs = 100
const overtakenDoublingsMax = 5
/** Accounts that a pass over all of them opens at one time: each waits for some round trips. */
const takenAtOnce = 48
/** The list of a pass's first places. */
const notes = 'notes'

interface OpenOptions extends AcquireOptions {
  /** What is open stays as it is, and what is opened has no owner afterwards. */
  opensOnly?: boolean
}

export class CassandraJournalStore implements JournalStore, JournalAccounts, JournalBackup, JournalRepair {
  readonly capabilities = { ordered: false, exclusive: false }
  readonly #connection: CassandraConnection
  readonly #termOf: (account: string) => number
  readonly #backup: (() => CassandraConnection) | undefined
  readonly #handedOver: (account: string) => boolean
  readonly #released = new WeakSet<JournalOwnership>()
  readonly #terms = new WeakMap<JournalOwnership, number>()

  /**
   * @param termOf the home term of an account: how often its home has moved, from 1.
   * @param backup the data centre that would take over; throws while it is out of reach. Undefined:
   *   there is none.
   * @param handedOver whether that one served the account in the term before, and is asked for it.
   */
  constructor(
    connection: CassandraConnection,
    {
      termOf,
      backup,
      handedOver,
    }: {
      termOf: (account: string) => number
      backup: (() => CassandraConnection) | undefined
      handedOver: (account: string) => boolean
    },
  ) {
    this.#connection = connection
    this.#termOf = termOf
    this.#backup = backup
    this.#handedOver = handedOver
  }

  async acquire(account: string, options: AcquireOptions): Promise<JournalOwnership> {
    assertAccount(account)
    return this.#acquireAtLast(account, options)
  }

  async #acquireAtLast(account: string, options: OpenOptions): Promise<JournalOwnership> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#acquire(account, options)
      } catch (error) {
        // A raise that may have happened is harmless: the next attempt raises above it.
        if (!(error instanceof JournalFault) || error.code !== 'UNKNOWN') throw error
        if (attempt === acquireAttemptsMax)
          throw new JournalFault('UNAVAILABLE', error.message, { cause: error })
      }
    }
  }

  async #acquire(
    account: string,
    { owner, unwritten = 'begin', askRelease, opensOnly = false }: OpenOptions,
  ): Promise<JournalOwnership> {
    const term = this.#termOf(account)
    const partition = [account, term]
    // Only in term 1. In a later term the store looks for an earlier term of the account, and
    // closes that term, before any write.
    if (unwritten === 'presume' && term === 1) {
      const ownership = unwrittenOwnership(account, owner)
      this.#terms.set(ownership, term)
      return ownership
    }
    for (let attempt = 0, overtaken = 0; ; attempt++) {
      // A plain read sees everything acknowledged. If more was written, the raise is refused.
      const [before] =
        attempt === 0
          ? await this.#connection.run(statics, partition)
          : await this.#connection.serialRead(statics, partition)
      if (unwritten === 'leave' && !isBegun(before) && (await this.#before({ account, term })) === undefined)
        return unwrittenOwnership(account, owner)
      const holder = before?.owner as string | null | undefined
      if (attempt === 0 && typeof holder === 'string' && holder !== owner) await askRelease?.(holder)
      const epoch = isBegun(before) ? numberOf(before.epoch) : firstEpochOf(term)
      if (epoch === lastEpochOf(term))
        throw new JournalFault('FENCED', `${account} was handed over in term ${term}`)
      const ownershipOf = (row: CassandraRow | OpenedPartition | undefined) =>
        this.#ownershipOf({ account, term }, { owner, before, row, epoch: epoch + 1 })
      if (isOpen(before, term)) {
        if (opensOnly) return ownershipOf(before)
        if (await this.#seizeOpen(partition, before, owner)) return ownershipOf(before)
        continue
      }
      const refused = isBegun(before)
        ? await this.#raise(partition, epoch, owner)
        : await this.#begin(partition, epoch, owner)
      if (refused) continue
      if (term === 1) return ownershipOf(undefined)
      // What was opened is current: the write that opened it was conditional on this epoch.
      const other = this.#otherOf(account)
      const opened = await takeOverTerm(
        this.#connection,
        { account, term },
        { epoch: epoch + 1, other, release: opensOnly },
      )
      if (opened !== undefined) return ownershipOf(opened)
      // Concurrent openers that raise each other's epochs would never let one end.
      await delay(randomInt(overtakenWaitMs * 2 ** Math.min(overtaken++, overtakenDoublingsMax)))
    }
  }

  /**
   * @param state.before the state before the raise. @param state.row the current row; undefined:
   *   the account is new.
   */
  #ownershipOf(
    { account, term }: Partition,
    {
      owner,
      before,
      row,
      epoch,
    }: {
      owner: string
      before: CassandraRow | undefined
      row: CassandraRow | OpenedPartition | undefined
      epoch: number
    },
  ): JournalOwnership {
    const ownership = {
      account,
      owner,
      epoch,
      head: numberOf(row?.head),
      chain: optionalBytes(row?.chain) ?? firstChain,
      root: optionalBytes(row?.root),
      previousOwner: (before?.owner as string | null | undefined) ?? undefined,
    }
    this.#terms.set(ownership, term)
    return ownership
  }

  /**
   * Raises the epoch if nothing was appended, no root was set and no owner released the account
   * since the row was read: then the row is current.
   */
  async #seizeOpen(partition: unknown[], found: CassandraRow, owner: string): Promise<boolean> {
    const { epoch, head, root_through, root, owner: holder } = found
    const refused = await this.#connection.conditional([
      {
        query:
          'UPDATE journal SET epoch = ?, owner = ? WHERE account = ? AND term = ? IF epoch = ? AND head = ? AND root_through = ? AND root = ? AND owner = ?',
        params: [
          BigInt(numberOf(epoch) + 1),
          owner,
          ...partition,
          ...[epoch, head, root_through, root, holder],
        ],
      },
    ])
    return refused === undefined
  }

  /**
   * The region that hands the account over. @throws JournalFault `UNAVAILABLE` while it is
   * unreachable
   */
  #otherOf(account: string): CassandraConnection | undefined {
    return this.#handedOver(account) ? this.#backup?.() : undefined
  }

  async #before(partition: Partition): Promise<EarlierTerm | undefined> {
    const other = this.#otherOf(partition.account)
    if (other !== undefined) return servedBefore({ own: this.#connection, other, close: false }, partition)
    const found = await termBefore(this.#connection, partition)
    return found && { ...found, connection: this.#connection }
  }

  #begin([account, term]: unknown[], epoch: number, owner: string): Promise<CassandraRow | undefined> {
    // The initial state of an account in a later term is not known yet.
    const empty =
      term === 1
        ? { set: ', head = 0, chain = ?, root_through = 0', params: [Buffer.from(firstChain)] }
        : undefined
    return this.#connection.conditional([
      {
        query: `UPDATE journal SET epoch = ?, owner = ?${empty?.set ?? ''} WHERE account = ? AND term = ? IF epoch = null`,
        params: [BigInt(epoch + 1), owner, ...(empty?.params ?? []), account, term],
      },
    ])
  }

  #raise(partition: unknown[], epoch: number, owner: string): Promise<CassandraRow | undefined> {
    return this.#connection.conditional([
      {
        query: 'UPDATE journal SET epoch = ?, owner = ? WHERE account = ? AND term = ? IF epoch = ?',
        params: [BigInt(epoch + 1), owner, ...partition, BigInt(epoch)],
      },
    ])
  }

  rows(ownership: JournalOwnership, after: number): AsyncIterable<JournalRow> {
    return this.#rows(ownership, { after, last: ownership.head, chain: ownership.chain })
  }

  async *#rows(
    ownership: JournalOwnership,
    { after, last, chain }: { after: number; last: number; chain: Uint8Array },
  ): AsyncIterable<JournalRow> {
    let expected = after + 1
    let predecessor: Uint8Array | undefined = after === 0 ? firstChain : undefined
    const partition = { account: ownership.account, term: this.#termOfOwnership(ownership) }
    for await (const row of storedRows(this.#connection, partition, { after, last })) {
      const { seq, checksum } = row
      if (seq !== expected) break
      if (predecessor !== undefined && !equalBytes(row.predecessor, predecessor))
        throw corruptJournal(ownership.account, `row ${seq} names another predecessor`)
      if (!equalBytes(checksum, rowChecksum({ account: ownership.account, ...row })))
        throw corruptJournal(ownership.account, `row ${seq} has a wrong checksum`)
      if (seq === last && !equalBytes(checksum, chain))
        throw corruptJournal(ownership.account, `row ${seq} is not the last one that was written`)
      predecessor = checksum
      expected++
      yield { seq, bytes: row.bytes }
    }
    if (expected <= last) {
      await this.#assertNewest(ownership)
      throw corruptJournal(ownership.account, `row ${expected} of ${last} is missing`)
    }
  }

  async append(ownership: JournalOwnership, row: Uint8Array): Promise<void> {
    assertRow(row)
    this.#assertHeld(ownership)
    const next = rowBehind(ownership, Buffer.from(row))
    const { seq, epoch, checksum } = next
    const partition = { account: ownership.account, term: this.#termOfOwnership(ownership) }
    const place = Object.values(partition)
    const moved = [BigInt(seq), Buffer.from(checksum)]
    const refused = await this.#connection.conditional([
      isUnwritten(ownership)
        ? {
            query:
              'UPDATE journal SET epoch = ?, owner = ?, root_through = 0, head = ?, chain = ? WHERE account = ? AND term = ? IF epoch = null',
            params: [BigInt(epoch), ownership.owner, ...moved, ...place],
          }
        : {
            query:
              'UPDATE journal SET head = ?, chain = ? WHERE account = ? AND term = ? IF epoch = ? AND head = ?',
            params: [...moved, ...place, BigInt(ownership.epoch), BigInt(ownership.head)],
          },
      insertRow(partition, next),
    ])
    if (refused) throw fenced(ownership, refused)
    ownership.epoch = epoch
    ownership.head = seq
    ownership.chain = checksum
  }

  /**
   * The account as far as it has arrived in this data centre, whichever region serves it: only for
   * reading, and possibly old. Rows end at the first gap. Undefined when nothing has arrived.
   */
  async replica(account: string): Promise<JournalReplica | undefined> {
    const found = await termBefore(this.#connection, { account, term: this.#termOf(account) + 1 })
    if (found === undefined) return undefined
    const partition = { account, term: found.term }
    const through = numberOf(found.row.root_through)
    const rows: JournalRow[] = []
    for await (const { seq, bytes } of rowsUpToGap(this.#connection, partition, through))
      rows.push({ seq, bytes })
    return {
      root: optionalBytes(found.row.root),
      through,
      rows,
      page: (name) => readPage(this.#connection, pagesKeyOf(partition), name),
    }
  }

  async head(account: string): Promise<{ epoch: number; head: number; chain: Uint8Array }> {
    const term = this.#termOf(account)
    const [now] = await this.#connection.serialRead(fence, [account, term])
    // An account that was not opened in this term yet is that of the previous term.
    const row = isOpen(now, term) ? now : (await this.#before({ account, term }))?.row
    return {
      epoch: numberOf(row?.epoch),
      head: numberOf(row?.head),
      chain: optionalBytes(row?.chain) ?? firstChain,
    }
  }

  async putPage(account: string, name: string, bytes: Uint8Array): Promise<void> {
    assertAccount(account)
    assertPage(name, bytes)
    await writePage(this.#connection, this.#pages(account), { name, bytes })
  }

  page(account: string, name: string): Promise<Uint8Array | undefined> {
    return readPage(this.#connection, this.#pages(account), name)
  }

  async deletePages(ownership: JournalOwnership, names: readonly string[]): Promise<void> {
    const partition = { account: ownership.account, term: this.#termOfOwnership(ownership) }
    const pages = pagesKeyOf(partition)
    await untilBackedUp(this.#copies, partition, new Set(names))
    await this.#connection.runAll(
      names.map((name) => ({
        query: 'DELETE FROM pages WHERE account = ? AND name = ?',
        params: [pages, name],
      })),
    )
  }

  pageNames(account: string): AsyncIterable<string> {
    return pageNames(this.#connection, this.#pages(account))
  }

  async setRoot(
    ownership: JournalOwnership,
    { root, through }: { root: Uint8Array; through: number },
  ): Promise<void> {
    assertRoot(root)
    this.#assertHeld(ownership)
    if (through > ownership.head) throw new RangeError(`a root through row ${through} of ${ownership.head}`)
    const copy = Buffer.from(root)
    const refused = await this.#connection.conditional([
      {
        query:
          'UPDATE journal SET root = ?, root_through = ? WHERE account = ? AND term = ? IF epoch = ? AND root_through <= ?',
        params: [
          copy,
          BigInt(through),
          ...this.#partition(ownership),
          BigInt(ownership.epoch),
          BigInt(through),
        ],
      },
    ])
    if (refused) {
      if (numberOf(refused.epoch) !== ownership.epoch) throw fenced(ownership, refused)
      throw new RangeError(`a root through row ${through}, the last one ${numberOf(refused.root_through)}`)
    }
    ownership.root = copy
  }

  async trim(ownership: JournalOwnership, through: number): Promise<void> {
    const partition = { account: ownership.account, term: this.#termOfOwnership(ownership) }
    const [row] = await this.#connection.serialRead(fence, Object.values(partition))
    const behind = numberOf(row?.root_through)
    if (through > behind)
      throw new RangeError(`rows through ${through} are not all behind the root's ${behind}`)
    await untilBackedUp(this.#copies, partition)
    await this.#connection.run('DELETE FROM journal WHERE account = ? AND term = ? AND seq <= ?', [
      ...Object.values(partition),
      BigInt(through),
    ])
  }

  async release(ownership: JournalOwnership): Promise<void> {
    this.#assertHeld(ownership)
    if (isUnwritten(ownership)) {
      this.#released.add(ownership)
      return
    }
    const refused = await this.#connection.conditional([
      {
        query: 'UPDATE journal SET owner = null WHERE account = ? AND term = ? IF epoch = ?',
        params: [...this.#partition(ownership), BigInt(ownership.epoch)],
      },
    ])
    if (refused) throw fenced(ownership, refused)
    this.#released.add(ownership)
  }

  /**
   * Opens every account of earlier terms that was not opened since its home moved, a few at a time,
   * and reports what was taken over. Places with nothing to move come too, so that its user sees
   * how far the pass is.
   * @param term the current one. @param handedOver by the region that served the previous term.
   *   Accounts that cannot be opened, or lack a page that their root names, come with the fault.
   * @param after a `place` of an earlier pass; continues behind it.
   */
  async *takeAll(
    term: number,
    {
      pagesNamedBy = () => [],
      handedOver = false,
      after,
    }: {
      pagesNamedBy?: (root: Uint8Array) => readonly string[]
      handedOver?: boolean
      after?: string | undefined
    } = {},
  ): AsyncIterable<PassStep> {
    const other = handedOver ? this.#backup?.() : undefined
    const take = async (known: KnownAccount | Gap): Promise<PassStep> => {
      const { place } = known
      if (!('account' in known)) return { place }
      const { account } = known
      const taken = await this.#take(known, { term, pagesNamedBy, other }).catch((fault: unknown) => ({
        account,
        fault,
      }))
      return { ...taken, place }
    }
    const [list, behind] = after?.split(' ') ?? [notes]
    const own = this.#connection
    if (other !== undefined && list === notes)
      for await (const place of copyNotes(other, own, behind)) yield { place: `${notes} ${place}` }
    const known = knownBefore(term, { own, other, after: list === notes ? undefined : after })
    yield* inOrder(known, takenAtOnce, take)
  }

  /** Accounts of all terms: one whose home has moved is listed once for each. */
  async *accounts({ after }: { after?: string } = {}) {
    for await (const { row, place } of partitions(this.#connection, after))
      yield { account: row.account as string, place }
  }

  async *remains(account: string): AsyncIterable<JournalRemain> {
    yield* remainsOf(this.#copies, { account, term: this.#termOf(account) })
  }

  async *copiesOfPage(account: string, name: string): AsyncIterable<Uint8Array> {
    yield* copiesOfPage(this.#copies, this.#pages(account), name)
  }

  async seize(
    account: string,
    { owner, aboveEpoch }: { owner: string; aboveEpoch: number },
  ): Promise<JournalOwnership> {
    const term = this.#termOf(account)
    const partition = { account, term }
    for (;;) {
      const [found] = await this.#connection.serialRead(statics, [account, term])
      let epoch = Math.max(numberOf(found?.epoch), firstEpochOf(term), aboveEpoch)
      let head = numberOf(found?.head)
      let chain = optionalBytes(found?.chain) ?? firstChain
      const range = { after: numberOf(found?.root_through), last: Number.MAX_SAFE_INTEGER }
      for await (const row of storedRows(this.#connection, partition, range)) {
        epoch = Math.max(epoch, row.epoch)
        if (row.seq <= head) continue
        head = row.seq
        chain = row.checksum
      }
      if (epoch + 1 >= lastEpochOf(term))
        throw new JournalFault('UNAVAILABLE', `${account} has no epoch left in term ${term}`)
      const details = [BigInt(epoch + 1), owner, BigInt(head), Buffer.from(chain)]
      const through = BigInt(numberOf(found?.root_through))
      const cut = BigInt(numberOf(found?.cut))
      const refused = await this.#connection.conditional([
        {
          query:
            'UPDATE journal SET epoch = ?, owner = ?, head = ?, chain = ?, root_through = ?, cut = ? WHERE account = ? AND term = ? IF epoch = ?',
          params: [...details, through, cut, account, term, isBegun(found) ? found.epoch : null],
        },
      ])
      if (refused) continue
      const previousOwner = (found?.owner as string | null | undefined) ?? undefined
      const ownership = { account, owner, epoch: epoch + 1, head, chain, root: undefined, previousOwner }
      this.#terms.set(ownership, term)
      return ownership
    }
  }

  /** Undefined when the account has a newer term than the listed one before this one. */
  async #take(
    { account, from, epoch, listedIn }: KnownAccount,
    {
      term,
      pagesNamedBy,
      other,
    }: {
      term: number
      pagesNamedBy: (root: Uint8Array) => readonly string[]
      other: CassandraConnection | undefined
    },
  ): Promise<TakenJournal | undefined> {
    // As long as it is listed where it was served, and in the term in which it was.
    if (from === term - 1 && listedIn === (other === undefined ? 'own' : 'other')) {
      const before =
        other === undefined
          ? { connection: this.#connection, closesEpoch: undefined }
          : { connection: other, closesEpoch: epoch }
      const taken = await openAtOnce(this.#connection, { account, term }, before).catch(unlessUnknown)
      if (taken !== undefined) return taken
    } else if (await this.#isKnownLater({ account, term }, from, other)) return undefined
    return this.#taken({ account, term }, { from, pagesNamedBy })
  }

  /** Whether a read is enough to see a later term before this one in which it was opened. */
  async #isKnownLater(
    { account, term }: Partition,
    from: number,
    other: CassandraConnection | undefined,
  ): Promise<boolean> {
    const later = term - 1
    if (from === later) return false
    const [row] = await (other ?? this.#connection).run(fence, [account, later])
    return isOpen(row, later)
  }

  /** Undefined when the account has a newer term than `from` before this one. */
  async #taken(
    { account, term }: Partition,
    { from, pagesNamedBy }: { from: number; pagesNamedBy: (root: Uint8Array) => readonly string[] },
  ): Promise<TakenJournal | undefined> {
    const before = await this.#before({ account, term })
    if (before?.term !== from) return undefined
    const partition = [account, term]
    let [row] = await this.#connection.run(statics, partition)
    if (!isOpen(row, term)) {
      await this.#openOnce(account)
      row = (await this.#connection.run(statics, partition))[0]
      // Without a serial read, a transaction that was interrupted is not seen.
      if (!isOpen(row, term)) row = (await this.#connection.serialRead(statics, partition))[0]
      if (!isOpen(row, term))
        throw new JournalFault('UNAVAILABLE', `${account} is being opened by another host`)
    }
    const root = optionalBytes(row.root)
    for (const name of root === undefined ? [] : pagesNamedBy(root))
      if ((await readPage(this.#connection, pagesKeyOf({ account, term }), name)) === undefined)
        throw corruptJournal(account, `page ${name} did not arrive`)
    const known = numberOf(before.row.head)
    return { account, cut: numberOf(row.cut), known, changedMs: changedMsOf(before.row) }
  }

  /** A host that uses the account at the same time opens it as well, and fences us. */
  async #openOnce(account: string): Promise<void> {
    try {
      await this.#acquireAtLast(account, { owner: 'evacuation', opensOnly: true })
    } catch (error) {
      if (!(error instanceof JournalFault) || error.code !== 'FENCED') throw error
    }
  }

  /** See `JournalBackup`. Without a backup there is nothing to send. */
  async backUp(account: string, onLacking: () => Promise<void>): Promise<BackupResult> {
    if (this.#backup === undefined) return { rows: 0, pages: 0 }
    const places = { here: this.#connection, backup: this.#backup() }
    return bring(places, { account, term: this.#termOf(account) }, onLacking)
  }

  /** This data centre's copy, and the backup's. */
  get #copies(): Copies {
    return { here: this.#connection, backup: this.#backup }
  }

  #assertHeld(ownership: JournalOwnership): void {
    if (this.#released.has(ownership))
      throw new JournalFault('FENCED', `the ownership of ${ownership.account} was released`)
  }

  async #assertNewest(ownership: JournalOwnership): Promise<void> {
    const { epoch } = await this.head(ownership.account)
    if (epoch !== ownership.epoch)
      throw new JournalFault(
        'FENCED',
        `${ownership.account} is in epoch ${epoch}, not in the ownership's ${ownership.epoch}`,
      )
  }

  #partition(ownership: JournalOwnership): unknown[] {
    return [ownership.account, this.#termOfOwnership(ownership)]
  }

  #pages(account: string): string {
    return pagesKeyOf({ account, term: this.#termOf(account) })
  }

  /** @throws JournalFault `FENCED` when the home has moved since. */
  #termOfOwnership(ownership: JournalOwnership): number {
    const term = this.#termOf(ownership.account)
    if (this.#terms.get(ownership) !== term)
      throw new JournalFault(
        'FENCED',
        `${ownership.account} is in term ${term}, not in the ownership's ${this.#terms.get(ownership)}`,
      )
    return term
  }
}

/** Then it is read what happened. @throws the error, if it is another one */
function unlessUnknown(error: unknown): undefined {
  if (!(error instanceof JournalFault) || error.code !== 'UNKNOWN') throw error
}

function fenced(ownership: JournalOwnership, refused: CassandraRow): JournalFault {
  return new JournalFault(
    'FENCED',
    `${ownership.account} is in epoch ${refused.epoch} at row ${refused.head ?? '?'}, not in ${ownership.epoch} at ${ownership.head}`,
  )
}
