/**
 * A cache of what is costly to derive and never changes: two generations, of which the older one is
 * dropped whole when the younger one is full. What is used stays; a flood of keys that are used
 * once costs no more than the bound.
 */
export class RecentMap<K, V> {
  readonly #generationMax: number
  #young = new Map<K, V>()
  #old = new Map<K, V>()

  /** @param max entries kept at most. At least half as many of the latest are there. */
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
