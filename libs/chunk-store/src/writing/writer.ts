/**
 * The only writer. Commits, deletions and moves wait here. While one group is being written the
 * next one gathers. A group has one write and one fdatasync. Whether a blob is known, pinned or
 * being deleted is decided when its group is formed, one group at a time. So nothing can change
 * between check and write.
 *
 * After a failed write or sync the extent accepts nothing more, every waiter of the group is
 * refused, and the next group begins with an entry that voids the refused one, so that no later
 * recovery can restore it.
 */
import { BlobFault } from '@holdfast/blob-store'
import { alignedBytes } from '@holdfast/kernel'
import { faultOfDisk } from '../disk/faults.ts'
import type { Extent } from '../extents/extent.ts'
import type { ExtentPosition } from '../extents/extent-table.ts'
import type { VoidEntry } from '../format.ts'
import { bufferBytes } from '../memory/buffer-pool.ts'
import { Group, type Intent, type WriterDeps } from './group.ts'

/**
 * Intents that may wait; beyond it commits are refused. 100 bytes each and the small blob itself.
 */
const waitingMax = 100_000

export class Writer {
  readonly deps: WriterDeps
  readonly #waiting: Intent[] = []
  readonly #memory = alignedBytes(bufferBytes)
  #voids: VoidEntry[] = []
  #running: Promise<void> | undefined
  #closed = false
  /** For metrics. */
  groups = 0
  failedGroups = 0

  constructor(deps: WriterDeps) {
    this.deps = deps
  }

  /** @throws BlobFault `CLOSED`, `UNAVAILABLE`. */
  submit(intent: Intent): void {
    if (this.#closed) throw new BlobFault('CLOSED', 'the chunk store is closed')
    if (this.#waiting.length >= waitingMax)
      throw new BlobFault('UNAVAILABLE', `${this.#waiting.length} changes wait already`)
    this.#waiting.push(intent)
    this.#running ??= this.#run()
  }

  /** Waits for submitted changes; accepts nothing more. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#running
  }

  async #run(): Promise<void> {
    await new Promise(setImmediate) // lets changes of this turn share the first group
    while (this.#waiting.length > 0) {
      await this.#voidRefused()
      const group = this.#gather()
      if (group.entries.length > 0) await this.#flush(group)
    }
    this.#running = undefined // in the turn that found nothing waiting, or a wake-up would be lost
  }

  /**
   * Nothing is decided before the refused groups are durably void. One of them may have deleted a
   * copy on the disk, and a caller would now be promised that copy.
   */
  async #voidRefused(): Promise<void> {
    if (this.#voids.length === 0) return
    const group = new Group(this.deps.ledger.info.nextSequence++)
    for (const entry of this.#voids) group.add(entry)
    group.outcomes.push({
      applied: () => {
        this.#voids = []
      },
      refused: (error) => {
        for (const intent of this.#waiting.splice(0)) intent.refuse(error)
      },
    })
    await this.#flush(group)
  }

  #gather(): Group {
    const group = new Group(this.deps.ledger.info.nextSequence++)
    let taken = 0
    for (const intent of this.#waiting) {
      try {
        if (!intent.join(group)) break
      } catch (error) {
        intent.refuse(error as Error)
      }
      taken++
    }
    this.#waiting.splice(0, taken)
    return group
  }

  async #flush(group: Group): Promise<void> {
    const { extents, ledger } = this.deps
    let place: ExtentPosition | undefined
    try {
      place = await extents.placeGroup(group.bytes)
      await this.#write(group, place)
    } catch (error) {
      this.#refuse(group, place, faultOfDisk(error, 'a commit'))
      if (place !== undefined) extents.groupEnded(place.extent)
      return
    }
    this.groups++
    const { extent, offset } = place
    const at = { extent, generation: extent.generation, offset, sequence: group.sequence }
    extent.marks += group.entries.filter(({ kind }) => kind === 'deleted' || kind === 'void').length
    extent.scanFrom = offset + group.bytes
    ledger.touchExtent(extent)
    for (const { applied } of group.outcomes) applied(at)
    extents.groupEnded(extent)
    ledger.kick()
  }

  async #write(group: Group, { extent, offset }: ExtentPosition): Promise<void> {
    await this.#syncOthers(group, extent)
    const memory = group.bytes <= bufferBytes ? this.#memory : alignedBytes(group.bytes)
    const record = memory.subarray(0, group.bytes)
    group.encode({ extent: extent.number, generation: extent.generation, offset }, this.deps.seal, record)
    await extent.write(record, offset)
    await extent.sync()
  }

  #refuse(group: Group, place: ExtentPosition | undefined, fault: BlobFault): void {
    this.failedGroups++
    if (place !== undefined) {
      const { number: extent, generation } = place.extent
      this.#voids.push({ kind: 'void', sequence: group.sequence, extent, generation })
    }
    this.deps.log.error(
      { error: fault.message, waiters: group.outcomes.length },
      'a group could not be made durable',
    )
    for (const { refused } of group.outcomes) refused(fault)
  }

  /** A commit record is written only once the other extents that it names are synced. */
  async #syncOthers(group: Group, own: Extent): Promise<void> {
    const others = new Set<Extent>()
    for (const entry of group.entries) {
      if (entry.kind !== 'staged') continue
      for (const run of entry.runs) {
        const extent = this.deps.extents.get(run)
        if (extent === undefined) throw new BlobFault('IO', `extent ${run.extent} is gone`)
        if (extent.failure !== undefined) throw extent.failure
        if (extent !== own) others.add(extent)
      }
    }
    for (const extent of others) await extent.ensureSynced()
  }
}
