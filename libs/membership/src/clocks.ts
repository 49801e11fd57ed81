/**
 * Wall clocks compared. Time services keep them within milliseconds. A clock that is hours off acts
 * on times in the future, or long past.
 */

/**
 * Beyond this a wall clock is off: far more than the error of a time service, or the delay of a
 * message.
 */
export const clockToleranceMs = 2_000

/**
 * How far each wall clock is ahead of the median of all, ms; behind it: negative.
 *
 * An even number of clocks has two in the middle, and each clock is compared with the farther of
 * them. So while fewer than half are off, exactly those are reported; when half are, all are. Of
 * two different clocks either may be right: both are reported.
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
