/**
 * Waiting items in lanes that take turns: the next one is the oldest of the lane that was served
 * longest ago. An empty lane takes no memory, and is last when it returns. The caller enforces a
 * bound.
 */
export class RoundRobin<K, V> {
  /** The first lane's turn is next. */
  readonly #lanes = new Map<K, V[]>()
  #size = 0

  /** Number of waiting items, in all lanes. */
  get size(): number {
    return this.#size
  }

  push(lane: K, waiting: V): void {
    const others = this.#lanes.get(lane)
    if (others === undefined) this.#lanes.set(lane, [waiting])
    else others.push(waiting)
    this.#size++
  }

  /** Removes and returns the next one. */
  shift(): V | undefined {
    for (const [lane, waiting] of this.#lanes) {
      const next = waiting.shift()
      this.#lanes.delete(lane)
      if (waiting.length > 0) this.#lanes.set(lane, waiting)
      this.#size--
      return next
    }
    return undefined
  }

  /** Removes and returns everything, lane by lane. */
  clear(): V[] {
    const all = [...this.#lanes.values()].flat()
    this.#lanes.clear()
    this.#size = 0
    return all
  }
}
