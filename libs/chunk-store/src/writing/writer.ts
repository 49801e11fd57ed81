/**
 * The one writer. Commits, deletions and moves wait here. While one group is being written the next
 * one gathers, and all of a group share one write and one fdatasync. Whether a blob is known,
 * pinned or being deleted is decided in the turn in which its group is formed, one group at a time:
 * there is no gap between check and write.
 *
 * After a failed write or sync the extent accepts nothing more, every waiter of the group is
 * refused, and the next group begins with an entry that voids the refused one, so that no later
 * recovery can restore it.
 */
import { BlobFault, type BlobInfo } from '@holdfast/blob-store'
import type { Clock } from '@holdfast/kernel'
import { type Copy, type ExtentGeneration, neverVerified, noHomes, type RowEntry } from '../catalogue/rows.ts'
import { faultOf } from '../disk/faults.ts'
import type { Extent } from '../extents/extent.ts'
import type { ExtentPosition, ExtentTable } from '../extents/extent-table.ts'
import {
  type DeletedEntry,
  encodeGroupHeader,
  entryBytes,
  type GroupEntry,
  groupHeaderBytes,
  groupRecordBytes,
  type HeaderSeal,
  inlineBytesMax,
  type Run,
  type VoidEntry,
} from '../format.ts'
import type { Log } from '../log.ts'
import { alignedBytes, slotBytes } from '../memory/slots.ts'
import { knownCopyOf } from './known-copies.ts'
import { infoOf, type Ledger } from './ledger.ts'
import type { Pins } from './pins.ts'

/**
 * Intents that may wait; beyond it commits are refused. 100 bytes each and the small blob itself.
 */
const waitingMax = 100_000
/** Runs of one blob: a table of 64 MiB. At one run a MiB in the worst case that is 2 TiB. */
export const runsMax = 2 * 1024 * 1024

export interface Committed {
  extent: Extent
  generation: number
  /** Of the record. */
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

export class Group {
  readonly sequence: number
  readonly entries: GroupEntry[] = []
  readonly payloads: Uint8Array[] = []
  readonly outcomes: { applied: (at: Committed) => void; refused: (error: Error) => void }[] = []
  /** By blob. */
  readonly commits = new Map<RowEntry, CommitIntent>()
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
      groupRecordBytes(this.entriesBytes + entriesBytes, this.payloadBytes + payloadBytes) <= slotBytes
    )
  }

  /** Nothing here can fail halfway: an entry that is in the group becomes durable with it. */
  add(entry: GroupEntry, payload?: Uint8Array): void {
    this.entriesBytes += entryBytes(entry)
    this.entries.push(entry)
    if (entry.kind !== 'inline' || payload === undefined) return
    entry.payloadOffset = this.payloadBytes // made relative to the record when the header's length is known
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

export interface WriterDeps {
  extents: ExtentTable
  ledger: Ledger
  pins: Pins
  seal: HeaderSeal
  clock: Clock
  log: Log
}

export class Writer {
  readonly parts: WriterDeps
  readonly #waiting: Intent[] = []
  readonly #memory = alignedBytes(slotBytes)
  #voids: VoidEntry[] = []
  #running: Promise<void> | undefined
  #closed = false
  /** For metrics. */
  groups = 0
  failedGroups = 0

  constructor(parts: WriterDeps) {
    this.parts = parts
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
   * Nothing is decided before the refused groups are durably void: one of them may have deleted, on
   * disk, a copy that a caller would now be promised.
   */
  async #voidRefused(): Promise<void> {
    if (this.#voids.length === 0) return
    const group = new Group(this.parts.ledger.info.nextSequence++)
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
    const group = new Group(this.parts.ledger.info.nextSequence++)
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
    const { extents, ledger } = this.parts
    let place: ExtentPosition | undefined
    try {
      place = await extents.placeGroup(group.bytes)
      await this.#write(group, place)
    } catch (error) {
      this.#refuse(group, place, faultOf(error, 'a commit'))
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
    const memory = group.bytes <= slotBytes ? this.#memory : alignedBytes(group.bytes)
    const record = memory.subarray(0, group.bytes)
    group.encode({ extent: extent.number, generation: extent.generation, offset }, this.parts.seal, record)
    await extent.write(record, offset)
    await extent.sync()
  }

  #refuse(group: Group, place: ExtentPosition | undefined, fault: BlobFault): void {
    this.failedGroups++
    if (place !== undefined) {
      const { number: extent, generation } = place.extent
      this.#voids.push({ kind: 'void', sequence: group.sequence, extent, generation })
    }
    this.parts.log.error(
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
        const extent = this.parts.extents.get(run)
        if (extent === undefined) throw new BlobFault('IO', `extent ${run.extent} is gone`)
        if (extent.failure !== undefined) throw extent.failure
        if (extent !== own) others.add(extent)
      }
    }
    for (const extent of others) await extent.ensureSynced()
  }
}

export interface NewBlob {
  incarnation: Buffer
  size: number
  crc32: number
  createdMs: number
  placementGroup: number
}

export interface CommitTerms {
  pinMs: number
  /** Also beside another copy of the same content. */
  asNew?: boolean | undefined
  /** Called in the turn in which a damaged copy of the same upload is replaced. */
  replaced: (old: Copy) => void
}

/** Makes a stage a blob, or pins the existing healthy copy. */
export class CommitIntent implements Intent {
  readonly #writer: WriterDeps
  readonly #entry: RowEntry
  readonly #blob: NewBlob
  readonly #bytes: Uint8Array | undefined
  readonly #runs: Run[]
  readonly #pinMs: number
  readonly #asNew: boolean
  readonly #replaced: (old: Copy) => void
  readonly #followers: CommitIntent[] = []
  readonly done: Promise<BlobInfo>
  #resolve!: (info: BlobInfo) => void
  #reject!: (error: Error) => void

  /** @param body the bytes of a small blob, or the runs of a large one. */
  constructor(
    parts: WriterDeps,
    entry: RowEntry,
    blob: NewBlob,
    body: { bytes: Uint8Array } | { runs: Run[] },
    { pinMs, asNew = false, replaced }: CommitTerms,
  ) {
    this.#writer = parts
    this.#entry = entry
    this.#blob = blob
    this.#bytes = 'bytes' in body ? body.bytes : undefined
    this.#runs = 'runs' in body ? body.runs : []
    this.#pinMs = pinMs
    this.#asNew = asNew
    this.#replaced = replaced
    this.done = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  join(group: Group): boolean {
    const { ledger } = this.#writer
    const own = this.#entry.copies.find(({ incarnation }) => incarnation.equals(this.#blob.incarnation))
    // This very copy is being deleted or moved: the next group knows the outcome.
    if (own !== undefined && (this.#entry.deleting.includes(own) || group.moving.has(own))) return false
    const healthy = this.#healthy(own)
    if (healthy !== undefined) {
      this.#settle(healthy)
      return true
    }
    const leader = group.commits.get(this.#entry)
    const isKnown = leader !== undefined && leader.#blob.placementGroup === this.#blob.placementGroup
    if (isKnown && !this.#asNew) {
      leader.#followers.push(this)
      return true
    }
    ledger.assertKeepsUp()
    this.#assertRunsHold()
    const entry = this.#record()
    if (!group.fits(entryBytes(entry), this.#bytes?.length ?? 0)) return false
    group.add(entry, this.#bytes)
    if (leader === undefined) group.commits.set(this.#entry, this)
    if (own !== undefined) group.moving.add(own)
    group.outcomes.push({
      applied: (at) => this.#applied(at, entry, own),
      refused: (error) => this.refuse(error),
    })
    return true
  }

  refuse(error: Error): void {
    this.#reject(error)
    for (const follower of this.#followers) follower.refuse(error)
  }

  /** One upload's lost extent must not fail the others of its group. */
  #assertRunsHold(): void {
    for (const run of this.#runs) {
      const extent = this.#writer.extents.get(run)
      if (extent === undefined || extent.failure !== undefined)
        throw extent?.failure ?? new BlobFault('IO', `extent ${run.extent} is gone`)
    }
  }

  #record(): GroupEntry & { kind: 'inline' | 'staged' } {
    const details = { id: this.#entry.id, ...this.#blob }
    if (this.#bytes !== undefined) return { kind: 'inline', ...details, payloadOffset: 0 }
    if (this.#runs.length > runsMax)
      throw new BlobFault(
        'FULL',
        `the blob is in ${this.#runs.length} places, at most ${runsMax} are possible`,
      )
    return { kind: 'staged', ...details, runs: this.#runs }
  }

  /**
   * The copy that makes the stage superfluous: of the same upload, or any when it need not be its
   * own copy.
   */
  #healthy(own: Copy | undefined): Copy | undefined {
    const { size } = this.#blob
    if (own !== undefined && !own.quarantined && own.size === size && !this.#entry.deleting.includes(own))
      return own
    return this.#asNew ? undefined : knownCopyOf(this.#entry, this.#blob)
  }

  /** @param damaged the copy of the same name that this one replaces. */
  #applied(
    at: Committed,
    entry: GroupEntry & { kind: 'inline' | 'staged' },
    damaged: Copy | undefined,
  ): void {
    const copy = copyOf(entry, at, damaged, this.#writer.extents)
    copy.verifiedAt = this.#writer.clock.monotonic()
    if (damaged === undefined) this.#writer.ledger.addCopy(this.#entry, copy)
    else {
      this.#writer.ledger.replaceCopy(this.#entry, damaged, copy)
      this.#replaced(damaged)
    }
    this.#settle(copy)
    for (const follower of this.#followers) follower.#settle(copy)
  }

  #settle(copy: Copy): void {
    this.#writer.pins.extend(this.#entry.id, copy.incarnation, this.#pinMs)
    this.#resolve(infoOf(this.#entry.id, copy))
  }
}

/**
 * The row's view of a commit entry in this place.
 * @param before the copy that it replaces, if there was one
 */
export function copyOf(
  entry: GroupEntry & { kind: 'inline' | 'staged' },
  at: { extent: { number: number }; generation: number; offset: number; sequence: number },
  before: Copy | undefined,
  extents: Pick<ExtentTable, 'get'>,
): Copy {
  return {
    incarnation: entry.incarnation,
    size: entry.size,
    crc32: entry.crc32,
    createdMs: entry.createdMs,
    placementGroup: entry.placementGroup,
    quarantined: false,
    sequence: at.sequence,
    commitExtent: at.extent.number,
    commitGeneration: at.generation,
    earlierHomes:
      before === undefined
        ? noHomes
        : [homeOf(before), ...before.earlierHomes].filter(
            (home) => home.generation !== at.generation && extents.get(home) !== undefined,
          ),
    entryBytes: entryBytes(entry),
    inlineOffset: entry.kind === 'inline' ? at.offset + entry.payloadOffset : undefined,
    runs: entry.kind === 'staged' ? entry.runs : [],
    verifiedAt: neverVerified,
  }
}

export function homeOf({ commitExtent, commitGeneration }: Copy | DeletedEntry): ExtentGeneration {
  return { extent: commitExtent, generation: commitGeneration }
}

/**
 * Protects a copy from deletion; in the queue, so that it is decided before or after a deletion,
 * never during it.
 */
export class PinIntent implements Intent {
  readonly #writer: WriterDeps
  readonly #entry: RowEntry
  readonly #incarnation: Uint8Array
  readonly #ttlMs: number
  readonly #whole: boolean
  readonly done: Promise<boolean>
  #resolve!: (pinned: boolean) => void
  #reject!: (error: Error) => void

  /** @param options.whole not when it is damaged. */
  constructor(
    parts: WriterDeps,
    entry: RowEntry,
    incarnation: Uint8Array,
    { ttlMs, whole }: { ttlMs: number; whole: boolean },
  ) {
    this.#writer = parts
    this.#entry = entry
    this.#incarnation = incarnation
    this.#ttlMs = ttlMs
    this.#whole = whole
    this.done = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  join(): boolean {
    const copy = this.#entry.copies.find(({ incarnation }) => incarnation.equals(this.#incarnation))
    const here =
      copy !== undefined && !this.#entry.deleting.includes(copy) && !(this.#whole && copy.quarantined)
    if (here) this.#writer.pins.extend(this.#entry.id, copy.incarnation, this.#ttlMs)
    this.#resolve(here)
    return true
  }

  refuse(error: Error): void {
    this.#reject(error)
  }
}

export class DeleteIntent implements Intent {
  readonly #writer: WriterDeps
  readonly #entry: RowEntry
  readonly #incarnation: Uint8Array
  readonly #deleted: (copy: Copy) => void
  readonly done: Promise<'deleted' | 'pinned'>
  #resolve!: (outcome: 'deleted' | 'pinned') => void
  #reject!: (error: Error) => void

  /** @param deleted called in the turn in which the copy is deleted. */
  constructor(parts: WriterDeps, entry: RowEntry, incarnation: Uint8Array, deleted: (copy: Copy) => void) {
    this.#writer = parts
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
    parts: WriterDeps,
    entry: RowEntry,
    old: Copy,
    body: { bytes: Uint8Array } | { runs: Run[] },
    moved: (old: Copy, copy: Copy) => void,
  ) {
    this.#writer = parts
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
 * Deletion and void entries that are still needed, written again by compaction. In a separate
 * group: they apply to what comes before them, and a copy may return under the name of a deleted
 * one. When it has, its row takes over what the entry covered.
 */
export class CarryIntent implements Intent {
  readonly #ledger: Ledger
  readonly #entries: readonly Carried[]
  readonly done: Promise<void>
  #resolve!: () => void
  #reject!: (error: Error) => void

  /** @param entries at most what fits one group. */
  constructor({ ledger }: WriterDeps, entries: readonly Carried[]) {
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

export interface Carried {
  entry: DeletedEntry | VoidEntry
  /** Of the blob that a deletion names. */
  row: RowEntry | undefined
}

/** Entries that always fit one group together. */
export const carriedEntriesMax = Math.floor(inlineBytesMax / 104)
