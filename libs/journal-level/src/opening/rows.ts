/** LevelDB as the stores see it: bytes in, bytes out, and our faults instead of the driver's. */
import { readdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { JournalFault } from '@holdfast/journal'
import { CompressedTableError } from '@holdfast/level-files'
import { Level } from 'level'
import { type DamagedFile, forgetDamage } from '../damage/damage-record.ts'
import { manifestInUse } from '../damage/find-damage.ts'
import { applyLoss } from '../damage/loss.ts'
import { needsSalvage, type SalvageOptions, salvageRows } from '../damage/salvage.ts'
import { isUnreadableFile } from '../damage/tolerant-read.ts'
import { rangeInWords } from '../rows/lost-ranges.ts'
import type { ScanRange, StoredRows } from '../rows/stored-rows.ts'
import type { RowChange } from '../writing/group-writer.ts'

/** Rows fetched at a time while iterating. */
const pageRows = 256
/** Bytes an iterator reads ahead. */
const readAheadBytes = 256 * 1024

/** Only in LevelDB's binding, so the type that also covers browsers lacks it. */
interface Compaction {
  compactRange(start: Uint8Array, end: Uint8Array): Promise<void>
}

/** Behind all keys. */
const noKey = Buffer.of(255)

/** What an opening found damaged, and did about it. */
export interface MetadataDamage {
  /** They were replaced, and are kept beside the rows. */
  files: Omit<DamagedFile, 'isGone'>[]
  /** Keys of rows that may be lost, in words. */
  lost: string[]
  /** Accounts with rows left that have to be repaired. */
  suspectAccounts: number
  /** Kinds of lookups of which rows may be lost with their copies. */
  lostKinds: string[]
}

export interface OpenOptions {
  onDamage: (damage: MetadataDamage) => void
  /** The process that had it last kept the copies of lookups. */
  hasCopies: boolean
}

export interface ReopenOptions extends SalvageOptions {
  copy?: ((rows: string) => Promise<string | undefined>) | undefined
}

export class Rows implements StoredRows {
  readonly #path: string
  readonly #options: OpenOptions
  #level: Level<Uint8Array, Uint8Array>
  #reopening: Promise<void> | undefined
  #closed = false

  private constructor(path: string, level: Level<Uint8Array, Uint8Array>, options: OpenOptions) {
    this.#path = path
    this.#options = options
    this.#level = level
  }

  /**
   * @throws JournalFault `UNAVAILABLE` when another process holds it, `CORRUPT` when it cannot be
   *   read.
   */
  static async open(
    path: string,
    options: OpenOptions = { onDamage: () => {}, hasCopies: true },
  ): Promise<Rows> {
    return new Rows(path, await openLevel(path, { ...options, all: true, damageOnDisk: undefined }), options)
  }

  /**
   * Closes it and opens it again, after a write failed: LevelDB accepts no other write until then.
   * Reads wait. A running iteration ends with `UNAVAILABLE`. After a failed attempt reads end with
   * `UNAVAILABLE` until the next attempt, unless there is a copy.
   *
   * @param options.copy makes one that is read, not written, after a failed attempt: the path of
   *   `rows` on a disk that has room; never rejects
   * @param options.all compares all tables: the disk may have returned an error for any
   * @throws JournalFault as `open` does.
   */
  async reopen({ copy, all, damageOnDisk }: ReopenOptions): Promise<void> {
    const reopened = Promise.withResolvers<void>()
    this.#reopening = reopened.promise
    try {
      await this.#level.close()
      try {
        this.#level = await openLevel(this.#path, { ...this.#options, all, damageOnDisk, hasCopies: true })
      } catch (error) {
        const path = await copy?.(this.#path)
        if (path !== undefined) this.#level = await openCopy(path)
        throw error
      }
    } finally {
      this.#reopening = undefined
      reopened.resolve()
    }
  }

  /** For a LevelDB that is open. */
  static of(path: string, level: Level<Uint8Array, Uint8Array>): Rows {
    return new Rows(path, level, { onDamage: () => {}, hasCopies: true })
  }

  async get(key: Uint8Array): Promise<Uint8Array | undefined> {
    await this.#reopening
    try {
      return await this.#level.get(key)
    } catch (error) {
      throw this.#faultOfStore(error)
    }
  }

  async *scan(
    range: ScanRange,
    { limit }: { limit?: number } = {},
  ): AsyncGenerator<[Uint8Array, Uint8Array]> {
    await this.#reopening
    const iterator = this.#iterator(range, limit)
    try {
      for (;;) {
        const entries = await iterator.nextv(pageRows)
        if (entries.length === 0) return
        yield* entries
      }
    } catch (error) {
      throw this.#faultOfStore(error)
    } finally {
      await iterator.close()
    }
  }

  #iterator(range: ScanRange, limit = -1) {
    try {
      return this.#level.iterator({ ...range, limit, highWaterMarkBytes: readAheadBytes })
    } catch (error) {
      throw this.#faultOfStore(error)
    }
  }

  /**
   * All or none, on disk when it resolves. Without `sync` LevelDB would acknowledge from the page
   * cache.
   */
  async commit(changes: RowChange[]): Promise<void> {
    const batch = this.#level.batch()
    for (const change of changes)
      if (change.type === 'put') batch.put(change.key, change.value)
      else batch.del(change.key)
    await batch.write({ sync: true })
  }

  /**
   * Moves all committed rows from the log into tables; they are there when it resolves.
   *
   * It is for rows that no marker and no audit entry names: if the log is damaged later, LevelDB
   * drops such rows without a sign. For a damaged table the lost ranges of keys are known.
   *
   * @throws JournalFault UNAVAILABLE
   */
  async moveToTables(): Promise<void> {
    const logs = (await readdir(this.#path)).filter((name) => name.endsWith('.log'))
    const newest = Math.max(0, ...logs.map((name) => Number.parseInt(name, 10)))
    await this.#compact(noKey, noKey)
    // Whether that worked is only in the manifest: it names the oldest log that is still needed.
    const manifest = await manifestInUse(this.#path)
    if (manifest !== undefined && manifest.logNumber > newest) return
    try {
      // If LevelDB knows why it failed, it refuses writes with that.
      await this.commit([{ type: 'del', key: noKey }])
    } catch (error) {
      throw faultOfLevel(error)
    }
    throw new JournalFault('UNAVAILABLE', 'the metadata store: its log cannot be moved into tables')
  }

  /** Brings all tables into the order of their age. */
  async compact(): Promise<void> {
    await this.#compact(Buffer.of(0), noKey)
  }

  async #compact(first: Uint8Array, last: Uint8Array): Promise<void> {
    await (this.#level as unknown as Compaction).compactRange(first, last)
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.#level.close()
  }

  #faultOfStore(error: unknown): JournalFault {
    const fault = faultOfLevel(error)
    const { code } = error as { code?: string }
    if (code !== 'LEVEL_DATABASE_NOT_OPEN' && code !== 'LEVEL_ITERATOR_NOT_OPEN') return fault
    return this.#closed
      ? new JournalFault('CLOSED', 'the metadata store is closed', { cause: error })
      : new JournalFault('UNAVAILABLE', 'the metadata store is being opened again', { cause: error })
  }
}

type Binary = Level<Uint8Array, Uint8Array>

/** Opens it with everything that can be read. */
async function openLevel(path: string, options: HealingOptions): Promise<Binary> {
  try {
    if (await needsSalvage(path, options)) return await openSalvaged(path, options)
    return await opened(path)
  } catch (error) {
    if (options.all || !isDamage(error)) throw faultOfLevel(error)
  }
  // The damage is in an older table, which was not compared.
  try {
    return await openSalvaged(path, { ...options, all: true })
  } catch (error) {
    throw faultOfLevel(error)
  }
}

interface HealingOptions extends OpenOptions, SalvageOptions {}

/** What was lost is written into it before anything is read from it. */
async function openSalvaged(path: string, options: HealingOptions): Promise<Binary> {
  const { onDamage, hasCopies } = options
  const { files, lost, isRebuilt } = await salvageRows(path, options)
  const level = await opened(path)
  try {
    const rows = Rows.of(path, level)
    if (isRebuilt) await rows.compact()
    const { suspectAccounts, lostKinds } = await applyLoss(rows, { lost, isRebuilt, hasCopies })
    await rows.moveToTables()
    await forgetDamage(dirname(path))
    if (files.length > 0)
      onDamage({
        files: files.map(({ name, damage }) => ({ name, damage })),
        lost: lost.map(rangeInWords),
        suspectAccounts,
        lostKinds,
      })
    return level
  } catch (error) {
    await level.close() // it holds the lock, and nothing else would release it
    throw error
  }
}

/**
 * Opens the copy of a store that could not be opened. The state in memory of that store is used
 * with the copy.
 */
async function openCopy(path: string): Promise<Binary> {
  if (await needsSalvage(path, { all: false, damageOnDisk: undefined }))
    throw new JournalFault('CORRUPT', `the metadata store ${path} is damaged`)
  return opened(path)
}

async function opened(path: string): Promise<Binary> {
  const level: Binary = new Level(path, {
    keyEncoding: 'view',
    valueEncoding: 'view',
    compression: false,
  })
  try {
    await level.open()
    return level
  } catch (error) {
    throw (error as Error).cause ?? error
  }
}

/** Whether a fault of LevelDB comes from what is on the disk. */
export function isDamage(error: unknown): boolean {
  return (error as { code?: string }).code === 'LEVEL_CORRUPTION' || isUnreadableFile(error)
}

function faultOfLevel(error: unknown): JournalFault {
  if (error instanceof JournalFault) return error
  const { code, message } = error as { code?: string; message?: string }
  if (code === 'LEVEL_CORRUPTION' || error instanceof CompressedTableError) {
    return new JournalFault('CORRUPT', `the metadata store: ${message}`, { cause: error })
  }
  return new JournalFault('UNAVAILABLE', `the metadata store: ${message ?? String(error)}`, { cause: error })
}
