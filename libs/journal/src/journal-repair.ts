/**
 * A damaged journal as it is stored, and a way to begin it again.
 *
 * `JournalStore` refuses everything unproven. An operator's repair reads everything stored, decides
 * what is valid, and replaces it: it seizes the account, writes a checkpoint through the last known
 * row, and trims what is behind it. From then on the journal is an ordinary one.
 */
import type { JournalOwnership } from './journal-store.ts'

/** Something that is stored of an account. */
export type JournalRemain = {
  /** The bytes as stored, with everything that proves them. */
  stored: Uint8Array
  /** Their damage; undefined: they are as written. */
  damage?: string | undefined
} & (
  | {
      /** Present for every account with stored data. */
      kind: 'statics'
      /** Their content; undefined when they are missing or damaged. */
      statics: { head: number; chain: Uint8Array } | undefined
      /** The last row named by them, or by the part that noticed a loss. */
      lastRow: number
    }
  /** @param bytes as written; undefined when damaged. */
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
   * Everything stored of an account: static columns, root, rows in order, pages in order, as far as
   * it exists. Nothing is changed. Where another copy is kept, a damaged or missing row comes from
   * there if it is whole.
   *
   * @throws JournalFault `UNAVAILABLE`.
   */
  remains(account: string): AsyncIterable<JournalRemain>

  /** Every kept copy of a page, as far as it can be read. */
  copiesOfPage(account: string, name: string): AsyncIterable<Uint8Array>

  /**
   * Takes the account over, in any state of damage. The head of the new ownership is the highest
   * row number of which there is any trace. Rows up to it may be missing or damaged: do not read
   * them with this ownership. It is valid for `setRoot` through its head, `trim` and `release`.
   * Repeating it is harmless. Durable when it resolves.
   *
   * @param aboveEpoch the ownership's epoch is above it: names of pages contain epochs, and are
   *   used once.
   * @throws JournalFault `UNAVAILABLE`.
   */
  seize(account: string, options: { owner: string; aboveEpoch: number }): Promise<JournalOwnership>
}
