/**
 * Small rows beside the journals: routes (share code → content, e-mail → account), references of blobs, wake and active
 * rows, settings. A route is a hint, never proof: its target confirms.
 *
 * Keys are texts of printable ASCII, their parts joined by `/`, at most 512 bytes; values at most 4 KiB.
 */
export interface LookupStore {
  /** Puts and deletes; durable when it resolves. Not promised to be atomic: after a fault any part may be there. */
  write(changes: readonly LookupChange[]): Promise<void>

  get(key: string): Promise<Uint8Array | undefined>

  /** Rows whose key starts with the prefix, in key order, beginning behind `after`. */
  scan(prefix: string, options?: { after?: string; limit?: number }): AsyncIterable<LookupRow>

  /**
   * Puts the value unless the key is there; linearizable among all claimants.
   * @returns the value that holds now: one's own, or the earlier claimant's.
   */
  claim(key: string, value: Uint8Array): Promise<Uint8Array>

  /**
   * Takes `count` numbers nobody else gets: the first of `count` consecutive ones, durable before it resolves. What is taken and not used is lost.
   */
  take(counter: string, count: number): Promise<number>
}

export type LookupChange = { put: string; value: Uint8Array } | { delete: string }
export interface LookupRow {
  key: string
  value: Uint8Array
}
