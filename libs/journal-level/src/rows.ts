/** LevelDB as the stores see it: bytes in, bytes out, and our faults instead of the driver's. */
import { JournalFault } from '@holdfast/journal'
import { Level } from 'level'
import type { RowChange } from './group-writer.ts'
import { damagedTables, liveTables } from './tables.ts'

export interface KeyRange {
  gte?: Uint8Array
  gt?: Uint8Array
  lt?: Uint8Array
  lte?: Uint8Array
}

/** Rows fetched at a time while iterating. */
const pageRows = 256
/** Bytes an iterator reads ahead. */
const readAheadBytes = 256 * 1024

/** Only in LevelDB's binding, so the type that also covers browsers lacks it. */
interface Properties {
  getProperty(name: string): string
}

export class Rows {
  readonly #path: string
  #level: Level<Uint8Array, Uint8Array>
  #reopening: Promise<void> | undefined
  #closed = false

  private constructor(path: string, level: Level<Uint8Array, Uint8Array>) {
    this.#path = path
    this.#level = level
  }

  /**
   * @throws JournalFault `UNAVAILABLE` when another process holds it, `CORRUPT` when it cannot be
   *   read.
   */
  static async open(path: string): Promise<Rows> {
    return new Rows(path, await openLevel(path))
  }

  /**
   * Closes it and opens it again, after a write failed: LevelDB accepts no other write until then.
   * Reads wait. A running iteration ends with `UNAVAILABLE`, and so do reads after a failed
   * attempt, until the next one, unless there is a copy.
   *
   * @param copy makes one that is read, not written, after a failed attempt: the path of `rows` on
   *   a disk that has room; never rejects
   * @throws JournalFault as `open` does.
   */
  async reopen(copy?: (rows: string) => Promise<string | undefined>): Promise<void> {
    const reopened = Promise.withResolvers<void>()
    this.#reopening = reopened.promise
    try {
      await this.#level.close()
      try {
        this.#level = await openLevel(this.#path)
      } catch (error) {
        const path = await copy?.(this.#path)
        if (path !== undefined) this.#level = await openLevel(path)
        throw error
      }
    } finally {
      this.#reopening = undefined
      reopened.resolve()
    }
  }

  async get(key: Uint8Array): Promise<Uint8Array | undefined> {
    await this.#reopening
    try {
      return await this.#level.get(key)
    } catch (error) {
      throw this.#faultOfStore(error)
    }
  }

  async *scan(range: KeyRange, { limit }: { limit?: number } = {}): AsyncGenerator<[Uint8Array, Uint8Array]> {
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

  #iterator(range: KeyRange, limit = -1) {
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

async function openLevel(path: string): Promise<Level<Uint8Array, Uint8Array>> {
  const level = new Level<Uint8Array, Uint8Array>(path, {
    keyEncoding: 'view',
    valueEncoding: 'view',
    compression: false,
  })
  try {
    await level.open()
  } catch (error) {
    throw faultOfLevel((error as Error).cause ?? error)
  }
  const properties = level as unknown as Properties
  const live = () => liveTables(properties.getProperty('leveldb.sstables'))
  let damaged: string[]
  try {
    damaged = await damagedTables(path, live)
  } catch (error) {
    await level.close() // it holds the lock, and nothing else would release it
    throw faultOfLevel(error)
  }
  if (damaged.length === 0) return level
  await level.close()
  throw new JournalFault('CORRUPT', `the metadata store ${path}: ${damaged.join(', ')}`)
}

function faultOfLevel(error: unknown): JournalFault {
  if (error instanceof JournalFault) return error
  const { code, message } = error as { code?: string; message?: string }
  if (code === 'LEVEL_CORRUPTION') {
    return new JournalFault('CORRUPT', `the metadata store: ${message}`, { cause: error })
  }
  return new JournalFault('UNAVAILABLE', `the metadata store: ${message ?? String(error)}`, { cause: error })
}
