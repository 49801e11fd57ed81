/**
 * Small rows beside the journals: routes (share code → content, e-mail → account), references of
 * blobs, wake and active rows, settings. A route is a hint, never proof: its target confirms it.
 *
 * Keys are texts of printable ASCII, their parts joined by `/`, at most 512 bytes; values at most 4
 * KiB.
 */
export interface LookupStore {
  /**
   * Puts and deletes; durable when it resolves. Not necessarily atomic: after a fault any part may
   * be there.
   *
   * Changes of rows that one account owns carry a write time (`write-time.ts`): of two changes of
   * one row the one with the higher write time wins, in any order of arrival and independent of
   * clocks. A late change has no effect and is no fault. A row is written either always with a
   * write time or never. A store remembers the write time of a deleted row for at least as long as
   * a change of an earlier owner may be in transit.
   */
  write(changes: readonly LookupChange[], writeTime?: bigint): Promise<void>

  get(key: string): Promise<Uint8Array | undefined>

  /** Rows whose key starts with the prefix, in key order, beginning behind `after`. */
  scan(prefix: string, options?: { after?: string; limit?: number }): AsyncIterable<LookupRow>

  /**
   * For each prefix the first row that starts with it, in the order of the prefixes; undefined
   * where there is none. Rows of many places in few round trips: for full walks.
   * @param prefixes at most `maxPrefixes`, each a place of rows that are scanned together.
   */
  firstOf(prefixes: readonly string[]): Promise<(LookupRow | undefined)[]>

  /**
   * Puts the value unless the key exists; linearizable among all claimants.
   * @returns the current value: the caller's, or the earlier claimant's.
   */
  claim(key: string, value: Uint8Array): Promise<Uint8Array>

  /**
   * Takes `count` unique numbers: returns the first of `count` consecutive ones, durable before it
   * resolves. Unused ones are lost.
   */
  take(counter: string, count: number): Promise<number>
}

/**
 * All rows of a kind, for full walks: optional for a store. In the store's own order, which
 * continues from any row's `place` after a restart too. Concurrent writes may be seen or not;
 * unchanged rows are seen at least once.
 */
export interface LookupWalk {
  /**
   * @param kind the first segment of the keys.
   * @param options.after a `place` of an earlier walk.
   */
  walk(kind: string, options?: { after?: string }): AsyncIterable<{ key: string; place: string }>
}

export type LookupChange = { put: string; value: Uint8Array } | { delete: string }

export function lookupKeyOf(change: LookupChange): string {
  return 'put' in change ? change.put : change.delete
}

/** The part of a row's key before its first slash. */
export function lookupKindOf(key: string): string {
  return key.slice(0, Math.max(0, key.indexOf('/')))
}

export interface LookupRow {
  key: string
  value: Uint8Array
}
