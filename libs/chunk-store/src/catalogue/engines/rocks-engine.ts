import { type RocksBatch, RocksLevel } from '@nxtedition/rocksdb'
import type { CatalogueRange, Engine, Values } from './engine.ts'

/**
 * Written to tables of 8 MiB, of which six may wait. The default is 64 MiB: memory that grows for
 * 80,000 uploads, and slow to insert into.
 */
const memtableMemoryBudget = 32 * 1024 * 1024

/**
 * RocksDB. Every write of the binding blocks its thread, a synced one for as long as the device
 * takes. `batch` is used throughout, because the binding's `put` silently does not sync. The
 * binding ends the process when a closed database is read.
 */
export class RocksEngine implements Engine {
  readonly #db: RocksLevel

  constructor(path: string) {
    this.#db = new RocksLevel(path, {
      createIfMissing: true,
      keyEncoding: 'buffer',
      valueEncoding: 'buffer',
      compression: false,
      walCompression: false,
      cacheSize: 32 * 1024 * 1024,
      compaction: 'level',
      memtableMemoryBudget,
    })
  }

  open(): Promise<void> {
    return this.#db.open()
  }

  getMany(keys: readonly Buffer[]): Values {
    return this.#db._getManySync(keys as Buffer[])
  }

  write(changes: readonly (Buffer | undefined)[], sync: boolean): void {
    const batch: RocksBatch = this.#db.batch()
    try {
      for (let n = 0; n < changes.length; n += 2) {
        const value = changes[n + 1]
        if (value === undefined) batch._del(changes[n] as Buffer)
        else batch._put(changes[n] as Buffer, value)
      }
      batch._writeSync({ sync })
    } finally {
      batch._closeSync()
    }
  }

  async scan({ from, after, until, limit }: CatalogueRange): Promise<[Buffer, Buffer][]> {
    const begin = after === undefined ? { gte: from } : { gt: after }
    const iterator = this.#db.iterator({ ...begin, lt: until, limit })
    const rows: [Buffer, Buffer][] = []
    try {
      while (rows.length < limit) {
        const some = await iterator.nextv(Math.min(1000, limit - rows.length))
        if (some.length === 0) break
        rows.push(...some)
      }
      return rows
    } finally {
      await iterator.close()
    }
  }

  close(): Promise<void> {
    return this.#db.close()
  }
}
