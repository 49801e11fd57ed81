import type { RowChange } from '../writing/group-writer.ts'

export interface ScanRange {
  gte?: Uint8Array
  gt?: Uint8Array
  lt?: Uint8Array
  lte?: Uint8Array
}

/** The operations on rows in LevelDB that an opening needs. */
export interface StoredRows {
  get(key: Uint8Array): Promise<Uint8Array | undefined>
  scan(range: ScanRange, options?: { limit?: number }): AsyncIterable<[Uint8Array, Uint8Array]>
  /** All or none, on disk when it resolves. */
  commit(changes: RowChange[]): Promise<void>
}
