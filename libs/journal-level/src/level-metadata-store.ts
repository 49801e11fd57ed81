/** One LevelDB that holds the journals and the lookups of an installation in one process. */
import { open, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import {
  type JournalAccounts,
  JournalFault,
  type JournalRepair,
  type JournalStore,
  type LookupStore,
  type LookupWalk,
} from '@holdfast/journal'
import {
  Ballast,
  ballastPath,
  type Clock,
  makeDirectories,
  type PartFailure,
  syncDirectory,
  systemClock,
  writableBytes,
} from '@holdfast/kernel'
import { copyDamage } from './damage/damage-record.ts'
import { type FindDamageOptions, findDamage } from './damage/find-damage.ts'
import { comparesOnDisk } from './damage/uncached-read.ts'
import { LevelJournals } from './level-journals.ts'
import { LevelLookups } from './level-lookups.ts'
import { holderOf, nameHolder, type StoreHolder } from './opening/holder.ts'
import { type InspectResult, identify, inspect, markerOf } from './opening/opening.ts'
import { isDamage, type MetadataDamage, type OpenOptions, Rows } from './opening/rows.ts'
import type { LostRanges } from './rows/lost-ranges.ts'
import { CommitAudit, type Suspicions } from './writing/commit-audit.ts'
import { GroupWriter, type RowChange } from './writing/group-writer.ts'

export interface LevelMetadataStoreOptions {
  /** A separate directory; made when missing. The open store locks this directory exclusively. */
  path: string
  /**
   * Accounts whose statics are kept in memory, some 300 bytes each; others are read again.
   */
  cachedAccounts: number
  /**
   * Called when a write failed and nothing is written any more, until LevelDB was reopened
   * (`onReopened`): the store retries by itself.
   */
  onFailure: (fault: JournalFault) => void
  onReopened: () => void
  /**
   * Called when files were damaged, at the opening and at each reopening. The store continues with
   * what is left.
   */
  onDamage: (damage: MetadataDamage) => void
  /**
   * Called when the commit audit cannot be written, once for a series of batches: they are safe,
   * and their loss would not be noticed.
   */
  onUnaudited: (fault: unknown) => void
  /**
   * Space reserved in a file beside the rows for a full disk, bytes, a multiple of 1 MiB; 0: none.
   */
  ballastBytes: number
  /**
   * How often a store whose disk is full checks for space, ms; after other failures the longest
   * time between two attempts.
   */
  reopenEveryMs: number
  /** Called in place of each commit of a batch. Tests make it fail, or delay it. */
  commit: (changes: RowChange[], commit: () => Promise<void>) => Promise<void>
  /**
   * Copies LevelDB's directory to another disk when its own is full. Tables and the lock are links
   * in the copy. The copy is read until the disk has room. Undefined: there is no other disk.
   */
  copyForReading: ((rows: string) => Promise<string | undefined>) | undefined
  /** Called in place of each attempt to reopen LevelDB. Tests make it fail, or delay it. */
  reopen: (reopen: () => Promise<void>) => Promise<void>
  clock: Clock
}

/** What no setting changes. */
export const metadataStoreDefaults = {
  cachedAccounts: 20_000,
  reopenEveryMs: 1_000,
  commit: (_changes, commit) => commit(),
  reopen: (reopen) => reopen(),
  clock: systemClock,
} satisfies Partial<LevelMetadataStoreOptions>

/** Bytes that reopening LevelDB may write: its log as a table, new logs and a new manifest. */
const reopenBytes = 6 * 1024 * 1024
/** The first pause after a failure other than a full disk; each further one is twice as long. */
const reopenFirstMs = 50
/**
 * Descriptors that reopening LevelDB needs, and some for other parts. While fewer are free, the
 * store is not closed, so that it still answers reads.
 */
const reopenFiles = 12
/**
 * When the store is open again and nothing was written for this long, the failure counts as over.
 */
const quietMs = 10_000
/** Bytes of the rows of a restore that one batch writes. */
const restoreBatchBytes = 1024 * 1024
/** How often a missing ballast is retried. */
const ballastEveryMs = 10_000

export class LevelMetadataStore {
  readonly journals: JournalStore & JournalAccounts & JournalRepair
  readonly lookups: LookupStore & LookupWalk
  readonly #journals: LevelJournals
  readonly #lookups: LevelLookups
  readonly #options: LevelMetadataStoreOptions
  readonly #clock: Clock
  readonly #path: string
  readonly #store: Uint8Array
  readonly #rows: Rows
  readonly #writer: GroupWriter
  readonly #suspicions: Suspicions
  readonly #lostRanges: LostRanges
  readonly #ballast: Ballast
  readonly #closing = new AbortController()
  /** The running recovery, or the running attempt to reserve the ballast. */
  #caring: Promise<void> = Promise.resolve()
  #audit: CommitAudit
  #lostBatches: number
  /**
   * Damage that `scrub` found, in words. The next commit takes it and fails, so that LevelDB is
   * opened again.
   */
  #foundDamage: string | undefined
  #damagedFiles: number
  #lostKinds: readonly string[]
  #unauditedBatches = 0
  /** Whether the previous batch has its entry in the audit. */
  #audited = true
  /** The message of the last reported fault. Undefined: it is over. */
  #reported: string | undefined
  /** It stays until a write succeeds: a successful reopening does not prove that the disk works. */
  #failing: (PartFailure & { lastMs: number; tries: number }) | undefined

  private constructor(
    options: LevelMetadataStoreOptions,
    parts: { rows: Rows; store: Uint8Array; audit: CommitAudit; found: InspectResult },
  ) {
    const { rows, store, audit, found } = parts
    const { suspicions, lostRanges } = found
    this.#options = options
    this.#clock = options.clock
    this.#path = resolve(options.path)
    this.#rows = rows
    this.#store = store
    this.#audit = audit
    this.#suspicions = suspicions
    this.#lostRanges = lostRanges
    this.#damagedFiles = found.damagedFiles
    this.#lostKinds = found.lostKinds
    this.#lostBatches = found.lostBatches
    const writer = new GroupWriter(
      {
        commit: (changes) => {
          const commit = () => this.#commit(changes)
          return options.commit(changes, commit)
        },
        onSuccess: () => {
          this.#failing = undefined
        },
        seal: markerOf,
        audit: async (batch, notes) => this.#noted(await this.#audit.note(batch, notes)),
        onFailure: (fault) => this.#failed(fault),
      },
      found,
    )
    this.#writer = writer
    this.#journals = new LevelJournals({
      rows,
      writer,
      suspicions,
      lostRanges,
      cachedAccounts: options.cachedAccounts,
    })
    this.#lookups = new LevelLookups({ rows, writer, suspicions, lostRanges })
    this.journals = this.#journals
    this.lookups = this.#lookups
    this.#ballast = new Ballast({ directory: this.#path, bytes: options.ballastBytes })
    this.#caring = this.#keepBallast()
  }

  /**
   * Opens or makes the store. What an earlier process acknowledged is there, or is detected as
   * missing. On a full disk the ballast of the earlier process is released.
   *
   * @throws JournalFault `UNAVAILABLE` when another process holds the directory (the message names
   *   it) or a newer release wrote it; `CORRUPT` when LevelDB cannot read it at all.
   */
  static async open(options: LevelMetadataStoreOptions): Promise<LevelMetadataStore> {
    try {
      return await LevelMetadataStore.#open(options)
    } catch (error) {
      if (!isOutOfSpace(error) && !isOutOfSpace((error as Error).cause)) throw error
      await rm(ballastPath(resolve(options.path)), { force: true })
      return LevelMetadataStore.#open(options)
    }
  }

  static async #open(options: LevelMetadataStoreOptions): Promise<LevelMetadataStore> {
    const path = resolve(options.path)
    await makeDurably(join(path, 'rows'))
    const lastHolder = await holderOf(path)
    const rows = await openAlone(path, { ...options, lastHolder })
    try {
      const store = await identify(rows, path)
      const found = await inspect(rows, { path, store, hasCopies: lastHolder.keepsCopies })
      await nameHolder(path, { keepsCopies: true })
      reportLostBatches(found, options)
      const audit = await CommitAudit.begin(path, store)
      return new LevelMetadataStore(options, { rows, store, audit, found })
    } catch (error) {
      await rows.close()
      throw error
    }
  }

  /**
   * Opens a store on whose disk nothing can be written. It reads; all writes are refused as
   * `UNAVAILABLE`.
   * @throws JournalFault as `open` does.
   */
  static async openReadOnly(
    options: Pick<LevelMetadataStoreOptions, 'path' | 'onFailure' | 'onDamage'> & {
      copyForReading: NonNullable<LevelMetadataStoreOptions['copyForReading']>
    },
  ): Promise<LevelMetadataStore> {
    const path = resolve(options.path)
    const copied = await options.copyForReading(join(path, 'rows'))
    if (copied === undefined) throw new JournalFault('UNAVAILABLE', `${path}: no other disk has room`)
    const copy = dirname(copied)
    const refuse = async () => {
      throw Object.assign(new Error('No space left on device'), { code: 'ENOSPC' })
    }
    await copyDamage(path, copy)
    const lastHolder = await holderOf(path)
    const rows = await openAlone(copy, { ...options, lastHolder })
    try {
      const store = await identify(rows, path)
      // What it finds is written only to the copy, so the next start finds it again.
      const found = await inspect(rows, { path, store, hasCopies: lastHolder.keepsCopies })
      reportLostBatches(found, options)
      const audit = await CommitAudit.begin(copy, store)
      const opened = new LevelMetadataStore(
        {
          ...metadataStoreDefaults,
          ...options,
          path,
          ballastBytes: 0,
          onReopened: () => {},
          onUnaudited: () => {},
          commit: refuse,
          reopen: refuse,
        },
        { rows, store, audit, found },
      )
      // It fails like a write, so that readiness and callers know of the full disk at once.
      await opened.#writer.write([]).catch(() => {})
      return opened
    } catch (error) {
      await rows.close()
      throw error
    }
  }

  /**
   * Makes a store of the rows that `everything` gave; durable when it resolves. A store that was
   * interrupted here is of no use.
   * @throws JournalFault `UNAVAILABLE` when there is a store at the path.
   */
  static async restore(path: string, rows: AsyncIterable<[Uint8Array, Uint8Array]>): Promise<void> {
    await makeDurably(path)
    const restored = await openAlone(path, { onDamage: () => {}, lastHolder: await holderOf(path) })
    try {
      for await (const _ of restored.scan({}, { limit: 1 }))
        throw new JournalFault('UNAVAILABLE', `${path} has a metadata store`)
      let batch: RowChange[] = []
      let bytes = 0
      const commit = async () => {
        if (batch.length > 0) await restored.commit(batch)
        batch = []
        bytes = 0
      }
      for await (const [key, value] of rows) {
        batch.push({ type: 'put', key, value })
        bytes += key.length + value.length
        if (bytes >= restoreBatchBytes) await commit()
      }
      await commit()
      await restored.moveToTables()
    } finally {
      await restored.close()
    }
  }

  /**
   * Acknowledged batches that are known to be lost, over the whole life of the store. Above 0 a
   * missing lookup proves nothing: do not delete because a reference is missing.
   */
  get lostBatches(): number {
    return this.#lostBatches
  }

  /**
   * Damaged files that were replaced and kept, ranges of keys in which rows are lost, and kinds of
   * lookups that may also have lost copies.
   */
  get damage(): { files: number; lostRanges: number; lostKinds: readonly string[] } {
    return { files: this.#damagedFiles, lostRanges: this.#lostRanges.count, lostKinds: this.#lostKinds }
  }

  /** Batches of this process that are on disk, and whose loss would not be noticed. */
  get unauditedBatches(): number {
    return this.#unauditedBatches
  }

  /** Why nothing is written now; undefined while writes work. */
  get failure(): JournalFault | undefined {
    return this.#writer.failure
  }

  /** As `failure`, but until a write has succeeded; a full disk does not count. */
  get failing(): PartFailure | undefined {
    const failing = this.#failing
    if (failing === undefined || isOutOfSpace(this.failure?.cause)) return undefined
    const isOver = this.failure === undefined && this.#clock.monotonic() - failing.lastMs > quietMs
    return isOver ? undefined : failing
  }

  /**
   * All rows of one moment, which is not before the first one is asked for, in the order of their
   * keys. The disk keeps what is deleted meanwhile until the iteration ends.
   * @throws JournalFault `UNAVAILABLE` when the store is opened again meanwhile.
   */
  everything(): AsyncIterable<[Uint8Array, Uint8Array]> {
    return this.#rows.scan({})
  }

  /** Writes what is queued, then releases the directory. Everything else is refused as `CLOSED`. */
  async close(): Promise<void> {
    this.#closing.abort()
    await this.#caring
    await this.#writer.close()
    await this.#audit.close()
    await this.#rows.close()
  }

  /**
   * Reads all tables from the disk, and opens LevelDB again if one is damaged, which replaces it;
   * writes fail meanwhile, as after an error of the disk.
   * @returns the damage in words; undefined: there is none
   */
  async scrub(options: FindDamageOptions): Promise<string | undefined> {
    const damage = await findDamage(join(this.#path, 'rows'), options)
    if (damage === undefined || this.#closing.signal.aborted) return undefined
    this.#foundDamage = damage
    // This write fails with the damage, and is reported like any failed write (`onFailure`).
    await this.#writer.write([]).catch(() => {})
    // If the store already refuses writes, no commit has taken the damage.
    this.#foundDamage = undefined
    return damage
  }

  async #commit(changes: RowChange[]): Promise<void> {
    const damage = this.#foundDamage
    this.#foundDamage = undefined
    if (damage !== undefined) throw Object.assign(new Error(damage), { code: 'LEVEL_CORRUPTION' })
    await this.#rows.commit(changes)
  }

  #failed(fault: JournalFault): void {
    this.#report(fault)
    const nowMs = this.#clock.monotonic()
    const before = this.#failing
    const goesOn = before !== undefined && nowMs - before.lastMs <= quietMs
    const { sinceMs, tries } = goesOn ? before : { sinceMs: nowMs, tries: 0 }
    this.#failing = { reason: fault.message, sinceMs, needsRestart: false, lastMs: nowMs, tries }
    const why = { isFull: isOutOfSpace(fault.cause), isDamage: isDamage(fault.cause) }
    const writable = this.#recover(why).then(() => this.#keepBallast())
    this.#caring = Promise.all([this.#caring, writable]).then(() => {})
  }

  #noted(written: boolean): void {
    if (!written) this.#unauditedBatches++
    if (!written && this.#audited) this.#options.onUnaudited(this.#audit.fault)
    this.#audited = written
  }

  #report(fault: JournalFault): void {
    if (this.#reported === fault.message) return
    this.#reported = fault.message
    this.#options.onFailure(fault)
  }

  /** Never rejects; ends when writes continue, or the store is closed. */
  async #recover({ isFull, isDamage }: { isFull: boolean; isDamage: boolean }): Promise<void> {
    const everyMs = this.#options.reopenEveryMs
    if (isFull) await this.#ballast.release()
    while (!this.#closing.signal.aborted) {
      // Failures other than a full disk may be over at once, or return with the next write.
      if (!isFull) await this.#pause(Math.min(everyMs, reopenFirstMs * 2 ** Math.min(20, this.#tries())))
      if (await this.#mayReopen()) {
        const fault = await this.#reopened({ all: isDamage })
        if (fault === undefined) return
        if (!isFull && isOutOfSpace(fault.cause)) {
          isFull = true
          await this.#ballast.release()
        }
      }
      if (isFull) await this.#pause(everyMs)
    }
  }

  #tries(): number {
    return this.#failing === undefined ? 0 : this.#failing.tries++
  }

  /**
   * Everything that opening needs is available: space, and files that can be made, written and
   * synced.
   */
  async #mayReopen(): Promise<boolean> {
    if ((await freeBytes(this.#path)) < reopenBytes) return false
    const names = Array.from({ length: reopenFiles }, (_, at) => join(this.#path, `probe.${at}`))
    const made = await Promise.allSettled(names.map((name) => open(name, 'w', 0o600)))
    const files = made.flatMap((one) => (one.status === 'fulfilled' ? one.value : []))
    try {
      if (files.length < names.length) return false
      await files[0]?.writeFile('probe')
      await files[0]?.sync()
      return true
    } catch {
      return false
    } finally {
      await Promise.allSettled(files.map((file) => file.close()))
      await Promise.allSettled(names.map((name) => rm(name, { force: true })))
    }
  }

  /**
   * As at a start of the process: LevelDB decides from its log what exists and writes that into a
   * new table, the commit audit is compared, and later decisions in memory are dropped.
   */
  async #reopened({ all }: { all: boolean }): Promise<JournalFault | undefined> {
    try {
      const { copyForReading: copy } = this.#options
      const reopen = () => this.#rows.reopen({ copy, all, damageOnDisk: all ? comparesOnDisk() : undefined })
      await this.#options.reopen(reopen)
      const found = await inspect(this.#rows, { path: this.#path, store: this.#store, hasCopies: true })
      reportLostBatches(found, this.#options)
      await this.#audit.close()
      this.#audit = await CommitAudit.begin(this.#path, this.#store)
      for (const note of found.suspicions) this.#suspicions.add(note)
      this.#lostRanges.replace([...found.lostRanges])
      this.#lostBatches = found.lostBatches
      this.#damagedFiles = found.damagedFiles
      this.#lostKinds = found.lostKinds
      this.#journals.forget()
      this.#lookups.forget()
      this.#writer.resume(found)
    } catch (error) {
      this.#report(error as JournalFault)
      return error as JournalFault
    }
    this.#reported = undefined
    this.#options.onReopened()
    return undefined
  }

  /** Reserves the ballast when there is room for more than that. Never rejects. */
  async #keepBallast(): Promise<void> {
    const { ballastBytes } = this.#options
    while (!this.#closing.signal.aborted && this.failure === undefined) {
      if ((await freeBytes(this.#path)) >= 2 * ballastBytes && (await this.#ballast.take())) return
      await this.#pause(ballastEveryMs)
    }
  }

  async #pause(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.#closing.signal, ref: false }).catch(() => {})
  }
}

function reportLostBatches(
  { newlyLost: { batches, accounts, kinds } }: InspectResult,
  { onDamage }: Pick<OpenOptions, 'onDamage'>,
): void {
  if (batches === 0 && kinds.length === 0) return
  const lost =
    batches === 0 ? ['what an earlier release lost'] : [`${batches} acknowledged writes at the end of a log`]
  onDamage({ files: [], lost, suspectAccounts: accounts, lostKinds: kinds })
}

function isOutOfSpace(cause: unknown): boolean {
  const { code, message } = (cause ?? {}) as { code?: string; message?: string }
  return (
    code === 'ENOSPC' || code === 'EDQUOT' || /No space left on device|quota exceeded/i.test(message ?? '')
  )
}

async function freeBytes(path: string): Promise<number> {
  try {
    return await writableBytes(path)
  } catch {
    return 0
  }
}

/**
 * LevelDB's own lock is the exclusive one; the file beside it only names its holder.
 * @param options.lastHolder who had the lookups last
 */
async function openAlone(
  path: string,
  { onDamage, lastHolder }: Pick<OpenOptions, 'onDamage'> & { lastHolder: StoreHolder },
): Promise<Rows> {
  try {
    const rows = await Rows.open(join(path, 'rows'), { onDamage, hasCopies: lastHolder.keepsCopies })
    await nameHolder(path, { keepsCopies: false })
    return rows
  } catch (error) {
    if (!isLocked(error)) throw error
    const { who } = await holderOf(path)
    throw new JournalFault('UNAVAILABLE', `the metadata store ${path} is held by ${who}`, { cause: error })
  }
}

/** Whether an opening failed because another process has the directory. */
export function isLocked(error: unknown): boolean {
  const { code, cause } = error as { code?: string; cause?: unknown }
  return code === 'LEVEL_LOCKED' || (cause instanceof Error && isLocked(cause))
}

/** Makes the directory and syncs all new ones, so that they survive a power cut. */
async function makeDurably(path: string): Promise<void> {
  const first = await makeDirectories(path)
  if (first === undefined) return
  for (let at = path; at.length >= first.length; at = dirname(at)) await syncDirectory(at)
  await syncDirectory(dirname(first))
}
