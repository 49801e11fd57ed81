/**
 * Which accounts have a timer next, earliest first: a binary heap over (due, account) whose
 * outdated entries are skipped.
 *
 * Bounded: when there are more accounts than it may hold, the later half is dropped and `horizon`
 * says from when on it is incomplete. Their rows are durable; the sweeper reads them again when the
 * horizon comes near.
 */
interface Entry {
  account: string
  due: number
}

export class DueAccounts {
  readonly #max: number
  readonly #dueByAccount = new Map<string, number>()
  #heap: Entry[] = []
  #horizon = Number.POSITIVE_INFINITY

  /** @param max accounts it holds. */
  constructor(max: number) {
    this.#max = max
  }

  get size(): number {
    return this.#dueByAccount.size
  }

  /** Unix seconds; accounts due at or after it may be missing. */
  get horizon(): number {
    return this.#horizon
  }

  /** Sets until when all rows are known. Call it before the rows up to then are read. */
  resetHorizon(seconds = Number.POSITIVE_INFINITY): void {
    this.#horizon = seconds
  }

  /** As `set`, unless an earlier due time is known. */
  add(account: string, due: number): void {
    if (due < (this.#dueByAccount.get(account) ?? Number.POSITIVE_INFINITY)) this.set(account, due)
  }

  /** @param due Unix seconds; undefined: no timer. */
  set(account: string, due: number | undefined): void {
    if (due === this.#dueByAccount.get(account)) return
    this.#dueByAccount.delete(account)
    if (due === undefined || due >= this.#horizon) return
    this.#dueByAccount.set(account, due)
    this.#push({ account, due })
    if (this.#dueByAccount.size > this.#max) this.#forgetLaterHalf()
    else if (this.#heap.length > 2 * this.#dueByAccount.size + 64) this.#rebuild()
  }

  /** Removes and returns the account that is due first, if it is due by then. */
  take(nowSeconds: number): string | undefined {
    for (let first = this.#heap[0]; first !== undefined; first = this.#heap[0]) {
      const current = this.#dueByAccount.get(first.account) === first.due
      if (current && first.due > nowSeconds) return undefined
      this.#pop()
      if (!current) continue
      this.#dueByAccount.delete(first.account)
      return first.account
    }
    return undefined
  }

  #forgetLaterHalf(): void {
    const entries = [...this.#dueByAccount].map(([account, due]) => ({ account, due }))
    entries.sort((one, other) => one.due - other.due)
    const cut = entries[this.#max >> 1] as Entry
    this.#horizon = cut.due
    for (const { account, due } of entries) if (due >= cut.due) this.#dueByAccount.delete(account)
    this.#rebuild()
  }

  /** A sorted array is a heap. */
  #rebuild(): void {
    this.#heap = [...this.#dueByAccount].map(([account, due]) => ({ account, due }))
    this.#heap.sort((one, other) => one.due - other.due)
  }

  #push(entry: Entry): void {
    const heap = this.#heap
    let at = heap.push(entry) - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      if ((heap[parent] as Entry).due <= entry.due) break
      heap[at] = heap[parent] as Entry
      at = parent
    }
    heap[at] = entry
  }

  #pop(): void {
    const heap = this.#heap
    const last = heap.pop()
    if (last === undefined || heap.length === 0) return
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && (heap[child + 1] as Entry).due < (heap[child] as Entry).due) child++
      if ((heap[child] as Entry).due >= last.due) break
      heap[at] = heap[child] as Entry
      at = child
    }
    heap[at] = last
  }
}
