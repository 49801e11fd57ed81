/**
 * Ids and share codes of copies: derived from a change's seed and code counter, so that replay
 * makes the same ones. And codes of other new content, whose events name them.
 */
import { type AccountId, sha256 } from '@holdfast/kernel'
import type { TreeSettings } from './contract.ts'

export class NewIds {
  readonly #settings: TreeSettings
  readonly #account: AccountId
  readonly #seed: Uint8Array
  readonly #codeStart: number
  #ids = 0
  #codes = 0

  constructor(
    settings: TreeSettings,
    { account, seed, codeStart }: { account: string; seed: Uint8Array; codeStart: number },
  ) {
    this.#settings = settings
    this.#account = account as AccountId
    this.#seed = seed
    this.#codeStart = codeStart
  }

  get codesUsed(): number {
    return this.#codes
  }

  /** The next ids and codes, as many of each. */
  both(count: number): { ids: string[]; codes: string[] } {
    const randoms = Array.from({ length: count }, (_, place) => this.#random(this.#ids + place))
    const ids = this.#settings.ids.contents(this.#account, randoms)
    const codes = this.#settings.codes.codes(this.#codeStart + this.#codes, count)
    this.#ids += count
    this.#codes += count
    return { ids, codes }
  }

  /** SHA-256 of (seed ‖ index, 4 bytes big-endian). */
  #random(index: number): Uint8Array {
    const number = Buffer.allocUnsafe(4)
    number.writeUInt32BE(index)
    return sha256([this.#seed, number])
  }

  code(): string {
    return this.#settings.codes.code(this.#codeStart + this.#codes++)
  }
}
