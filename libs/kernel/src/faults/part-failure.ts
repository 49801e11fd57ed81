/**
 * A part that has failed and has not yet recovered. Parts report it as a value; undefined while all
 * is well. A condition that a restart cannot cure, such as a full disk, is not reported this way.
 */
export interface PartFailure {
  /** In an operator's terms. */
  reason: string
  /** Monotonic time of the first failure since all was well. */
  sinceMs: number
  /** It does not recover by itself: only a restart helps. */
  needsRestart: boolean
}
