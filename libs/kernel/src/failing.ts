/**
 * A part that fails, tries to recover by itself, and has not done so yet. Parts tell it as a value;
 * undefined while all is well. What a restart cannot cure, such as a full disk, is not told so.
 */
export interface Failing {
  /** In an operator's words. */
  reason: string
  /** Monotonic time of the first failure since all was well. */
  sinceMs: number
}
