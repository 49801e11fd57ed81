/** Ids for new content of one account, made several at once: that takes a quarter of the CPU. */
import type { AccountStates } from '@holdfast/content-tree'
import type { Randomness } from '@holdfast/kernel'

/** Few accounts get more content while they are in memory, and larger batches save nothing. */
const idsAtOnceMax = 16
const randomBytes = 8

export class SpareIds {
  readonly #account: string
  readonly #states: AccountStates
  readonly #randomness: Randomness
  readonly #ready: string[] = []
  /** Doubles up to the most: an account that gets one file does not pay for sixteen ids. */
  #atOnce = 1

  constructor(account: string, { states, randomness }: { states: AccountStates; randomness: Randomness }) {
    this.#account = account
    this.#states = states
    this.#randomness = randomness
  }

  take(): string {
    return this.#ready.pop() ?? this.#make()
  }

  #make(): string {
    const randoms = Array.from({ length: this.#atOnce }, () => this.#randomness.bytes(randomBytes))
    const [first, ...rest] = this.#states.newIds(this.#account, randoms) as [string, ...string[]]
    this.#ready.push(...rest)
    this.#atOnce = Math.min(this.#atOnce * 2, idsAtOnceMax)
    return first
  }
}
