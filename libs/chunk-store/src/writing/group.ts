/**
 * One write and one sync of the writer: the entries and small blobs that it makes durable together,
 * and the intents that wait for them.
 */
import type { Clock } from '@holdfast/kernel'
import type { Copy, RowEntry } from '../catalogue/rows.ts'
import type { Extent } from '../extents/extent.ts'
import type { ExtentTable } from '../extents/extent-table.ts'
import {
  encodeGroupHeader,
  entryBytes,
  type GroupEntry,
  groupHeaderBytes,
  groupRecordBytes,
  type HeaderSeal,
} from '../format.ts'
import type { Log } from '../log.ts'
import { bufferBytes } from '../memory/buffer-pool.ts'
import type { Ledger } from './ledger.ts'
import type { Pins } from './pins.ts'

/** What the writer and its intents act on. */
export interface WriterDeps {
  extents: ExtentTable
  ledger: Ledger
  pins: Pins
  seal: HeaderSeal
  clock: Clock
  log: Log
}

export interface CommittedRecord {
  extent: Extent
  generation: number
  /** Where the record is in the extent. */
  offset: number
  sequence: number
}

/** A waiting change for a group. */
export interface Intent {
  /**
   * Joins, settles at once, or must wait for the next group (false). An empty group must not be
   * refused.
   */
  join(group: Group): boolean
  refuse(error: Error): void
}

/** The first commit of a blob in a group: those of the same content follow it. */
export interface Leader {
  readonly placementGroup: number
  readonly followers: Follower[]
}

/** A commit that another one of its group makes superfluous. */
export interface Follower {
  settle(copy: Copy): void
  refuse(error: Error): void
}

export class Group {
  readonly sequence: number
  readonly entries: GroupEntry[] = []
  readonly payloads: Uint8Array[] = []
  readonly outcomes: { applied: (at: CommittedRecord) => void; refused: (error: Error) => void }[] = []
  /** By blob. */
  readonly commits = new Map<RowEntry, Leader>()
  readonly moving = new Set<Copy>()
  entriesBytes = 0
  payloadBytes = 0
  /** Accepts nothing more. */
  closed = false

  constructor(sequence: number) {
    this.sequence = sequence
  }

  fits(entriesBytes: number, payloadBytes: number): boolean {
    if (this.entries.length === 0) return true
    return (
      !this.closed &&
      groupRecordBytes(this.entriesBytes + entriesBytes, this.payloadBytes + payloadBytes) <= bufferBytes
    )
  }

  /** Nothing here can fail halfway: an entry that is in the group becomes durable with it. */
  add(entry: GroupEntry, payload?: Uint8Array): void {
    this.entriesBytes += entryBytes(entry)
    this.entries.push(entry)
    if (entry.kind !== 'inline' || payload === undefined) return
    // Made relative to the record when the header's length is known.
    entry.payloadOffset = this.payloadBytes
    this.payloads.push(payload)
    this.payloadBytes += payload.length
  }

  get bytes(): number {
    return groupRecordBytes(this.entriesBytes, this.payloadBytes)
  }

  encode(
    place: { extent: number; generation: number; offset: number },
    seal: HeaderSeal,
    into: Buffer,
  ): void {
    let at = groupHeaderBytes(this.entriesBytes)
    for (const entry of this.entries) if (entry.kind === 'inline') entry.payloadOffset += at
    for (const payload of this.payloads) {
      into.set(payload, at)
      at += payload.length
    }
    const { sequence, entries, payloadBytes } = this
    encodeGroupHeader({ ...place, sequence, entries, payloadBytes }, seal, into)
  }
}
