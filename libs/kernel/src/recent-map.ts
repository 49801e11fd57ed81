/**
 * A cache of values that are costly to derive and never change. It has two generations; the older
 * one is dropped whole when the younger one is full. Used entries stay; a flood of keys that are
 * used once costs no more than the bound.
 */
export class RecentMap<K, V> {
  readonly #generationMax: number
  #young = new Map<K, V>()
  #old = new Map<K, V>()

  /** @param max entries kept at most. It keeps at least the latest half of that. */
  constructor({ max }: { max: number }) {
    this.#generationMax = Math.max(1, Math.floor(max / 2))
  }

  get(key: K): V | undefined {
    const young = this.#young.get(key)
    if (young !== undefined) return young
    const old = this.#old.get(key)
    if (old !== undefined) this.set(key, old)
    return old
  }

  set(key: K, value: V): void {
    if (this.#young.size >= this.#generationMax) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(key, value)
  }
}
