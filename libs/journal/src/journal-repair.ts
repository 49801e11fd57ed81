/**
 * A damaged journal as it lies there, and a way to begin it again.
 *
 * The ways of `JournalStore` refuse whatever is not proven. An operator's repair looks at all that
 * is stored, decides what of it holds, and replaces it: it seizes the account, writes a checkpoint
 * through the last row that is known of, and trims what lies behind it. From then on the journal is
 * an ordinary one.
 */
import type { JournalHold } from './journal-store.ts'

/** Something that is stored of an account. */
export type JournalRemain = {
  /** The bytes as they are stored, with all that proves them. */
  stored: Uint8Array
  /** What is wrong with them; undefined: they are what was written. */
  damage?: string | undefined
} & (
  | {
      /** Always there for an account of which anything is stored. */
      kind: 'facts'
      /** What they say; undefined when they are missing or damaged. */
      facts: { head: number; chain: Uint8Array } | undefined
      /** The last row that they tell of, or the one who noticed a loss. */
      lastRow: number
    }
  /** @param bytes of what was written; undefined when that is damaged. */
  | { kind: 'root'; bytes: Uint8Array | undefined }
  | {
      kind: 'row'
      seq: number
      row: { predecessor: Uint8Array; checksum: Uint8Array; bytes: Uint8Array } | undefined
    }
  | { kind: 'page'; name: string; bytes: Uint8Array | undefined }
)

export interface JournalRepair {
  /**
   * All that is stored of an account: facts, root, rows in order, pages in order. What is missing
   * is missing. Nothing is changed. Where another copy is kept, a row that is damaged or missing
   * comes from there if it is whole.
   *
   * @throws JournalFault `UNAVAILABLE`.
   */
  remains(account: string): AsyncIterable<JournalRemain>

  /** Every copy of a page that is kept, as far as it can be read. */
  copiesOfPage(account: string, name: string): AsyncIterable<Uint8Array>

  /**
   * Takes the account over whatever is damaged. The hold's head is the last row that anything tells
   * of; rows up to there must not be read with it. It is good for `setRoot` through its head,
   * `trim` and `release`. Repeating it is harmless. Durable when it resolves.
   *
   * @param aboveEpoch the hold's epoch is above it: names of pages hold epochs, and are used once.
   * @throws JournalFault `UNAVAILABLE`.
   */
  seize(account: string, options: { owner: string; aboveEpoch: number }): Promise<JournalHold>
}
