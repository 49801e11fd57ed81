/**
 * The journals of accounts: one partition each, fenced by epoch and head.
 *
 * A partition has static columns (epoch, head, root, owner) and rows, one a flush, numbered 1, 2, 3
 * … without gaps. The only safety is here: `append`, `setRoot` and `release` succeed for the holder
 * of the newest epoch alone.
 *
 * An account that was never written is in epoch 0, and has no owner. Its first row can make it: an
 * ownership of epoch 0 costs nothing, and its first append raises the epoch to 1 in the same write,
 * if the account still is in epoch 0. That is as safe as an epoch that was raised before, because:
 *  - Several hosts may have an ownership of epoch 0. One first row gets in; every other host is
 *    fenced by the epoch that this row made, and so is a host whose ownership was older when
 *    another one began the account without a row.
 *  - Epoch and head do not show whose first row it is. After an unknown outcome the chain does: it
 *    covers the bytes of the row, and first rows of two hosts differ, as each holds random bytes.
 *  - Before its first row a host answers only after a look at the head that still finds epoch 0.
 *  - Before its first row a host puts lookup rows and deletes none. Their write times are of epoch
 *    0, below those of every owner: what an owner deletes, no fenced host brings back.
 *  - What is named by an epoch, as pages are, is written after the first row alone.
 */
import { firstChain, rowChecksum } from './row-checksum.ts'

export interface JournalStore {
  readonly capabilities: {
    /**
     * Everything issued to the journal and the lookups of this store becomes durable in the order
     * of issue, so a caller may send lookup rows and the append that needs them without waiting in
     * between.
     */
    readonly ordered: boolean
    /** Holding the store proves every earlier owner dead: no lease needs to expire. */
    readonly exclusive: boolean
  }

  /**
   * Raises the epoch and only then reads head, root and owner. Durable when it resolves. An account
   * never written has head 0, no root.
   *
   * @throws JournalFault `UNAVAILABLE`.
   */
  acquire(account: string, options: AcquireOptions): Promise<JournalOwnership>

  /**
   * Rows with `after` < seq ≤ head as `acquire` saw it, in order.
   * @throws JournalFault `CORRUPT` on a gap, a bad checksum or a wrong predecessor; `FENCED` when a
   *   newer holder trimmed the rows.
   */
  rows(ownership: JournalOwnership, after: number): AsyncIterable<JournalRow>

  /**
   * Appends the row head+1 if epoch and head still are what the ownership says. Durable when it
   * resolves. On success the ownership's head (and chain) has moved; the epoch, too, if it was 0.
   * Never more than one append of an ownership at a time.
   *
   * @param row at most `maxFlushBytes`.
   * @throws JournalFault `FENCED`: nothing was written, the activation is dead. `UNKNOWN`: settle
   *   with `head` before anything else. `UNAVAILABLE`: certainly nothing was written. `TOO_LARGE`.
   */
  append(ownership: JournalOwnership, row: Uint8Array): Promise<void>

  /**
   * The newest epoch, head and its chain, read serially: settles an unknown append. The ownership's
   * epoch and head mean that certainly nothing was written. Those of `rowBehind`, with its checksum
   * as the chain, mean that it was: the caller then moves the ownership to these. Anything else
   * means fenced.
   *
   * @throws JournalFault `UNAVAILABLE`, `CORRUPT`.
   */
  head(account: string): Promise<{ epoch: number; head: number; chain: Uint8Array }>

  /**
   * Immutable pages. A name is used once, by the owner of the epoch in it; writing it again with
   * equal bytes succeeds. Other bytes under a name are a bug of the caller, which no read looks
   * for: rows and roots hold the digest of each page that they name, and readers compare it.
   * Durable when it resolves.
   * @throws JournalFault `TOO_LARGE` beyond `maxPageBytes`; `CORRUPT` where a store comes upon
   *   other bytes without a read.
   */
  putPage(account: string, name: string, bytes: Uint8Array): Promise<void>
  page(account: string, name: string): Promise<Uint8Array | undefined>
  /**
   * Deletes pages of the account that is held. Epochs do not matter, because names are used once.
   *
   * @throws JournalFault `FENCED` when the account's home has moved since it was acquired.
   */
  deletePages(ownership: JournalOwnership, names: readonly string[]): Promise<void>
  /** All names, in order. */
  pageNames(account: string): AsyncIterable<string>

  /**
   * Names a checkpoint, fenced; rows up to `through` may be trimmed after it. Durable when it
   * resolves.
   *
   * @param options.root at most `maxRootBytes`. @param options.through from the last root's up to
   *   the head, else a RangeError.
   * @throws JournalFault as `append` does.
   */
  setRoot(ownership: JournalOwnership, options: { root: Uint8Array; through: number }): Promise<void>
  /** Removes rows at or behind the root's `through`; beyond it is a RangeError. */
  trim(ownership: JournalOwnership, through: number): Promise<void>

  /** Clean release: owner = none, fenced. A hold that was released or fenced is useless. */
  release(ownership: JournalOwnership): Promise<void>
}

export interface AcquireOptions {
  owner: string
  /**
   * What happens to an account that was never written.
   *  - `begin` (default): it gets its first epoch, and is there from now on.
   *  - `leave`: nothing is written, so that asking for accounts that do not exist costs no space;
   *    the ownership has epoch 0 and only shows that the account does not exist.
   *  - `presume`: the account is taken to be one, because its id is new. No other owner is asked,
   *    and nothing is written: the ownership has epoch 0, and its first append makes the account,
   *    or is fenced because the account exists. A store that cannot do so begins the account, or
   *    takes it over.
   * A store that may have lost all rows of the account answers `CORRUPT`, except to `presume`.
   */
  unwritten?: 'begin' | 'leave' | 'presume'
  /**
   * Awaited before the epoch of an account is raised that another owner has not released: it may
   * still release it.
   */
  askRelease?: (holder: string) => Promise<void>
}

/**
 * Which accounts have a journal, for walks over all accounts: optional for a store. In the store's
 * own order, which continues behind any `place` after a restart too. An account that is made
 * meanwhile may be seen or not; every other one is seen at least once.
 */
export interface JournalAccounts {
  /** @param options.after a `place` of an earlier listing. */
  accounts(options?: { after?: string }): AsyncIterable<{ account: string; place: string }>
}

/**
 * Optional, for stores whose journals a second place keeps too: that place gets everything later,
 * but after a long partition some rows may be missing.
 */
export interface JournalBackup {
  /**
   * Resolves when everything of the account that was durable before the call is in the second place
   * too; missing data is sent there. The host that serves the account calls it; concurrent calls do
   * the same work twice, without harm.
   *
   * @param onLacking called when something is missing, before it is sent: rows beside the journal
   *   may be missing, too. Its failure is the call's, and the next call finds the same missing.
   * @throws JournalFault `UNAVAILABLE` while that place is unreachable; some of it may have been
   *   sent.
   */
  backUp(account: string, onLacking: () => Promise<void>): Promise<BackupResult>
}

/** What had not arrived. */
export interface BackupResult {
  rows: number
  pages: number
}

export interface JournalOwnership {
  readonly account: string
  readonly owner: string
  /** 0: the account was never written, and has no owner. Its first append makes this 1. */
  epoch: number
  /** Sequence number of the last row. */
  head: number
  /** Checksum of the last row, which the next one names as its predecessor. */
  chain: Uint8Array
  /** As set by the last `setRoot`; undefined without a checkpoint. */
  root: Uint8Array | undefined
  /** The previous holder; undefined after a clean release. */
  readonly previousOwner: string | undefined
}

export function isUnwritten({ epoch }: Pick<JournalOwnership, 'epoch'>): boolean {
  return epoch === 0
}

export function unwrittenOwnership(account: string, owner: string): JournalOwnership {
  return { account, owner, epoch: 0, head: 0, chain: firstChain, root: undefined, previousOwner: undefined }
}

/** The row that an append of these bytes makes. Its checksum is the chain behind it. */
export function rowBehind({ account, epoch, head, chain }: JournalOwnership, bytes: Uint8Array) {
  const row = { seq: head + 1, epoch: Math.max(epoch, 1), predecessor: chain, bytes }
  return { ...row, checksum: rowChecksum({ account, ...row }) }
}

/** A copy of an account's journal that another region writes. */
export interface JournalReplica {
  readonly root: Uint8Array | undefined
  /** The last row that the root includes; 0 without a root. */
  readonly through: number
  /** Those behind the root, without a gap; at most the bound of a tail. */
  readonly rows: readonly JournalRow[]
  page(name: string): Promise<Uint8Array | undefined>
}

export interface JournalRow {
  seq: number
  bytes: Uint8Array
}
