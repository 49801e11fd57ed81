/**
 * Things that wait, in lanes that take turns: the next one is the oldest of the lane that has been
 * served longest ago. A lane that has nothing waiting takes no memory, and comes last when it comes
 * again. Who adds keeps the bound.
 */
export class RoundRobin<K, V> {
  /** The first lane's turn is next. */
  readonly #lanes = new Map<K, V[]>()
  #size = 0

  /** How many wait, in all lanes. */
  get size(): number {
    return this.#size
  }

  push(lane: K, waiting: V): void {
    const others = this.#lanes.get(lane)
    if (others === undefined) this.#lanes.set(lane, [waiting])
    else others.push(waiting)
    this.#size++
  }

  /** The next one, which waits no more. */
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

  /** Everything that waits, lane by lane; nothing does any more. */
  clear(): V[] {
    const all = [...this.#lanes.values()].flat()
    this.#lanes.clear()
    this.#size = 0
    return all
  }
}
