/**
 * Small rows beside the journals: routes (share code → content, e-mail → account), references of
 * blobs, wake and active rows, settings. A route is a hint, never proof: its target confirms.
 *
 * Keys are texts of printable ASCII, their parts joined by `/`, at most 512 bytes; values at most 4
 * KiB.
 */
export interface LookupStore {
  /**
   * Puts and deletes; durable when it resolves. Not promised to be atomic: after a fault any part
   * may be there.
   *
   * Changes of rows that one account owns carry a write time (`write-time.ts`): of two changes of
   * one row the one with the higher write time holds, whichever comes first and whatever clocks
   * say. One that is too late changes nothing and is no fault. A row is written either always with
   * a write time or never. How long a store remembers the write time of a deleted row is its own:
   * at least as long as a change of an earlier owner may be under way.
   */
  write(changes: readonly LookupChange[], writeTime?: bigint): Promise<void>

  get(key: string): Promise<Uint8Array | undefined>

  /** Rows whose key starts with the prefix, in key order, beginning behind `after`. */
  scan(prefix: string, options?: { after?: string; limit?: number }): AsyncIterable<LookupRow>

  /**
   * For each prefix the first row that starts with it, in the order of the prefixes; undefined
   * where there is none. Rows of many places in few round trips: for those who look at all of
   * something.
   * @param prefixes at most `maxPrefixes`, each a place of rows that are scanned together.
   */
  firstOf(prefixes: readonly string[]): Promise<(LookupRow | undefined)[]>

  /**
   * Puts the value unless the key is there; linearizable among all claimants.
   * @returns the value that holds now: one's own, or the earlier claimant's.
   */
  claim(key: string, value: Uint8Array): Promise<Uint8Array>

  /**
   * Takes `count` numbers nobody else gets: the first of `count` consecutive ones, durable before
   * it resolves. What is taken and not used is lost.
   */
  take(counter: string, count: number): Promise<number>
}

/**
 * All rows of a kind, for those who look at each of them: what a store may offer besides. In an
 * order of the store's own, which goes on from any row's `place` after a restart too. What is
 * written meanwhile may be seen or not; what stays as it is, is seen at least once.
 */
export interface LookupWalk {
  /**
   * @param kind the first segment of the keys.
   * @param options.after a `place` of an earlier walk.
   */
  walk(kind: string, options?: { after?: string }): AsyncIterable<{ key: string; place: string }>
}

export type LookupChange = { put: string; value: Uint8Array } | { delete: string }
export interface LookupRow {
  key: string
  value: Uint8Array
}
