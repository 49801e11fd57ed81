/**
 * The part of the binding's types that is used here. Every write runs, and blocks, on the calling
 * thread.
 */
declare module '@nxtedition/rocksdb' {
  export interface RocksOptions {
    createIfMissing?: boolean
    keyEncoding?: 'buffer'
    valueEncoding?: 'buffer'
    compression?: boolean
    walCompression?: boolean
    cacheSize?: number
    compaction?: 'level' | 'universal'
    /** Only together with `compaction`. */
    memtableMemoryBudget?: number
    parallelism?: number
    infoLogLevel?: string
  }

  export interface RocksBatch {
    _put(key: Uint8Array, value: Uint8Array, options?: object): void
    _del(key: Uint8Array, options?: object): void
    /** Unlike `put`, honours `sync`. */
    _writeSync(options: { sync: boolean }): void
    _closeSync(): void
  }

  export interface RocksIterator {
    nextv(count: number): Promise<[Buffer, Buffer][]>
    close(): Promise<void>
  }

  export class RocksLevel {
    constructor(location: string, options?: RocksOptions)
    open(): Promise<void>
    close(): Promise<void>
    batch(): RocksBatch
    iterator(options: { gte?: Uint8Array; gt?: Uint8Array; lt?: Uint8Array; limit?: number }): RocksIterator
    _getManySync(keys: Uint8Array[], options?: object): (Buffer | undefined)[]
  }
}
