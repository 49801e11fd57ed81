/**
 * The additional methods of a storage node's store: uploads with one id on every node, copies that
 * belong to a placement group, and a log of changes for other nodes.
 */
import type { BlobInfo, BlobName, BlobStage, BlobStore } from './blob-store.ts'

/** A placement group as the caller knows it. A node refuses a version older than its own. */
export interface GroupVersion {
  /** 0 is the group of a standalone store. */
  group: number
  version: number
}

export interface StageOptions {
  expectedBytes?: number
  signal?: AbortSignal
  /**
   * 16 bytes; the same on every node of the upload, and the incarnation of the copies. Absent:
   * random.
   */
  uploadId?: Uint8Array
  /** Absent: group 0. */
  placement?: GroupVersion
}

/** The content of a sealed stage. */
export interface SealedContent {
  id: Uint8Array
  size: number
  crc32: number
}

export interface PlacedCommit {
  pinMs: number
  /** Unix milliseconds; the same on every node of the upload. Absent: the store's clock. */
  createdMs?: number
  /** The stage becomes its own copy even when the store has another copy of this content. */
  asNew?: boolean
}

/**
 * The largest blob that `put` accepts. It is held whole in the memory of the sender and of each
 * node, so it is small. A stage of 256 KiB costs a node as much in calls as in bytes.
 */
export const smallBlobBytesMax = 256 * 1024

/** Copies in one batch request, and bytes in its answer: a slow line takes seconds for it. */
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
  placement: GroupVersion
}

export interface PlacedStage extends BlobStage {
  /**
   * All bytes are written: no write comes after it. Resolves with their digest and size; nothing is
   * durable yet. Repeating it gives the same answer.
   */
  seal(): Promise<SealedContent>
  /**
   * As `BlobStage.commit`; seals first if `seal` was not called. If the store already has a copy of
   * this very upload, that copy stays, or, when it is damaged, is replaced once the new one is
   * synced. A known copy counts only when it is of the stage's placement group. Of several, the one
   * with the lowest incarnation is used, so that all nodes of the group choose the same one.
   */
  commit(options: PlacedCommit): Promise<BlobInfo>
}

export interface PlacedBlobStore extends BlobStore {
  /** @throws BlobFault as `BlobStore.stage`, and `STALE_PLACEMENT`. */
  stage(options?: StageOptions): Promise<PlacedStage>
  /**
   * Stores a small blob in one step, as `stage`, `write` and `commit` do. It is durable and pinned
   * when it resolves.
   *
   * Repeating it with the same upload id has one effect.
   * @returns the copy of this upload; without `asNew` possibly a known one of the group instead.
   * @throws BlobFault as `stage` and `commit`; `CORRUPT` when the bytes do not match the id;
   *   `INVALID` when there are more than `smallBlobBytesMax`; `UNKNOWN` when no answer came.
   */
  put(blob: SmallBlob, options: PutOptions): Promise<BlobInfo>
  /**
   * The answer of this upload's commit, for a caller that lost it. Copies are found as long as they
   * exist. An upload that was dropped in favour of another copy is found as long as the process
   * remembers it (the last 10,000).
   */
  committed(uploadId: Uint8Array): Promise<BlobInfo | undefined>
  /** Whole copies of this content in this store, of any incarnation. Damaged ones are omitted. */
  find(id: Uint8Array): Promise<BlobInfo[]>
  /**
   * @param options.whole pin it only when it is whole on disk, for an upload that is dropped in its
   *   favour. A copy that was not verified recently is verified first, which reads all of it once.
   *   False also when it is damaged.
   * @throws BlobFault `STALE_PLACEMENT` when the placement given is older than the node's; `IO`
   *   when a copy that must be verified cannot be read.
   */
  pin(blob: BlobName, options: { ttlMs: number; placement?: GroupVersion; whole?: boolean }): Promise<boolean>
  /**
   * Every copy of these groups, or of all, in the order of their ids; damaged ones are included and
   * marked.
   */
  inventory(options?: { groups?: readonly number[] }): AsyncIterable<BlobInfo>
}

/** A position in a store's log. Sequences are comparable only within one life of a store. */
export interface LogPosition {
  /** 16 bytes, random: generated at an unclean start and when the log was rebuilt. */
  store: Uint8Array
  sequence: number
}

export type LogEntry =
  | { kind: 'committed'; sequence: number; copy: BlobInfo }
  /** The deletion of this very copy. */
  | { kind: 'deleted'; sequence: number; copy: BlobName & { placementGroup: number } }

export interface PullQuery {
  after?: LogPosition | undefined
  limit: number
  /** Absent: all. */
  groups?: readonly number[]
  signal?: AbortSignal
}

export type PullAnswer =
  | {
      kind: 'entries'
      /** In rising order; entries of other groups are omitted. */
      entries: LogEntry[]
      /** Continue behind this one: the last entry examined, including omitted ones. */
      through: LogPosition
      /** Entries behind `through` that are durable already. */
      behind: number
      /**
       * Unix milliseconds of the source's clock: every durable commit up to this time is at or
       * before `through` + `behind`.
       */
      nowMs: number
    }
  /**
   * The position is of another life or older than the log: compare with an inventory that begins
   * after this answer, and continue behind `now`.
   */
  | { kind: 'unknown position'; now: LogPosition; nowMs: number }

/**
 * A log of stored and deleted copies. It returns only entries that no crash can undo, so a position
 * never belongs to two entries.
 */
export interface ReplicationSource {
  /**
   * Entries behind `after`; examines at most `limit` (1..10,000). Without `after`: as for an
   * unknown position.
   * @throws BlobFault `UNVERIFIED`, `UNAVAILABLE`.
   */
  pull(query: PullQuery): Promise<PullAnswer>
  /**
   * Reads many small copies in one request instead of one each.
   * @param copies at most `batchCopiesMax`, none of them larger than `smallBlobBytesMax`.
   * @returns in their order; each is whole and was verified like those of `read`. Undefined: not
   *   readable here, or no room in the answer; call `read`.
   * @throws BlobFault `INVALID`, `UNAVAILABLE`.
   */
  readBatch(copies: readonly BlobInfo[]): Promise<(Uint8Array | undefined)[]>
  /**
   * Unix milliseconds at which this copy was deleted here. Undefined: not deleted, or its tombstone
   * has expired.
   */
  deletedMs(blob: BlobName): Promise<number | undefined>
}

/** Small values that are stored with a store's catalogue and lost with it. */
export interface StoreNotes {
  /** @param name 1..200 bytes. */
  note(name: string): Promise<Uint8Array | undefined>
  /**
   * Durable when it resolves, together with everything the store acknowledged before it.
   * @param value at most 64 KiB; undefined removes it.
   */
  setNote(name: string, value: Uint8Array | undefined): Promise<void>
}

/** Finds damage before a reader does. */
export interface Verification {
  /**
   * Reads all of a copy from the disk, bypassing caches where possible, and compares it with its
   * checksums. Yields the number of bytes of each step. The next step begins when the consumer asks
   * for it, so the consumer sets the pace. The iteration ends normally when the copy is whole.
   * @throws BlobFault `NOT_FOUND`; `CORRUPT`: the copy is marked as damaged; `IO`: it cannot be
   *   read, which says nothing about its bytes.
   */
  verify(blob: BlobName, options?: { signal?: AbortSignal }): AsyncIterable<number>
}

/** All interfaces of a node's own store that replication needs. */
export interface NodeStore extends PlacedBlobStore, ReplicationSource, StoreNotes, Verification {}

/** A storage node as frontends and other nodes see it. */
export interface StorageNode extends PlacedBlobStore, ReplicationSource {
  /**
   * Fetches a copy from another node, verifies it and syncs it here. Returns at once when the whole
   * copy is here.
   * @param from name of the node.
   * @throws BlobFault `NOT_FOUND` and `CORRUPT` refer to the source.
   */
  copyFrom(
    from: string,
    blob: BlobInfo,
    options: { pinMs: number; placement: GroupVersion; signal?: AbortSignal },
  ): Promise<BlobInfo>
}
