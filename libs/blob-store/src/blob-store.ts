/**
 * Where bytes are stored. A physical copy is (blob id, incarnation). The id is md5 ‖ BLAKE3-256 (48
 * bytes, always compared whole). The incarnation is the 16-byte id of the upload that made the
 * copy. Blobs are immutable.
 */
export interface BlobStore {
  /**
   * Begins an upload. The stage belongs to the caller until `commit` or `abort`. A stage without
   * either is removed after a period without activity.
   * @throws BlobFault `FULL` below the low-water mark, `UNAVAILABLE` when too many stages are open.
   */
  stage(options?: { expectedBytes?: number; signal?: AbortSignal }): Promise<BlobStage>

  /** Describes a copy; undefined when the store does not have it. */
  stat(blob: BlobName): Promise<BlobInfo | undefined>

  /**
   * The bytes `start` … `end` (end exclusive), each verified against its checksum before it is
   * yielded. A chunk is valid only until the consumer asks for the next one. Ending the iteration
   * early frees everything at once.
   *
   * @throws BlobFault `NOT_FOUND` before the first chunk, `CORRUPT` or `IO` at any point: the bytes
   *   yielded before it are correct.
   */
  read(
    blob: BlobName,
    range: { start: number; end: number },
    options?: { signal?: AbortSignal },
  ): AsyncIterable<Uint8Array>

  /**
   * Protects this copy from deletion for at least `ttlMs` from now; a longer pin wins. False when
   * the store does not have the copy.
   */
  pin(blob: BlobName, options: { ttlMs: number }): Promise<boolean>

  /**
   * Removes this copy unless it is pinned. Durable when it resolves. The space is freed when the
   * last reader ends.
   * @returns `pinned` when nothing was done, `deleted` also when the copy did not exist.
   */
  delete(blob: BlobName): Promise<'deleted' | 'pinned'>

  /** Every copy in the store, in no particular order: for reconciliation. */
  inventory(): AsyncIterable<BlobInfo>

  /** Space and state, for limits, metrics and readiness. */
  usage(): Promise<BlobStoreUsage>

  close(): Promise<void>
}

/** An optional speed-up: small blobs, or small blobs in memory, need no iteration. */
export interface WholeReads {
  /**
   * The bytes `start` … `end` in one piece, verified like those of `read`.
   * @returns undefined when they are too many or not in memory: call `read`.
   * @throws BlobFault `NOT_FOUND`, `CORRUPT`, `IO`.
   */
  readWhole(blob: BlobName, range: { start: number; end: number }): Promise<WholeBytes | undefined>
}

export interface WholeBytes {
  /** May be shared: do not modify. Valid until the release. */
  readonly bytes: Uint8Array
  /**
   * Releases the bytes; their memory may be reused. Without it the store allocates fresh memory. A
   * second call does nothing.
   */
  release(): void
}

/** An optional speed-up: bytes in the page cache go to a socket without being copied. */
export interface DirectSends {
  /**
   * A reader of this copy, which stays readable until the release.
   * @returns undefined when this way is not available: call `read`.
   * @throws BlobFault `NOT_FOUND`.
   */
  openSender(blob: BlobName): Promise<BlobSender | undefined>
}

export interface BlobSender {
  /**
   * Sends the socket the first of the bytes `start` … `end`, at once, each verified like those of
   * `read`.
   * @param socket a non-blocking descriptor without pending output.
   * @returns undefined when the bytes are not in memory, or not correct: call `read`.
   * @throws BlobFault `CLOSED`.
   */
  send(range: { start: number; end: number }, socket: number): SentBytes | undefined
  /** As the store's method, for the copy that this reader holds. */
  read(range: { start: number; end: number }, options?: { signal?: AbortSignal }): AsyncIterable<Uint8Array>
  /** A second call does nothing. */
  release(): void
}

export interface SentBytes {
  /** Bytes that the socket accepted. */
  count: number
  /** The bytes after them, which the socket did not accept: verified, and to be sent next. */
  rest: WholeBytes | undefined
}

export function sendsDirectly(store: BlobStore): store is BlobStore & DirectSends {
  return 'openSender' in store
}

export function readsWhole(store: BlobStore): store is BlobStore & WholeReads {
  return 'readWhole' in store
}

export interface BlobStage {
  /** 16 bytes; becomes the incarnation. */
  readonly uploadId: Uint8Array
  /**
   * Takes the next bytes; they are copied before it returns. Resolves when there is room for more:
   * await it before the next call.
   * @throws BlobFault `FULL`, `IO`: the stage is lost and frees itself.
   */
  write(bytes: Uint8Array): Promise<void> | undefined
  /**
   * All bytes are written: finishes the hashes, syncs the bytes, and makes them a blob. If the
   * store already has a whole copy of the same blob, it pins that copy and drops the stage; whole
   * means verified on disk after the stage was made. If all existing copies are damaged, the stage
   * replaces one, under its name. The result is pinned for `pinMs`, durable, and readable when it
   * resolves.
   */
  commit(options: { pinMs: number }): Promise<BlobInfo>
  /** Frees everything. Harmless after commit. */
  abort(): Promise<void>
}

/** A stage of a store whose copies lie on several nodes. */
export interface ReportsHolders {
  /**
   * Names of the nodes that acknowledged the commit, nearest first; empty before it. Others may get
   * a copy later.
   */
  readonly acknowledgedBy: readonly string[]
}

export function reportsHolders(stage: BlobStage): stage is BlobStage & ReportsHolders {
  return 'acknowledgedBy' in stage
}

export interface BlobName {
  /** 48 bytes. */
  id: Uint8Array
  /** 16 bytes. */
  incarnation: Uint8Array
  /**
   * Which group of nodes holds it, where there are several. It says where to look and is not part
   * of the name.
   */
  placementGroup: number | undefined
}

export interface BlobInfo extends BlobName {
  size: number
  crc32: number
  /** Unix milliseconds of the commit. */
  createdMs: number
  /** Some of its bytes are known to be wrong; it waits for a replacement. */
  damaged: true | undefined
}

export interface BlobStoreUsage {
  /** Bytes of live blobs, as stored. */
  liveBytes: number
  blobs: number
  /**
   * Bytes the store occupies on disk, including those of deleted blobs and of files kept for reuse.
   */
  diskBytes: number
  /** Bytes that can still be written. */
  freeBytes: number
  writable: boolean
  openStages: number
  /** Bytes held by uncommitted stages. */
  stagedBytes: number
}

/** The state of a store, for probes, status and metrics. */
export interface StoreHealth {
  /**
   * Why it does not work, and will not until it is restarted. Undefined: it works, or recovers
   * without help.
   */
  failure: Error | undefined
  /** It accepts no changes now, or not all, and retries without help. */
  recovering: boolean
  quarantined: readonly QuarantinedFile[]
  /** Writes and syncs of extents that failed since the store was opened. */
  extentFailures: number
  /**
   * Why there may be blobs that the store does not know of. Undefined: it can name everything it
   * lost.
   */
  gap: string | undefined
  /** Bytes in the page cache go to sockets without being copied. */
  sendsDirectly: boolean
  /** Library that keeps what lies where. */
  catalogue: string
}

export const quarantineReasons = ['foreign', 'damaged', 'unreadable', 'missing'] as const

/**
 * `foreign`: of another store, or of another place. `damaged`: no whole header, or shorter than its
 * contents. `unreadable`: it cannot be opened, or the disk returns errors for parts of it.
 * `missing`: it holds live blobs, and the file is gone.
 */
export type QuarantineReason = (typeof quarantineReasons)[number]

/** A file of the store that is read as far as possible, and never reused or removed. */
export interface QuarantinedFile {
  file: string
  reason: QuarantineReason
  bytes: number
  /** Bytes of its live blobs, as stored. */
  liveBytes: number
}

/** Not every store has it. */
export interface ReportsHealth {
  readonly health: StoreHealth
}

export function reportsHealth(store: BlobStore): store is BlobStore & ReportsHealth {
  return 'health' in store
}
