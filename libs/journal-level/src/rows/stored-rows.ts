import type { RowChange } from '../writing/group-writer.ts'

export interface ScanRange {
  gte?: Uint8Array
  gt?: Uint8Array
  lt?: Uint8Array
  lte?: Uint8Array
}

/** Rows in LevelDB, as what an opening does with them needs them. */
export interface StoredRows {
  get(key: Uint8Array): Promise<Uint8Array | undefined>
  scan(range: ScanRange, options?: { limit?: number }): AsyncIterable<[Uint8Array, Uint8Array]>
  /** All or none, on disk when it resolves. */
  commit(changes: RowChange[]): Promise<void>
}
