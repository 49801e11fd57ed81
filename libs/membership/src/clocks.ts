/**
 * Wall clocks compared. Time services keep them within milliseconds; one that stands hours off acts
 * on times that are not there yet, or are long over.
 */

/** Past this a wall clock is off: far more than a time service leaves, or a message takes. */
export const clockToleranceMs = 2_000

/**
 * How far each wall clock is ahead of the median of all, ms; behind it: negative.
 *
 * Of an even number two are in the middle, and each clock is held against the farther of them. So
 * while fewer than half are off, exactly those are off here; when half are, all are. Of two that
 * differ nobody can tell which is right: both are off.
 */
export function clockOffsets(clocks: readonly number[]): number[] {
  const sorted = [...clocks].sort((one, other) => one - other)
  const middles = [sorted[(sorted.length - 1) >> 1] ?? 0, sorted[sorted.length >> 1] ?? 0]
  return clocks.map((clock) => {
    const [low, high] = middles.map((middle) => clock - middle) as [number, number]
    return Math.abs(low) > Math.abs(high) ? low : high
  })
}

export function isClockOff({ clockOffsetMs }: { clockOffsetMs: number }): boolean {
  return Math.abs(clockOffsetMs) > clockToleranceMs
}
