/** The replication log of a memory store. */

import { randomBytes } from 'node:crypto'
import type { Clock } from '@holdfast/kernel'
import type { BlobInfo, BlobName } from './blob-store.ts'
import { copyKey } from './copy-names.ts'
import { BlobFault } from './errors.ts'
import type { LogEntry, PullAnswer, PullQuery } from './placed-blob-store.ts'

export interface MemoryLogOptions {
  /** Generates upload ids and lives; the simulation seeds it. */
  random?: (bytes: number) => Uint8Array
  /**
   * How long entries and tombstones are kept. Default 7 days: longer than a node may be away before
   * it must be verified.
   */
  tombstoneRetentionMs?: number
  /**
   * Planted faults for tests: after a crash that lost `lost` positions, counting continues in the
   * old life.
   */
  plant?: { reusePositions?: { lost: number } }
}

export const tombstoneRetentionMsDefault = 7 * 24 * 3_600_000

export class MemoryLog {
  readonly #clock: Clock
  readonly #random: (bytes: number) => Uint8Array
  readonly #retentionMs: number
  readonly #plant: NonNullable<MemoryLogOptions['plant']>
  #life: Uint8Array
  #entries: { entry: LogEntry; atMs: number }[] = []
  /** The sequence number of the last entry that was dropped because of its age. */
  #droppedThrough = 0
  #head = 0
  readonly #tombstones = new Map<string, number>()

  constructor(clock: Clock, options: MemoryLogOptions) {
    this.#clock = clock
    this.#random = options.random ?? randomBytes
    this.#retentionMs = options.tombstoneRetentionMs ?? tombstoneRetentionMsDefault
    this.#plant = options.plant ?? {}
    this.#life = this.#random(16)
  }

  committed(copy: BlobInfo): void {
    this.#tombstones.delete(copyKey(copy))
    this.#add({ kind: 'committed', sequence: ++this.#head, copy: { ...copy } })
  }

  deleted({ id, incarnation, placementGroup = 0 }: BlobName): void {
    const copy = { id, incarnation, placementGroup }
    this.#tombstones.set(copyKey(copy), this.#clock.now())
    this.#add({ kind: 'deleted', sequence: ++this.#head, copy })
  }

  deletedMs(blob: BlobName): number | undefined {
    this.#trim()
    return this.#tombstones.get(copyKey(blob))
  }

  pull({ after, limit, groups }: PullQuery): PullAnswer {
    if (!(limit >= 1 && limit <= 10_000)) throw new BlobFault('INVALID', `${limit} entries at once`)
    this.#trim()
    const nowMs = this.#clock.now()
    const known =
      after !== undefined &&
      Buffer.compare(after.store, this.#life) === 0 &&
      after.sequence >= this.#droppedThrough &&
      after.sequence <= this.#head
    if (!known) return { kind: 'unknown position', now: { store: this.#life, sequence: this.#head }, nowMs }
    const looked = this.#entries.filter(({ entry }) => entry.sequence > after.sequence).slice(0, limit)
    const through = looked.at(-1)?.entry.sequence ?? after.sequence
    const entries = looked
      .map(({ entry }) => entry)
      .filter(({ copy }) => groups?.includes(copy.placementGroup ?? 0) !== false)
    return {
      kind: 'entries',
      entries,
      through: { store: this.#life, sequence: through },
      behind: this.#head - through,
      nowMs,
    }
  }

  /** After a crash no earlier position is issued again. */
  beginLife(): void {
    const { reusePositions } = this.#plant
    if (reusePositions !== undefined) {
      this.#entries.splice(Math.max(0, this.#entries.length - reusePositions.lost))
      this.#head = this.#entries.at(-1)?.entry.sequence ?? this.#droppedThrough
      return
    }
    this.#life = this.#random(16)
    this.#entries = []
    this.#head = 0
    this.#droppedThrough = 0
  }

  #add(entry: LogEntry): void {
    this.#entries.push({ entry, atMs: this.#clock.now() })
  }

  #trim(): void {
    const before = this.#clock.now() - this.#retentionMs
    let old = 0
    while (old < this.#entries.length && (this.#entries[old]?.atMs as number) < before) old++
    if (old > 0) this.#droppedThrough = this.#entries[old - 1]?.entry.sequence as number
    this.#entries.splice(0, old)
    for (const [name, atMs] of this.#tombstones) {
      if (atMs >= before) break
      this.#tombstones.delete(name)
    }
  }
}
