/** Makes a stage a blob, or pins the existing healthy copy. */
import { BlobFault, type BlobInfo } from '@holdfast/blob-store'
import type { Copy, RowEntry } from '../catalogue/rows.ts'
import { entryBytes, type GroupEntry, type Run } from '../format.ts'
import { copyOf } from './copy-of-entry.ts'
import type { CommittedRecord, Follower, Group, Intent, Leader, WriterDeps } from './group.ts'
import { knownCopyOf } from './known-copies.ts'
import { infoOfCopy } from './ledger.ts'

/** Runs of one blob: a table of 64 MiB. At one run a MiB in the worst case that is 2 TiB. */
const runsMax = 2 * 1024 * 1024

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
  asNew: boolean
  /** Called in the turn in which a damaged copy of the same upload is replaced. */
  replaced: (old: Copy) => void
}

export class CommitIntent implements Intent, Leader, Follower {
  readonly #writer: WriterDeps
  readonly #entry: RowEntry
  readonly #blob: NewBlob
  readonly #bytes: Uint8Array | undefined
  readonly #runs: Run[]
  readonly #pinMs: number
  readonly #asNew: boolean
  readonly #replaced: (old: Copy) => void
  readonly followers: Follower[] = []
  readonly done: Promise<BlobInfo>
  #resolve!: (info: BlobInfo) => void
  #reject!: (error: Error) => void

  /** @param body the bytes of a small blob, or the runs of a large one. */
  constructor(
    deps: WriterDeps,
    entry: RowEntry,
    blob: NewBlob,
    body: { bytes: Uint8Array } | { runs: Run[] },
    { pinMs, asNew, replaced }: CommitTerms,
  ) {
    this.#writer = deps
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

  get placementGroup(): number {
    return this.#blob.placementGroup
  }

  join(group: Group): boolean {
    const { ledger } = this.#writer
    const own = this.#entry.copies.find(({ incarnation }) => incarnation.equals(this.#blob.incarnation))
    // This very copy is being deleted or moved: the next group knows the outcome.
    if (own !== undefined && (this.#entry.deleting.includes(own) || group.moving.has(own))) return false
    const healthy = this.#healthy(own)
    if (healthy !== undefined) {
      this.settle(healthy)
      return true
    }
    const leader = group.commits.get(this.#entry)
    const isKnown = leader !== undefined && leader.placementGroup === this.#blob.placementGroup
    if (isKnown && !this.#asNew) {
      leader.followers.push(this)
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
    for (const follower of this.followers) follower.refuse(error)
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
    at: CommittedRecord,
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
    this.settle(copy)
    for (const follower of this.followers) follower.settle(copy)
  }

  settle(copy: Copy): void {
    this.#writer.pins.extend(this.#entry.id, copy.incarnation, this.#pinMs)
    this.#resolve(infoOfCopy(this.#entry.id, copy))
  }
}
