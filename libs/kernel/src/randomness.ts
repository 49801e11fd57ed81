/** Randomness as a parameter, so that a seed reproduces a run. */
import { randomFillSync } from 'node:crypto'

export interface Randomness {
  /** Fresh bytes, not shared. */
  bytes(count: number): Uint8Array
  /** 0 ≤ n < 1, for jitter. */
  fraction(): number
}

const poolBytes = 4096

/** The system's generator, drawn in blocks: every decision takes a seed. */
export function systemRandomness(): Randomness {
  let pool = Buffer.alloc(0)
  return {
    bytes(count) {
      if (count > pool.length) pool = randomFillSync(Buffer.alloc(Math.max(poolBytes, count)))
      const taken = pool.subarray(0, count)
      pool = pool.subarray(count)
      return taken
    },
    fraction: Math.random,
  }
}
