/** What compaction writes again elsewhere, so that an extent can be emptied: copies and entries. */
import type { Copy, RowEntry } from '../catalogue/rows.ts'
import {
  type DeletedEntry,
  entryBytes,
  type GroupEntry,
  inlineBytesMax,
  type Run,
  type VoidEntry,
} from '../format.ts'
import { copyOf, homeOf } from './copy-of-entry.ts'
import type { Group, Intent, WriterDeps } from './group.ts'
import type { Ledger } from './ledger.ts'

/** The same copy, written again at another place by compaction. */
export class MoveIntent implements Intent {
  readonly #writer: WriterDeps
  readonly #entry: RowEntry
  readonly #old: Copy
  readonly #body: { bytes: Uint8Array } | { runs: Run[] }
  readonly #moved: (old: Copy, copy: Copy) => void
  /** False when the copy was deleted, or moved, meanwhile. */
  readonly done: Promise<boolean>
  #resolve!: (moved: boolean) => void
  #reject!: (error: Error) => void

  constructor(
    deps: WriterDeps,
    entry: RowEntry,
    old: Copy,
    body: { bytes: Uint8Array } | { runs: Run[] },
    moved: (old: Copy, copy: Copy) => void,
  ) {
    this.#writer = deps
    this.#entry = entry
    this.#old = old
    this.#body = body
    this.#moved = moved
    this.done = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  join(group: Group): boolean {
    const old = this.#old
    const entry = this.#entry
    if (!entry.copies.includes(old) || entry.deleting.includes(old)) {
      this.#resolve(false)
      return true
    }
    const { size, crc32, createdMs, placementGroup, incarnation } = old
    const details = { id: entry.id, incarnation, size, crc32, createdMs, placementGroup }
    const bytes = 'bytes' in this.#body ? this.#body.bytes : undefined
    const record: GroupEntry & { kind: 'inline' | 'staged' } =
      'runs' in this.#body
        ? { kind: 'staged', ...details, runs: this.#body.runs }
        : { kind: 'inline', ...details, payloadOffset: 0 }
    if (!group.fits(entryBytes(record), bytes?.length ?? 0)) return false
    group.add(record, bytes)
    group.moving.add(old)
    group.outcomes.push({
      applied: (at) => {
        const { extents, ledger, clock } = this.#writer
        const copy = copyOf(record, at, old, extents)
        copy.quarantined = old.quarantined
        // it was verified when it was read, and its bytes are new on the disk
        copy.verifiedAt = clock.monotonic()
        ledger.replaceCopy(entry, old, copy)
        this.#moved(old, copy)
        this.#resolve(true)
      },
      refused: (error) => this.refuse(error),
    })
    return true
  }

  refuse(error: Error): void {
    this.#reject(error)
  }
}

/**
 * Deletion and void entries that are still needed, written again by compaction. They have a group
 * of their own, because a deletion ends all earlier entries of its copy, and a copy may return
 * under the name of a deleted one. If the copy has returned, its deletion entry is not written
 * again: the row of the copy remembers the older commit entry that the deletion named.
 */
export class CarryIntent implements Intent {
  readonly #ledger: Ledger
  readonly #entries: readonly CarriedEntry[]
  readonly done: Promise<void>
  #resolve!: () => void
  #reject!: (error: Error) => void

  /** @param entries at most what fits one group. */
  constructor({ ledger }: WriterDeps, entries: readonly CarriedEntry[]) {
    this.#ledger = ledger
    this.#entries = entries
    this.done = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  join(group: Group): boolean {
    if (group.entries.length > 0) return false
    for (const { entry, row } of this.#entries) {
      const back =
        entry.kind === 'deleted' &&
        row?.copies.find(({ incarnation }) => incarnation.equals(entry.incarnation))
      if (row === undefined || !back) group.add(entry)
      else {
        const home = homeOf(entry)
        const others = back.earlierHomes.filter(({ generation }) => generation !== home.generation)
        back.earlierHomes = [...others, home]
        this.#ledger.touchRow(row)
      }
    }
    group.closed = true
    if (group.entries.length === 0) this.#resolve()
    else group.outcomes.push({ applied: () => this.#resolve(), refused: (error) => this.#reject(error) })
    return true
  }

  refuse(error: Error): void {
    this.#reject(error)
  }
}

export interface CarriedEntry {
  entry: DeletedEntry | VoidEntry
  /** The row of the blob that a deletion names. */
  row: RowEntry | undefined
}

/** Entries that always fit one group together. */
export const carriedEntriesMax = Math.floor(inlineBytesMax / 104)
