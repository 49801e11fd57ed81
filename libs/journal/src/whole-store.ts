/**
 * Everything that a store has, piece by piece: for a copy of all accounts of a cluster, and for the
 * way back into an empty one.
 */
import type { JournalFault } from './errors.ts'
import type { LookupRow } from './lookup-store.ts'

export type StoredEntry = AccountEntry | JournalRowEntry | PageEntry | LookupEntry | CounterEntry

/** Its journal without rows and pages. */
export interface AccountEntry {
  kind: 'account'
  account: string
  epoch: number
  head: number
  /** Checksum of the last row. */
  chain: Uint8Array
  root: Uint8Array | undefined
  /** Rows up to here are behind the root. */
  through: number
}

export interface JournalRowEntry {
  kind: 'row'
  account: string
  seq: number
  epoch: number
  predecessor: Uint8Array
  bytes: Uint8Array
  checksum: Uint8Array
}

export interface PageEntry {
  kind: 'page'
  account: string
  name: string
  bytes: Uint8Array
}

export interface LookupEntry extends LookupRow {
  kind: 'lookup'
}

export interface CounterEntry {
  kind: 'counter'
  counter: string
  /** The first number that was not taken. */
  next: number
}

export interface WholeStore {
  /**
   * Every account that was there before the call, in the store's own order, each as one state of
   * its own moment, which is not before the call. Of an account come first its epoch (an
   * `AccountEntry` without anything else), then its pages and the rows behind its root, and at last
   * the whole `AccountEntry`. Pages that this state does not need may be among them.
   *
   * @param options.term the current one of the homes. @param options.onDamaged called for an
   *   account whose rows are not whole: those that are there are yielded.
   * @throws JournalFault
   */
  accounts(options: {
    term: number
    onDamaged: (fault: JournalFault) => void
  }): AsyncIterable<AccountEntry | JournalRowEntry | PageEntry>
  /** Rows that are not changed meanwhile, each at least once; others may be missing. */
  lookups(): AsyncIterable<LookupEntry>
  counters(): AsyncIterable<CounterEntry>
  /**
   * Writes entries into an empty store. Of two entries of one row the later one counts. No host
   * owns the accounts afterwards. The copy may have pages that the account's state does not need,
   * and names of pages contain epochs. So the epoch of each account is raised: no new page gets the
   * name of a copied one. Restored lookups are older than any write of an account.
   * @param options.atMs when they were copied, Unix ms.
   */
  restoring(options: { atMs: number }): EntryWriter
}

/** Durable when `end` resolves. Repeating it with the same entries changes nothing. */
export interface EntryWriter {
  /** The entries of an account come together, as `accounts` yields them. */
  add(entry: StoredEntry): Promise<void>
  end(): Promise<void>
}

/** How far the epochs of restored accounts are above those that they had. */
export const restoredEpochsAhead = 1_000
