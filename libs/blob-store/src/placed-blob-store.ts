/**
 * What a store adds when it is one of many: uploads that carry one id on every node, copies that
 * belong to a placement group, and a log from which other nodes learn what came and went.
 */
import type { BlobFacts, BlobName, BlobStage, BlobStore } from './blob-store.ts'

/** A placement group as the caller knows it. A node refuses an older version than its own. */
export interface Placement {
  /** 0 is the group of a store that stands alone. */
  group: number
  version: number
}

export interface StageOptions {
  expectedBytes?: number
  signal?: AbortSignal
  /**
   * 16 bytes; the same on every node of the upload, and the incarnation of the copies. Without it:
   * random.
   */
  uploadId?: Uint8Array
  /** Without it: group 0. */
  placement?: Placement
}

/** What a sealed stage holds. */
export interface SealedContent {
  id: Uint8Array
  size: number
  crc32: number
}

export interface PlacedCommit {
  pinMs: number
  /** Unix milliseconds; the same on every node of the upload. Without it: the store's clock. */
  createdMs?: number
  /** The stage becomes a copy of its own, also when another copy of this content is here. */
  asNew?: boolean
}

/**
 * The largest blob that `put` takes. It waits whole in the memory of the sender and of each node,
 * so it is small; a stage of 256 KiB costs a node as much in calls as in bytes.
 */
export const smallBlobBytesMax = 256 * 1024

/** Copies in one question for bytes, and bytes in its answer: a slow line takes seconds for it. */
export const batchCopiesMax = 256
export const batchBytesMax = 1024 * 1024

/** A blob that is small enough to be stored in one step. */
export interface SmallBlob {
  /** 48 bytes: the digest of the bytes. */
  id: Uint8Array
  bytes: Uint8Array
}

export interface PutOptions extends PlacedCommit {
  /** As of `StageOptions`. */
  uploadId: Uint8Array
  placement: Placement
}

export interface PlacedStage extends BlobStage {
  /**
   * All bytes are in: no write comes after it. Resolves with what they are; nothing is durable yet.
   * Repeating it gives the same answer.
   */
  seal(): Promise<SealedContent>
  /**
   * As `BlobStage.commit`; seals first where that was not done. When a copy of this very upload is
   * here already it stays, or, when it is damaged, it is replaced once the new one is synced. A
   * known copy counts only when it is of the stage's placement group. Of several, the one with the
   * lowest incarnation is taken, so that all nodes of the group take the same one.
   */
  commit(options: PlacedCommit): Promise<BlobFacts>
}

export interface PlacedBlobStore extends BlobStore {
  /** @throws BlobFault as `BlobStore.stage`, and `STALE_PLACEMENT`. */
  stage(options?: StageOptions): Promise<PlacedStage>
  /**
   * Stores a small blob in one step, as `stage`, `write` and `commit` do. It is durable and pinned
   * when it resolves.
   *
   * Repeating it with the same upload id has one effect.
   * @returns the copy of this upload; without `asNew` maybe a known one of the group instead.
   * @throws BlobFault as `stage` and `commit`; `CORRUPT` when the bytes are not those of the id;
   * `INVALID` when there are more than `smallBlobBytesMax`; `UNKNOWN` when no answer came.
   */
  put(blob: SmallBlob, options: PutOptions): Promise<BlobFacts>
  /**
   * What the commit of this upload answered, for a commit whose answer was lost. Copies are found
   * as long as they live; an upload that was dropped in favour of another copy, as long as the
   * process remembers it (the last 10,000).
   */
  committed(uploadId: Uint8Array): Promise<BlobFacts | undefined>
  /** Whole copies of this content that are here, of any incarnation. Damaged ones are left out. */
  find(id: Uint8Array): Promise<BlobFacts[]>
  /**
   * @param options.whole pin it only when it is whole on the disk, for an upload that is dropped in
   * its favour: a copy that was not verified for long is verified first, which reads all of it
   * once. False also when it is damaged.
   * @throws BlobFault `STALE_PLACEMENT` when the placement given is older than the node's; `IO`
   * when a copy that must be verified cannot be read.
   */
  pin(blob: BlobName, options: { ttlMs: number; placement?: Placement; whole?: boolean }): Promise<boolean>
  /**
   * Every copy of these groups, or of all, in the order of their ids; damaged ones are included and
   * marked.
   */
  inventory(options?: { groups?: readonly number[] }): AsyncIterable<BlobFacts>
}

/** A place in a store's log. Sequences are comparable within one life of a store only. */
export interface LogPosition {
  /** 16 bytes, random: made anew at an unclean start and when the log was rebuilt. */
  store: Uint8Array
  sequence: number
}

export type LogEntry =
  | { kind: 'committed'; sequence: number; copy: BlobFacts }
  /** The deletion of this very copy. */
  | { kind: 'deleted'; sequence: number; copy: BlobName & { placementGroup: number } }

export type Pulled =
  | {
      kind: 'entries'
      /** In rising order; those of other groups are left out. */
      entries: LogEntry[]
      /** Continue behind this one: the last entry looked at, also when it was left out. */
      through: LogPosition
      /** Entries behind `through` that are durable already. */
      behind: number
      /**
       * Unix milliseconds of the source's clock: everything it had committed by then, and that is
       * durable, is at or before `through` + `behind`.
       */
      nowMs: number
    }
  /**
   * The position is of another life or older than the log: compare with an inventory begun after
   * this answer, go on behind `now`.
   */
  | { kind: 'unknown position'; now: LogPosition; nowMs: number }

/**
 * A log of copies that came and went. Only entries that no crash can take back are given out, so a
 * position is never given to two entries.
 */
export interface ReplicationSource {
  /**
   * Entries behind `after`, at most `limit` (1..10,000) looked at. Without `after`: as for an
   * unknown position.
   * @throws BlobFault `UNVERIFIED`, `UNAVAILABLE`.
   */
  pull(request: {
    after?: LogPosition | undefined
    limit: number
    groups?: readonly number[]
    signal?: AbortSignal
  }): Promise<Pulled>
  /**
   * The bytes of small copies, for those who fetch many: one question instead of one each.
   * @param copies at most `batchCopiesMax`, none of them larger than `smallBlobBytesMax`.
   * @returns in their order; each is whole and was checked like those of `read`. Undefined: not at
   * hand, or no room in the answer; `read` it.
   * @throws BlobFault `INVALID`, `UNAVAILABLE`.
   */
  readBatch(copies: readonly BlobFacts[]): Promise<(Uint8Array | undefined)[]>
  /**
   * Unix milliseconds at which this copy was deleted here; undefined when it was not, or longer ago
   * than tombstones are kept.
   */
  deletedMs(blob: BlobName): Promise<number | undefined>
}

/** Small facts that live and die with a store's catalogue. */
export interface StoreNotes {
  /** @param name 1..200 bytes. */
  note(name: string): Promise<Uint8Array | undefined>
  /**
   * Durable when it resolves, together with everything the store acknowledged before it.
   * @param value at most 64 KiB; undefined removes it.
   */
  setNote(name: string, value: Uint8Array | undefined): Promise<void>
}

/** What finds rot before a reader does. */
export interface Verification {
  /**
   * Reads all of a copy from the disk, past every cache that can be passed, and compares it with
   * its checksums. Yields the number of bytes of each step; the next step begins when the consumer
   * asks for it, so the consumer sets the pace. A copy that is whole ends the iteration.
   * @throws BlobFault `NOT_FOUND`; `CORRUPT`: the copy is marked as damaged; `IO`: it cannot be
   * read, which says nothing of its bytes.
   */
  verify(blob: BlobName, options?: { signal?: AbortSignal }): AsyncIterable<number>
}

/** All that a node's own store has to be for replication. */
export interface NodeStore extends PlacedBlobStore, ReplicationSource, StoreNotes, Verification {}

/** A storage node as frontends and other nodes see it. */
export interface StorageNode extends PlacedBlobStore, ReplicationSource {
  /**
   * Fetches a copy from another node, checks it and syncs it here. At once when it is here and
   * whole.
   * @param from name of the node.
   * @throws BlobFault `NOT_FOUND` and `CORRUPT` speak of the source.
   */
  copyFrom(
    from: string,
    blob: BlobFacts,
    options: { pinMs: number; placement: Placement; signal?: AbortSignal },
  ): Promise<BlobFacts>
}
