/**
 * A keyspace as a whole: for backups of a cluster, and their way back into an empty one.
 *
 * There is no one moment over partitions. So each account is read for itself, where it is served:
 * its statics, the pages and the rows behind the root, and the statics again. A row is trimmed and
 * a page is deleted only after the root that replaces them is set, so when the root is still the
 * same, everything that it needs was there. Otherwise the new state is read. Pages never change, so
 * only pages that came since are read.
 *
 * What is restored has write times of the past. Every write of a process that starts afterwards is
 * newer: transactions by the clock, and changes of rows that an account owns by their own order.
 */

import {
  type AccountEntry,
  type CounterEntry,
  type EntryWriter,
  firstChain,
  JournalFault,
  type JournalRowEntry,
  type LookupEntry,
  type PageEntry,
  restoredEpochsAhead,
  type StoredEntry,
  termOfEpoch,
  type WholeStore,
} from '@holdfast/journal'
import { equalBytes } from '@holdfast/kernel'
import type { CassandraConnection, CassandraRow, Statement } from './connection.ts'
import { partitions } from './known-accounts.ts'
import { partOf } from './lookup-store.ts'
import {
  insertRow,
  isOpen,
  lastEpochOf,
  numberOf,
  optionalBytes,
  type Partition,
  pageNames,
  pagesKeyOf,
  readPage,
  statics,
  storedRows,
} from './region-terms.ts'
import { wholeRing } from './ring.ts'

/** Accounts that are read ahead, and what is kept of each meanwhile. */
const accountsAhead = 16
const aheadBytesMax = 1024 * 1024
const pagesAtOnce = 4
const rowsPerPage = 500
/** How often an account may get another root while it is read. */
const rootsMax = 50
/** Written together. */
const statementsMax = 64
const statementBytesMax = 4 * 1024 * 1024
/**
 * Write times of restored rows begin this long before the time of the copy, and rise from row to
 * row.
 */
const olderMs = 30 * 86_400_000

type JournalEntry = AccountEntry | JournalRowEntry | PageEntry

export class CassandraWholeStore implements WholeStore {
  readonly #connection: CassandraConnection

  /** @param connection of the data centre that serves the accounts. */
  constructor(connection: CassandraConnection) {
    this.#connection = connection
  }

  async *accounts({
    term,
    onDamaged,
  }: Parameters<WholeStore['accounts']>[0]): AsyncIterable<AccountEntry | JournalRowEntry | PageEntry> {
    const ahead: Promise<AccountStream>[] = []
    async function* nextOne(): AsyncGenerator<JournalEntry> {
      const { first, rest } = await (ahead.shift() as Promise<AccountStream>)
      yield* first
      yield* rest
    }
    let last = ''
    try {
      for await (const { row } of partitions(this.#connection)) {
        const partition = { account: row.account as string, term: numberOf(row.term) }
        const name = `${partition.account} ${partition.term}`
        // A walk that a fault interrupted gives its last partition once more.
        if (name === last) continue
        last = name
        const begun = begin(this.#stateOf(partition, { newest: term, onDamaged }))
        // `nextOne` throws its fault.
        begun.catch(() => {})
        ahead.push(begun)
        if (ahead.length === accountsAhead) yield* nextOne()
      }
      while (ahead.length > 0) yield* nextOne()
    } finally {
      for (const one of ahead) await one.then(({ rest }) => rest.return(undefined)).catch(() => {})
    }
  }

  /** Nothing when the account is in a later term, or was never opened in this one. */
  async *#stateOf(
    partition: Partition,
    { newest, onDamaged }: { newest: number; onDamaged: (fault: JournalFault) => void },
  ): AsyncGenerator<JournalEntry> {
    const { account, term } = partition
    let state = await this.#staticsOf(partition)
    if (!isOpen(state, term)) return
    for (let later = term + 1; later <= newest; later++)
      if (isOpen(await this.#staticsOf({ account, term: later }), later)) return
    yield { kind: 'account', ...entryOf(account, state), ...nothing }
    const given = new Set<string>()
    for (let roots = 1; ; roots++) {
      const rows = await this.#rowsOf(partition, state)
      yield* this.#pagesOf(partition, given)
      const now = await this.#staticsOf(partition)
      if (!isOpen(now, term)) throw new JournalFault('UNAVAILABLE', `${account} disappeared`)
      if (hasRootOf(now, state)) {
        const { head, through } = entryOf(account, state)
        const found = `${rows.length} of ${head - through} rows are there`
        if (rows.length < head - through)
          onDamaged(new JournalFault('CORRUPT', `journal of ${account}: ${found}`))
        for (const row of rows) yield { kind: 'row', account, ...row }
        yield { kind: 'account', ...entryOf(account, state) }
        return
      }
      if (roots === rootsMax) throw new JournalFault('UNAVAILABLE', `${account} changes while it is read`)
      state = now
    }
  }

  async #staticsOf({ account, term }: Partition): Promise<CassandraRow | undefined> {
    const [row] = await this.#connection.run(statics, [account, term])
    return row
  }

  /** As far as they are there. */
  #rowsOf(partition: Partition, state: CassandraRow) {
    const { head, through } = entryOf(partition.account, state)
    return Array.fromAsync(storedRows(this.#connection, partition, { after: through, last: head }))
  }

  /** Those that were not given yet. */
  async *#pagesOf(partition: Partition, given: Set<string>): AsyncGenerator<PageEntry> {
    const { account } = partition
    const place = pagesKeyOf(partition)
    let batch: string[] = []
    const read = async () => {
      const names = batch
      batch = []
      const all = await Promise.all(names.map((name) => readPage(this.#connection, place, name)))
      return names.flatMap((name, at): PageEntry[] => {
        const bytes = all[at]
        return bytes === undefined ? [] : [{ kind: 'page', account, name, bytes }]
      })
    }
    for await (const name of pageNames(this.#connection, place)) {
      if (given.has(name)) continue
      given.add(name)
      batch.push(name)
      if (batch.length === pagesAtOnce) yield* await read()
    }
    yield* await read()
  }

  async *lookups(): AsyncIterable<LookupEntry> {
    const columns = { columns: 'key, value', table: 'lookups', partition: 'part', rowsPerPage }
    for await (const { row } of wholeRing(this.#connection, columns))
      yield { kind: 'lookup', key: row.key as string, value: row.value as Buffer }
  }

  async *counters(): AsyncIterable<CounterEntry> {
    const columns = { columns: 'name, next', table: 'counters', partition: 'name', rowsPerPage }
    for await (const { row } of wholeRing(this.#connection, columns))
      yield { kind: 'counter', counter: row.name as string, next: numberOf(row.next) }
  }

  restoring({ atMs }: { atMs: number }): EntryWriter {
    return new CassandraEntryWriter(this.#connection, BigInt(atMs - olderMs) * 1_000n)
  }
}

/** What of an account was read ahead, and the rest of it. */
interface AccountStream {
  first: JournalEntry[]
  rest: AsyncGenerator<JournalEntry>
}

async function begin(rest: AsyncGenerator<JournalEntry>): Promise<AccountStream> {
  const first: JournalEntry[] = []
  for (let bytes = 0; bytes < aheadBytesMax; ) {
    const { done, value } = await rest.next()
    if (done === true) break
    first.push(value)
    bytes += 'bytes' in value ? value.bytes.length : (value.root?.length ?? 0)
  }
  return { first, rest }
}

const nothing = { head: 0, chain: firstChain, root: undefined, through: 0 }

function entryOf(account: string, row: CassandraRow): Omit<AccountEntry, 'kind'> {
  const through = numberOf(row.root_through)
  return {
    account,
    epoch: numberOf(row.epoch),
    head: Math.max(numberOf(row.head), through),
    chain: optionalBytes(row.chain) ?? firstChain,
    root: optionalBytes(row.root),
    through,
  }
}

function hasRootOf(one: CassandraRow, other: CassandraRow): boolean {
  const [root, otherRoot] = [optionalBytes(one.root), optionalBytes(other.root)]
  const isSame =
    root === undefined || otherRoot === undefined ? root === otherRoot : equalBytes(root, otherRoot)
  return isSame && numberOf(one.root_through) === numberOf(other.root_through)
}

class CassandraEntryWriter implements EntryWriter {
  readonly #connection: CassandraConnection
  #micros: bigint
  #statements: Statement[] = []
  #bytes = 0
  /** Whose entries come now, and the last of its statics. */
  #account: AccountEntry | undefined

  constructor(connection: CassandraConnection, micros: bigint) {
    this.#connection = connection
    this.#micros = micros
  }

  async add(entry: StoredEntry): Promise<void> {
    if (!('account' in entry) || entry.account !== this.#account?.account) await this.#endAccount()
    if (entry.kind === 'account') this.#account = entry
    else if (entry.kind === 'counter') await this.#raise(entry)
    else if (entry.kind === 'lookup') {
      const params = [partOf(entry.key), entry.key, Buffer.from(entry.value)]
      await this.#write('INSERT INTO lookups (part, key, value) VALUES (?, ?, ?)', params)
    } else {
      const partition = this.#partitionOf(entry)
      if (entry.kind === 'row') {
        const { query, params } = insertRow(partition, entry)
        await this.#write(query, params)
      } else {
        const params = [pagesKeyOf(partition), entry.name, Buffer.from(entry.bytes)]
        await this.#write('INSERT INTO pages (account, name, bytes) VALUES (?, ?, ?)', params)
      }
    }
  }

  async end(): Promise<void> {
    await this.#endAccount()
    await this.#flush()
  }

  #partitionOf({ account }: JournalRowEntry | PageEntry): Partition {
    if (this.#account === undefined) throw new JournalFault('CORRUPT', `${account} comes without its epoch`)
    return { account, term: termOfEpoch(this.#account.epoch) }
  }

  /** The statics come last: an account without them is none. */
  async #endAccount(): Promise<void> {
    if (this.#account === undefined) return
    const { account, epoch, head, chain, root, through } = this.#account
    this.#account = undefined
    const term = termOfEpoch(epoch)
    const raised = Math.min(epoch + restoredEpochsAhead, lastEpochOf(term) - 1)
    const numbers = [raised, head, through].map(BigInt)
    // In a later term it is open with its cut.
    const cut = term === 1 ? undefined : BigInt(head)
    const stored = root && Buffer.from(root)
    await this.#write(
      'INSERT INTO journal (account, term, epoch, head, root_through, chain, root, cut) VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
      [account, term, ...numbers, Buffer.from(chain), stored, cut],
    )
  }

  async #write(query: string, params: unknown[]): Promise<void> {
    this.#micros++
    this.#statements.push({ query: `${query} USING TIMESTAMP ?`, params: [...params, this.#micros] })
    for (const param of params) if (param instanceof Uint8Array) this.#bytes += param.length
    if (this.#statements.length >= statementsMax || this.#bytes >= statementBytesMax) await this.#flush()
  }

  async #flush(): Promise<void> {
    const statements = this.#statements
    this.#statements = []
    this.#bytes = 0
    await this.#connection.runAll(statements)
  }

  async #raise({ counter, next }: CounterEntry): Promise<void> {
    for (;;) {
      const [row] = await this.#connection.serialRead('SELECT next FROM counters WHERE name = ?', [counter])
      if (row !== undefined && numberOf(row.next) >= next) return
      const refused = await this.#connection.conditional([
        row === undefined
          ? {
              query: 'INSERT INTO counters (name, next) VALUES (?, ?) IF NOT EXISTS',
              params: [counter, BigInt(next)],
            }
          : {
              query: 'UPDATE counters SET next = ? WHERE name = ? IF next = ?',
              params: [BigInt(next), counter, row.next],
            },
      ])
      if (refused === undefined) return
    }
  }
}
