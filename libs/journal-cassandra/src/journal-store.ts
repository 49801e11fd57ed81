/**
 * Journals in Cassandra: one partition per (account, home term), fenced by `IF epoch = ? AND head = ?`.
 *
 * A lightweight transaction conditions one partition of one table, so epoch, head, root and owner are statics of the
 * partition that holds the rows. Serial consistency is the home data centre's; reads of rows follow the epoch's raise, which finishes
 * whatever an earlier owner left half done.
 */
import {
  assertAccount,
  assertPage,
  assertRoot,
  assertRow,
  firstChain,
  JournalFault,
  type JournalHold,
  type JournalRow,
  type JournalStore,
  rowChecksum,
} from '@holdfast/journal'
import type { Connection, Row } from './connection.ts'

const statics =
  'SELECT epoch, head, chain, owner, root, root_through FROM journal WHERE account = ? AND term = ? LIMIT 1'

/** Raises whose outcome stayed unknown, under contention or a failing node, before the store counts as unavailable. */
const acquireAttemptsMax = 4
const rowsPerPage = 16
const namesPerPage = 1000

export class CassandraJournalStore implements JournalStore {
  readonly capabilities = { ordered: false, exclusive: false }
  readonly #connection: Connection
  readonly #termOf: (account: string) => number
  readonly #released = new WeakSet<JournalHold>()

  /** @param termOf the home term of an account: how often its home has moved, from 1. */
  constructor(connection: Connection, termOf: (account: string) => number) {
    this.#connection = connection
    this.#termOf = termOf
  }

  async acquire(account: string, options: { owner: string }): Promise<JournalHold> {
    assertAccount(account)
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#acquire(account, options)
      } catch (error) {
        // A raise that may have happened harms nobody: the next attempt raises above it.
        if (!(error instanceof JournalFault) || error.code !== 'UNKNOWN') throw error
        if (attempt === acquireAttemptsMax)
          throw new JournalFault('UNAVAILABLE', error.message, { cause: error })
      }
    }
  }

  async #acquire(account: string, { owner }: { owner: string }): Promise<JournalHold> {
    const partition = this.#partition(account)
    for (;;) {
      const [before] = await this.#connection.serialRead(statics, partition)
      const epoch = numberOf(before?.epoch)
      const refused =
        epoch === 0 ? await this.#begin(partition, owner) : await this.#raise(partition, epoch, owner)
      if (refused) continue
      // Only now is nobody else able to append: what is read from here on is what holds.
      const [now] = await this.#connection.serialRead(statics, partition)
      if (now === undefined || numberOf(now.epoch) !== epoch + 1) continue
      return {
        account,
        epoch: epoch + 1,
        head: numberOf(now.head),
        chain: bytesOf(now.chain) ?? firstChain,
        root: bytesOf(now.root),
        previousOwner: (before?.owner as string | null | undefined) ?? undefined,
      }
    }
  }

  #begin(partition: unknown[], owner: string): Promise<Row | undefined> {
    return this.#connection.conditional([
      {
        query:
          'UPDATE journal SET epoch = 1, owner = ?, head = 0, chain = ?, root_through = 0 WHERE account = ? AND term = ? IF epoch = null',
        params: [owner, Buffer.from(firstChain), ...partition],
      },
    ])
  }

  #raise(partition: unknown[], epoch: number, owner: string): Promise<Row | undefined> {
    return this.#connection.conditional([
      {
        query: 'UPDATE journal SET epoch = ?, owner = ? WHERE account = ? AND term = ? IF epoch = ?',
        params: [BigInt(epoch + 1), owner, ...partition, BigInt(epoch)],
      },
    ])
  }

  rows(hold: JournalHold, after: number): AsyncIterable<JournalRow> {
    return this.#rows(hold, after, hold.head)
  }

  async *#rows(hold: JournalHold, after: number, last: number): AsyncIterable<JournalRow> {
    let expected = after + 1
    let predecessor: Uint8Array | undefined = after === 0 ? firstChain : undefined
    const found = this.#connection.pages(
      'SELECT seq, row_epoch, predecessor, bytes, checksum FROM journal WHERE account = ? AND term = ? AND seq > ? AND seq <= ?',
      [...this.#partition(hold.account), BigInt(after), BigInt(last)],
      rowsPerPage,
    )
    for await (const stored of found) {
      // A partition with statics and no rows in the range answers with one row of nulls.
      if (stored.seq === null) break
      const seq = numberOf(stored.seq)
      if (seq !== expected) break
      const row = {
        epoch: numberOf(stored.row_epoch),
        predecessor: bytesOf(stored.predecessor) ?? firstChain,
        bytes: bytesOf(stored.bytes) ?? new Uint8Array(0),
      }
      if (predecessor !== undefined && !equal(row.predecessor, predecessor))
        throw corrupt(hold.account, `row ${seq} names another predecessor`)
      const checksum = rowChecksum({ account: hold.account, seq, ...row })
      if (!equal(checksum, bytesOf(stored.checksum) ?? firstChain))
        throw corrupt(hold.account, `row ${seq} has a wrong checksum`)
      predecessor = checksum
      expected++
      yield { seq, bytes: row.bytes }
    }
    if (expected <= last) {
      await this.#assertNewest(hold)
      throw corrupt(hold.account, `row ${expected} of ${last} is missing`)
    }
  }

  async append(hold: JournalHold, row: Uint8Array): Promise<void> {
    assertRow(row)
    this.#assertHeld(hold)
    const seq = hold.head + 1
    const bytes = Buffer.from(row)
    const predecessor = hold.chain
    const checksum = rowChecksum({ account: hold.account, seq, epoch: hold.epoch, predecessor, bytes })
    const partition = this.#partition(hold.account)
    const refused = await this.#connection.conditional([
      {
        query:
          'UPDATE journal SET head = ?, chain = ? WHERE account = ? AND term = ? IF epoch = ? AND head = ?',
        params: [BigInt(seq), Buffer.from(checksum), ...partition, BigInt(hold.epoch), BigInt(hold.head)],
      },
      {
        query:
          'INSERT INTO journal (account, term, seq, row_epoch, predecessor, bytes, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)',
        params: [
          ...partition,
          BigInt(seq),
          BigInt(hold.epoch),
          Buffer.from(predecessor),
          bytes,
          Buffer.from(checksum),
        ],
      },
    ])
    if (refused) throw fenced(hold, refused)
    hold.head = seq
    hold.chain = checksum
  }

  async head(account: string): Promise<{ epoch: number; head: number; chain: Uint8Array }> {
    const [row] = await this.#connection.serialRead(statics, this.#partition(account))
    return {
      epoch: numberOf(row?.epoch),
      head: numberOf(row?.head),
      chain: bytesOf(row?.chain) ?? firstChain,
    }
  }

  async putPage(account: string, name: string, bytes: Uint8Array): Promise<void> {
    assertAccount(account)
    assertPage(name, bytes)
    const copy = Buffer.from(bytes)
    const there = await this.page(account, name)
    if (there !== undefined) {
      if (equal(there, copy)) return
      throw corrupt(account, `page ${name} is there with other bytes`)
    }
    await this.#connection.run('INSERT INTO pages (account, name, bytes) VALUES (?, ?, ?)', [
      account,
      name,
      copy,
    ])
  }

  async page(account: string, name: string): Promise<Uint8Array | undefined> {
    const [row] = await this.#connection.run('SELECT bytes FROM pages WHERE account = ? AND name = ?', [
      account,
      name,
    ])
    return bytesOf(row?.bytes)
  }

  async deletePages(account: string, names: readonly string[]): Promise<void> {
    await this.#connection.runAll(
      names.map((name) => ({
        query: 'DELETE FROM pages WHERE account = ? AND name = ?',
        params: [account, name],
      })),
    )
  }

  async *pageNames(account: string): AsyncIterable<string> {
    for await (const row of this.#connection.pages(
      'SELECT name FROM pages WHERE account = ?',
      [account],
      namesPerPage,
    ))
      yield row.name as string
  }

  async setRoot(hold: JournalHold, { root, through }: { root: Uint8Array; through: number }): Promise<void> {
    assertRoot(root)
    this.#assertHeld(hold)
    if (through > hold.head) throw new RangeError(`a root through row ${through} of ${hold.head}`)
    const copy = Buffer.from(root)
    const refused = await this.#connection.conditional([
      {
        query:
          'UPDATE journal SET root = ?, root_through = ? WHERE account = ? AND term = ? IF epoch = ? AND root_through <= ?',
        params: [
          copy,
          BigInt(through),
          ...this.#partition(hold.account),
          BigInt(hold.epoch),
          BigInt(through),
        ],
      },
    ])
    if (refused) {
      if (numberOf(refused.epoch) !== hold.epoch) throw fenced(hold, refused)
      throw new RangeError(`a root through row ${through}, the last one ${numberOf(refused.root_through)}`)
    }
    hold.root = copy
  }

  async trim(hold: JournalHold, through: number): Promise<void> {
    const [row] = await this.#connection.serialRead(statics, this.#partition(hold.account))
    const behind = numberOf(row?.root_through)
    if (through > behind)
      throw new RangeError(`rows through ${through} are not all behind the root's ${behind}`)
    await this.#connection.run('DELETE FROM journal WHERE account = ? AND term = ? AND seq <= ?', [
      ...this.#partition(hold.account),
      BigInt(through),
    ])
  }

  async release(hold: JournalHold): Promise<void> {
    this.#assertHeld(hold)
    const refused = await this.#connection.conditional([
      {
        query: 'UPDATE journal SET owner = null WHERE account = ? AND term = ? IF epoch = ?',
        params: [...this.#partition(hold.account), BigInt(hold.epoch)],
      },
    ])
    if (refused) throw fenced(hold, refused)
    this.#released.add(hold)
  }

  #assertHeld(hold: JournalHold): void {
    if (this.#released.has(hold)) throw new JournalFault('FENCED', `the hold of ${hold.account} was released`)
  }

  async #assertNewest(hold: JournalHold): Promise<void> {
    const { epoch } = await this.head(hold.account)
    if (epoch !== hold.epoch)
      throw new JournalFault(
        'FENCED',
        `${hold.account} is in epoch ${epoch}, not in the hold's ${hold.epoch}`,
      )
  }

  #partition(account: string): unknown[] {
    return [account, this.#termOf(account)]
  }
}

function fenced(hold: JournalHold, refused: Row): JournalFault {
  return new JournalFault(
    'FENCED',
    `${hold.account} is in epoch ${refused.epoch} at row ${refused.head ?? '?'}, not in ${hold.epoch} at ${hold.head}`,
  )
}

function corrupt(account: string, what: string): JournalFault {
  return new JournalFault('CORRUPT', `journal of ${account}: ${what}`)
}

function numberOf(value: unknown): number {
  return value === null || value === undefined ? 0 : Number(value)
}

function bytesOf(value: unknown): Uint8Array | undefined {
  return value === null || value === undefined ? undefined : (value as Buffer)
}

function equal(one: Uint8Array, other: Uint8Array): boolean {
  return Buffer.compare(one, other) === 0
}
