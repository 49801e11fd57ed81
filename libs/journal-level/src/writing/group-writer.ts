/**
 * The one writer of the store.
 *
 * A synced batch costs one fdatasync at any size. While one is in flight, further writes wait in
 * the order of issue. The next batch has them all, so they share the cost of a sync. There is one
 * batch at a time, so the store is ordered: no write becomes durable before an earlier one.
 *
 * Fault model: a failed batch may or may not be in the log, and a later successful sync proves
 * nothing about it (the kernel drops dirty pages after reporting an error once). So after the first
 * failure nothing is written: writes in the batch get `UNKNOWN`, those behind it and all later ones
 * `UNAVAILABLE`, until LevelDB was reopened and has decided from the log. Places taken before that
 * are dead.
 */
import { JournalFault } from '@holdfast/journal'

/**
 * One batch: a sync of this size costs the device little more than a small one, and does not delay
 * waiters behind it much.
 */
export const groupBytesMax = 4 * 1024 * 1024
/**
 * All waiting writes, above the working set of the busiest host; more is refused as `UNAVAILABLE`.
 */
export const queuedBytesMax = 128 * 1024 * 1024

/** Waiting writes: a few for each account that can be active. */
export const queuedPlacesMax = 262_144

/** Approximate overhead of LevelDB per key and value; it also bounds batches of deletes. */
const rowOverheadBytes = 16

export type RowChange = { type: 'put'; key: Uint8Array; value: Uint8Array } | { type: 'del'; key: Uint8Array }

/**
 * What a write establishes, for the commit audit: the newest number of something that only grows.
 */
export interface AuditNote {
  subject: string
  epoch: number
  number: number
}

/**
 * A place in the order of writes. Its write may be decided later; all places behind it wait until
 * then.
 */
export interface WritePlace {
  /**
   * Fills the place with changes that become durable together; resolves when they are.
   * @throws JournalFault `UNKNOWN` when their batch failed, `UNAVAILABLE` when one before it did.
   */
  write(changes: RowChange[], ...notes: AuditNote[]): Promise<void>
}

export interface GroupWriterDeps {
  /** Writes all changes or none and syncs them. */
  commit(changes: RowChange[]): Promise<void>
  /** Adds to a batch what marks it. */
  seal(batch: number): RowChange
  /** After the sync, before any caller is answered. Must not fail. */
  audit(batch: number, notes: AuditNote[]): Promise<void>
  onFailure(fault: JournalFault): void
  /** After each batch that is on disk. */
  onSuccess?(): void
}

export class GroupWriter {
  readonly #deps: GroupWriterDeps
  readonly #queue: QueuedPlace[] = []
  #queuedBytes = 0
  #nextBatch: number
  #running: Promise<void> | undefined
  #last: Promise<void> = Promise.resolve()
  #failure: JournalFault | undefined
  #closed = false

  constructor(deps: GroupWriterDeps, { nextBatch }: { nextBatch: number }) {
    this.#deps = deps
    this.#nextBatch = nextBatch
  }

  /** Why nothing is written any more. */
  get failure(): JournalFault | undefined {
    return this.#failure
  }

  /** Writes at the next place. @throws JournalFault as `inOrder` and `Place.write` do. */
  async write(changes: RowChange[], ...notes: AuditNote[]): Promise<void> {
    await this.#place().write(changes, ...notes)
  }

  /**
   * Takes the next place now, for a write that must read first. If the work ends without a write
   * the place is skipped.
   * @throws JournalFault `UNAVAILABLE`, `CLOSED`: nothing was done.
   */
  async inOrder<R>(work: (place: WritePlace) => Promise<R>): Promise<R> {
    const place = this.#place()
    try {
      return await work(place)
    } finally {
      place.giveUp()
    }
  }

  /**
   * Resolves when all earlier writes are durable.
   * @throws JournalFault `UNAVAILABLE` when the outcome of an earlier write is unknown; `CLOSED`.
   */
  async flushed(): Promise<void> {
    await this.#last
    this.#assertTakes()
  }

  /**
   * After a failure, when LevelDB was reopened: accepts writes again, in batches from this number
   * on.
   */
  resume({ nextBatch }: { nextBatch: number }): void {
    this.#nextBatch = nextBatch
    this.#failure = undefined
  }

  /** Accepts nothing new, writes what was issued. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#running
  }

  #place(): QueuedPlace {
    this.#assertTakes()
    const place = new QueuedPlace((bytes) => {
      this.#assertSound()
      this.#queuedBytes += bytes
    })
    this.#queue.push(place)
    this.#last = place.settled
    this.#running ??= this.#run()
    return place
  }

  #assertTakes(): void {
    this.#assertSound()
    if (this.#closed) throw new JournalFault('CLOSED', 'the metadata store is closed')
    if (this.#queuedBytes < queuedBytesMax && this.#queue.length < queuedPlacesMax) return
    const waiting = `${this.#queue.length} writes of ${this.#queuedBytes} bytes`
    throw new JournalFault('UNAVAILABLE', `the metadata store has ${waiting} waiting already`)
  }

  #assertSound(): void {
    if (this.#failure !== undefined) throw new JournalFault('UNAVAILABLE', this.#failure.message)
  }

  async #run(): Promise<void> {
    for (let first = this.#queue[0]; first !== undefined; first = this.#queue[0]) {
      await first.decided
      await this.#commit(this.#nextGroup())
    }
    this.#running = undefined
  }

  /** As many decided places as fit, without skipped ones. */
  #nextGroup(): QueuedPlace[] {
    let bytes = 0
    let count = 0
    for (const place of this.#queue) {
      if (!place.isDecided || (count > 0 && bytes + place.bytes > groupBytesMax)) break
      bytes += place.bytes
      count++
    }
    return this.#queue.splice(0, count).filter((place) => place.changes !== undefined)
  }

  async #commit(group: QueuedPlace[]): Promise<void> {
    if (group.length === 0) return
    const batch = this.#nextBatch++
    try {
      const changes = group.flatMap((place) => place.changes ?? [])
      await this.#deps.commit([...changes, this.#deps.seal(batch)])
    } catch (cause) {
      this.#fail(group, cause)
      return
    }
    this.#deps.onSuccess?.()
    await this.#deps.audit(
      batch,
      group.flatMap((place) => place.notes),
    )
    for (const place of group) this.#settle(place)
  }

  #fail(group: QueuedPlace[], cause: unknown): void {
    const why = `a write of the metadata store failed, nothing is written until it is opened again: ${String(cause)}`
    this.#failure = new JournalFault('UNAVAILABLE', why, { cause })
    for (const place of group) this.#settle(place, new JournalFault('UNKNOWN', why, { cause }))
    for (const place of this.#queue.splice(0)) {
      this.#settle(place, new JournalFault('UNAVAILABLE', why, { cause }))
    }
    this.#deps.onFailure(this.#failure)
  }

  #settle(place: QueuedPlace, fault?: JournalFault): void {
    this.#queuedBytes -= place.bytes
    place.settle(fault)
  }
}

class QueuedPlace implements WritePlace {
  readonly #reserve: (bytes: number) => void
  readonly #decided = Promise.withResolvers<void>()
  readonly #written = Promise.withResolvers<void>()
  readonly #settled = Promise.withResolvers<void>()
  isDecided = false
  changes: RowChange[] | undefined
  notes: AuditNote[] = []
  bytes = 0
  /** Why no write can use this place any more. */
  #over: JournalFault | undefined

  constructor(reserve: (bytes: number) => void) {
    this.#reserve = reserve
  }

  /** Resolves when it is known whether and what is written here. */
  get decided(): Promise<void> {
    return this.#decided.promise
  }

  /** Resolves when it has ended, in any way. */
  get settled(): Promise<void> {
    return this.#settled.promise
  }

  write(changes: RowChange[], ...notes: AuditNote[]): Promise<void> {
    const bytes = changes.reduce((sum, change) => sum + changeBytes(change), 0)
    if (this.#over !== undefined) throw this.#over
    this.#reserve(bytes)
    this.bytes = bytes
    this.changes = changes
    this.notes = notes
    this.#decide()
    return this.#written.promise
  }

  giveUp(): void {
    if (this.isDecided) return
    this.#decide()
    this.#settled.resolve()
  }

  settle(fault: JournalFault | undefined): void {
    this.#over = fault
    if (fault === undefined) this.#written.resolve()
    else if (this.changes !== undefined) this.#written.reject(fault)
    this.#settled.resolve()
  }

  #decide(): void {
    this.isDecided = true
    this.#decided.resolve()
  }
}

function changeBytes(change: RowChange): number {
  return rowOverheadBytes + change.key.length + (change.type === 'put' ? change.value.length : 0)
}
