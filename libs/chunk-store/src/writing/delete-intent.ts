/** Deletes one copy of a blob unless it is pinned. */
import type { Copy, RowEntry } from '../catalogue/rows.ts'
import { type DeletedEntry, entryBytes } from '../format.ts'
import { homeOf } from './copy-of-entry.ts'
import type { Group, Intent, WriterDeps } from './group.ts'

export class DeleteIntent implements Intent {
  readonly #writer: WriterDeps
  readonly #entry: RowEntry
  readonly #incarnation: Uint8Array
  readonly #deleted: (copy: Copy) => void
  readonly done: Promise<'deleted' | 'pinned'>
  #resolve!: (outcome: 'deleted' | 'pinned') => void
  #reject!: (error: Error) => void

  /** @param deleted called in the turn in which the copy is deleted. */
  constructor(deps: WriterDeps, entry: RowEntry, incarnation: Uint8Array, deleted: (copy: Copy) => void) {
    this.#writer = deps
    this.#entry = entry
    this.#incarnation = incarnation
    this.#deleted = deleted
    this.done = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  join(group: Group): boolean {
    const entry = this.#entry
    const { ledger, pins, clock } = this.#writer
    const copy = entry.copies.find(({ incarnation }) => incarnation.equals(this.#incarnation))
    if (copy === undefined) {
      this.#resolve('deleted')
      return true
    }
    if (entry.deleting.includes(copy)) {
      group.outcomes.push({
        applied: () => this.#resolve('deleted'),
        refused: (error) => this.refuse(error),
      })
      return true
    }
    if (pins.holds(entry.id, copy.incarnation)) {
      this.#resolve('pinned')
      return true
    }
    if (group.moving.has(copy)) return false
    const deletedMs = clock.now()
    const records = this.#records(copy, deletedMs)
    if (
      !group.fits(
        records.reduce((bytes, record) => bytes + entryBytes(record), 0),
        0,
      )
    )
      return false
    for (const record of records) group.add(record)
    entry.deleting = [...entry.deleting, copy]
    const ended = () => {
      entry.deleting = entry.deleting.filter((other) => other !== copy)
    }
    group.outcomes.push({
      applied: () => {
        ended()
        ledger.removeCopy(entry, copy, deletedMs)
        pins.drop(entry.id, copy.incarnation)
        this.#deleted(copy)
        this.#resolve('deleted')
      },
      refused: (error) => {
        ended()
        this.refuse(error)
      },
    })
    return true
  }

  refuse(error: Error): void {
    this.#reject(error)
  }

  /**
   * One for every extent that holds a commit entry of the copy: each is kept as long as its extent
   * is, and they are freed in any order.
   */
  #records(copy: Copy, deletedMs: number): DeletedEntry[] {
    const { incarnation, placementGroup } = copy
    const earlier = copy.earlierHomes.filter((home) => this.#writer.extents.get(home) !== undefined)
    return [homeOf(copy), ...earlier].map(({ extent, generation }) => ({
      kind: 'deleted',
      id: this.#entry.id,
      incarnation,
      commitExtent: extent,
      commitGeneration: generation,
      deletedMs,
      placementGroup,
    }))
  }
}
