/**
 * Where bytes live. A physical copy is (blob id, incarnation): the id is md5 ‖ BLAKE3-256 (48
 * bytes, always compared whole), the incarnation the 16-byte id of the upload that made it. Blobs
 * are immutable.
 */
export interface BlobStore {
  /**
   * Begins an upload. The stage belongs to the caller until `commit` or `abort`; what is neither is
   * swept by last activity.
   * @throws BlobFault `FULL` below the low-water mark, `UNAVAILABLE` when too many stages are open.
   */
  stage(options?: { expectedBytes?: number; signal?: AbortSignal }): Promise<BlobStage>

  /** Facts of a copy; undefined when it is not here. */
  stat(blob: BlobName): Promise<BlobFacts | undefined>

  /**
   * The bytes `start` … `end` (end exclusive), every one of them checked against its checksum
   * before it is given out. A chunk is the consumer's only until it asks for the next one. Ending
   * the iteration early frees everything at once.
   *
   * @throws BlobFault `NOT_FOUND` before the first chunk, `CORRUPT` or `IO` at any point: what came
   * before it is right.
   */
  read(
    blob: BlobName,
    range: { start: number; end: number },
    options?: { signal?: AbortSignal },
  ): AsyncIterable<Uint8Array>

  /**
   * Keeps this copy from deletion for `ttlMs` from now on, longest wins. False when it is not here
   * (any more).
   */
  pin(blob: BlobName, options: { ttlMs: number }): Promise<boolean>

  /**
   * Removes this copy unless it is pinned. Durable when it resolves; the space comes back when the
   * last reader has gone.
   * @returns `pinned` when nothing was done, `deleted` also when it was not there.
   */
  delete(blob: BlobName): Promise<'deleted' | 'pinned'>

  /** Every copy in the store, in no particular order: for reconciliation. */
  inventory(): AsyncIterable<BlobFacts>

  /** Space and state, for limits, metrics and readiness. */
  usage(): Promise<BlobStoreUsage>

  close(): Promise<void>
}

/** A speed-up that some stores have: what is small, or small and in memory, needs no iteration. */
export interface WholeReads {
  /**
   * The bytes `start` … `end` in one piece, checked like those of `read`.
   * @returns undefined when they are too many for that or are not at hand: `read` them.
   * @throws BlobFault `NOT_FOUND`, `CORRUPT`, `IO`.
   */
  readWhole(blob: BlobName, range: { start: number; end: number }): Promise<WholeBytes | undefined>
}

export interface WholeBytes {
  /** Maybe shared: nobody may change them. Good until the release. */
  readonly bytes: Uint8Array
  /**
   * They are needed no more: their memory may be used for others. Forgotten, it costs the store
   * fresh memory; the second time does nothing.
   */
  release(): void
}

/**
 * A speed-up that some stores have: what the system holds in memory goes to a socket without being
 * copied.
 */
export interface DirectSends {
  /**
   * A reader of this copy, which stays readable until the release.
   * @returns undefined when there is no such way for it: `read` it.
   * @throws BlobFault `NOT_FOUND`.
   */
  openSender(blob: BlobName): Promise<BlobSender | undefined>
}

export interface BlobSender {
  /**
   * Gives the socket the first of the bytes `start` … `end`, at once, every one of them checked
   * like those of `read`.
   * @param socket a descriptor that does not block, with nothing on its way to it.
   * @returns undefined when they are not at hand, or not right: `read` them.
   * @throws BlobFault `CLOSED`.
   */
  send(range: { start: number; end: number }, socket: number): SentBytes | undefined
  /** Like that of the store, of what this reader holds. */
  read(range: { start: number; end: number }, options?: { signal?: AbortSignal }): AsyncIterable<Uint8Array>
  /** The second time does nothing. */
  release(): void
}

export interface SentBytes {
  /** The socket has. */
  count: number
  /** Those that follow, which it did not take any more: checked, and to be sent next. */
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
   * All bytes are in: hashes them to the end, syncs them, and makes them a blob. When a whole copy
   * of the same blob is here already, that copy is pinned and the stage dropped; whole is what was
   * verified on the disk not long ago. When the only copies here are damaged, the stage takes the
   * place of one, under its name. The result is pinned for `pinMs`, durable, and readable when it
   * resolves.
   */
  commit(options: { pinMs: number }): Promise<BlobFacts>
  /** Frees everything. Harmless after commit. */
  abort(): Promise<void>
}

export interface BlobName {
  /** 48 bytes. */
  id: Uint8Array
  /** 16 bytes. */
  incarnation: Uint8Array
  /**
   * Which group of nodes holds it, where there are several: says where to look, and is no part of
   * the name.
   */
  placementGroup?: number
}

export interface BlobFacts extends BlobName {
  size: number
  crc32: number
  /** Unix milliseconds of the commit. */
  createdMs: number
  /** Some of its bytes are known to be wrong: it waits for a replacement. */
  damaged?: true
}

export interface BlobStoreUsage {
  /** Bytes of live blobs, as stored. */
  liveBytes: number
  blobs: number
  /**
   * Bytes the store occupies on disk, those of deleted blobs and of files kept for later ones
   * included.
   */
  diskBytes: number
  /** Bytes that can still be written. */
  freeBytes: number
  writable: boolean
  openStages: number
  /** Bytes held by stages that are not committed. */
  stagedBytes: number
}

/** What a store tells of itself beyond its figures, for probes, status and metrics. */
export interface StoreHealth {
  /**
   * Why it does not work, and will not until it is started again. Undefined: it works, or is on the
   * way to by itself.
   */
  failure: Error | undefined
  /** It takes no changes now, or not all, and tries again by itself. */
  recovering: boolean
  quarantined: readonly QuarantinedFile[]
  /**
   * Why there may be blobs that the store does not know of. Undefined: whatever it misses it can
   * name.
   */
  gap: string | undefined
  /** What is in memory goes to sockets without being copied. */
  sendsDirectly: boolean
}

export const quarantineReasons = ['foreign', 'damaged', 'unreadable', 'missing'] as const

/**
 * `foreign`: of another store, or of another place. `damaged`: no whole header, or shorter than
 * what stands in it. `unreadable`: it cannot be opened, or the disk gives errors for parts of it.
 * `missing`: live blobs stand in it, and the file is gone.
 */
export type QuarantineReason = (typeof quarantineReasons)[number]

/** A file of the store that is served as far as it can be read, and never used again or removed. */
export interface QuarantinedFile {
  file: string
  reason: QuarantineReason
  bytes: number
  /** Of live blobs in it, as stored. */
  liveBytes: number
}

/** Some stores have it. */
export interface TellsHealth {
  readonly health: StoreHealth
}

export function tellsHealth(store: BlobStore): store is BlobStore & TellsHealth {
  return 'health' in store
}
