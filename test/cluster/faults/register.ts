/**
 * Whether the writes and reads of one place can have happened in one order, each operation at a
 * time between its request and its answer (linearizability), when every value is written once
 * (Gibbons and Korach, 1997).
 *
 * All operations on a value form a cluster. Its first answer gives the latest time at which the
 * value appeared, its last request a time at which it was still there. A value that appeared before
 * another was last seen must precede it in the order; two values that must both precede each other
 * contradict. Nothing else needs to be checked. A write without an answer may have happened at any
 * time after its request, or never: it counts from its first read.
 */

export interface Write {
  value: string
  /** Monotonic ms; the initial value has -Infinity twice. */
  asked: number
  /** Infinity: the outcome is unknown. */
  answered: number
}

export interface Read {
  value: string
  asked: number
  answered: number
}

export interface Contradiction {
  /**
   * `never`: it was not written, or not yet. `order`: both values would have to be the older one.
   */
  kind: 'never' | 'order'
  value: string
  other?: string
}

interface Cluster {
  value: string
  firstAnswer: number
  lastAsking: number
}

export function contradictionsOf(writes: readonly Write[], reads: readonly Read[]): Contradiction[] {
  const found: Contradiction[] = []
  const clusters = new Map<string, Cluster & { written: number; read: boolean }>()
  for (const { value, asked, answered } of writes) {
    if (clusters.has(value)) throw new RangeError(`${value} was written twice: values must differ`)
    clusters.set(value, { value, firstAnswer: answered, lastAsking: asked, written: asked, read: false })
  }
  for (const { value, asked, answered } of reads) {
    const cluster = clusters.get(value)
    if (cluster === undefined || answered < cluster.written) found.push({ kind: 'never', value })
    if (cluster === undefined) continue
    cluster.read = true
    cluster.firstAnswer = Math.min(cluster.firstAnswer, answered)
    cluster.lastAsking = Math.max(cluster.lastAsking, asked)
  }
  // Without an answer and without a reader a write need not have happened.
  const happened = [...clusters.values()].filter(({ firstAnswer }) => firstAnswer < Infinity)
  for (const [at, one] of happened.entries())
    for (const other of happened.slice(at + 1))
      if (one.firstAnswer < other.lastAsking && other.firstAnswer < one.lastAsking)
        found.push({ kind: 'order', value: one.value, other: other.value })
  return found
}
