/**
 * Blobs in memory, for tests and the simulation. Keeps the contracts of the ports except that
 * nothing survives the process; a commit is "durable" the moment it is made.
 */

import { randomBytes } from 'node:crypto'
import { type Clock, hex, systemClock } from '@holdfast/kernel'
import { digestOf } from './blob-digest.ts'
import type { BlobInfo, BlobName, BlobStoreUsage } from './blob-store.ts'
import { copyKey, nameOfCopy } from './copy-names.ts'
import { BlobFault } from './errors.ts'
import { MemoryLog, type MemoryLogOptions } from './memory-log.ts'
import type {
  NodeStore,
  PlacedCommit,
  PlacedStage,
  PullAnswer,
  PullQuery,
  PutOptions,
  SealedContent,
  SmallBlob,
  StageOptions,
} from './placed-blob-store.ts'
import { putSmall } from './put-small.ts'
import { readBatch } from './read-batch.ts'

export interface MemoryBlobStoreOptions extends MemoryLogOptions {
  clock?: Clock
  /** Committed and staged bytes together. Default 1 GiB. */
  capacityBytes?: number
  /** Stages open at once. Default 1,024. */
  stagesMax?: number
  /** A stage without activity for this long is swept. Default 1 h. */
  stageIdleMs?: number
}

interface Copy {
  info: BlobInfo
  bytes: Buffer
  /** Some bytes are wrong, and the store has not noticed. */
  rotten: boolean
}

const chunkBytes = 64 * 1024
/** Results of uploads that made no copy of their own. */
const outcomesMax = 10_000

export class MemoryBlobStore implements NodeStore {
  readonly #clock: Clock
  readonly #random: (bytes: number) => Uint8Array
  readonly #capacityBytes: number
  readonly #stagesMax: number
  readonly #stageIdleMs: number
  /** By blob id (hex), then incarnation (hex). */
  readonly #copies = new Map<string, Map<string, Copy>>()
  /** Id (hex) of the blob that an upload (hex) made or was dropped for. */
  readonly #outcomes = new Map<string, BlobName>()
  /** Monotonic time at which a pin ends, by blob and incarnation. */
  readonly #pins = new Map<string, number>()
  readonly #stages = new Map<string, MemoryStage>()
  readonly #notes = new Map<string, Uint8Array>()
  readonly #log: MemoryLog
  #liveBytes = 0
  #blobs = 0
  #closed = false

  constructor(options: MemoryBlobStoreOptions = {}) {
    this.#clock = options.clock ?? systemClock
    this.#random = options.random ?? randomBytes
    this.#capacityBytes = options.capacityBytes ?? 1024 ** 3
    this.#stagesMax = options.stagesMax ?? 1024
    this.#stageIdleMs = options.stageIdleMs ?? 3_600_000
    this.#log = new MemoryLog(this.#clock, options)
  }

  async stage(options: StageOptions = {}): Promise<PlacedStage> {
    this.#assertOpen()
    if (options.signal?.aborted) throw new BlobFault('CANCELLED', 'the upload was aborted before it began')
    this.#sweep()
    if (this.#stages.size >= this.#stagesMax)
      throw new BlobFault('UNAVAILABLE', `${this.#stages.size} stages are open, no more are allowed`)
    if ((options.expectedBytes ?? 0) > this.#room() || this.#room() <= 0)
      throw new BlobFault('FULL', `no room for a stage, ${this.#room()} bytes are free`)
    const uploadId = options.uploadId ?? this.#random(16)
    if (this.#stages.has(hex(uploadId)))
      throw new BlobFault('INVALID', `the upload ${hex(uploadId)} is staged already`)
    const stage = new MemoryStage(uploadId, this.#clock, {
      room: () => this.#room(),
      commit: (content, bytes, commit) =>
        this.#commit(uploadId, options.placement?.group, content, bytes, commit),
      drop: () => this.#stages.delete(hex(uploadId)),
    })
    this.#stages.set(hex(uploadId), stage)
    return stage
  }

  put(blob: SmallBlob, options: PutOptions): Promise<BlobInfo> {
    return putSmall(this, blob, options)
  }

  async committed(uploadId: Uint8Array): Promise<BlobInfo | undefined> {
    this.#assertOpen()
    const name = this.#outcomes.get(hex(uploadId))
    return name && this.stat(name)
  }

  async find(id: Uint8Array): Promise<BlobInfo[]> {
    this.#assertOpen()
    const copies = [...(this.#copies.get(hex(id))?.values() ?? [])]
    return copies.filter(({ info }) => info.damaged === undefined).map(({ info }) => ({ ...info }))
  }

  async stat(blob: BlobName): Promise<BlobInfo | undefined> {
    this.#assertOpen()
    const copy = this.#find(blob)
    return copy && { ...copy.info }
  }

  async *read(
    blob: BlobName,
    { start, end }: { start: number; end: number },
    options: { signal?: AbortSignal } = {},
  ): AsyncIterable<Uint8Array> {
    this.#assertOpen()
    const copy = this.#find(blob)
    if (copy === undefined) throw new BlobFault('NOT_FOUND', `no copy of ${nameOfCopy(blob)}`)
    if (!(0 <= start && start <= end && end <= copy.info.size))
      throw new RangeError(`bytes ${start}..${end} of a blob of ${copy.info.size}`)
    const scratch = Buffer.alloc(chunkBytes)
    if (!isUndamaged(copy)) throw new BlobFault('CORRUPT', `${hex(blob.id)} has rotted`)
    for (let at = start; at < end; at += chunkBytes) {
      if (options.signal?.aborted) throw new BlobFault('CANCELLED', 'the reader gave up')
      this.#assertOpen()
      const count = copy.bytes.copy(scratch, 0, at, Math.min(end, at + chunkBytes))
      yield scratch.subarray(0, count)
      scratch.fill(0xee) // exposes a consumer that keeps a chunk for too long
    }
  }

  async pin(blob: BlobName, { ttlMs, whole = false }: { ttlMs: number; whole?: boolean }): Promise<boolean> {
    this.#assertOpen()
    const copy = this.#find(blob)
    if (copy === undefined || (whole && !isUndamaged(copy))) return false
    this.#extendPin(blob, ttlMs)
    return true
  }

  async *verify(blob: BlobName): AsyncGenerator<number, void, undefined> {
    this.#assertOpen()
    const copy = this.#find(blob)
    if (copy === undefined) throw new BlobFault('NOT_FOUND', `no copy of ${nameOfCopy(blob)}`)
    if (!isUndamaged(copy)) throw new BlobFault('CORRUPT', `${hex(blob.id)} has rotted`)
    yield copy.bytes.length
  }

  async delete(blob: BlobName): Promise<'deleted' | 'pinned'> {
    this.#assertOpen()
    const copy = this.#find(blob)
    if (copy === undefined) return 'deleted'
    const key = copyKey(blob)
    if ((this.#pins.get(key) ?? Number.NEGATIVE_INFINITY) > this.#clock.monotonic()) return 'pinned'
    this.#pins.delete(key)
    this.#outcomes.delete(hex(blob.incarnation))
    const copies = this.#copies.get(hex(blob.id))
    copies?.delete(hex(blob.incarnation))
    if (copies?.size === 0) this.#copies.delete(hex(blob.id))
    this.#liveBytes -= copy.info.size
    this.#blobs--
    this.#log.deleted(copy.info)
    return 'deleted'
  }

  async *inventory(options: { groups?: readonly number[] } = {}): AsyncIterable<BlobInfo> {
    this.#assertOpen()
    for (const id of [...this.#copies.keys()].sort())
      for (const { info } of [...(this.#copies.get(id)?.values() ?? [])])
        if (options.groups?.includes(info.placementGroup ?? 0) !== false) yield { ...info }
  }

  async pull(query: PullQuery): Promise<PullAnswer> {
    this.#assertOpen()
    return this.#log.pull(query)
  }

  readBatch(copies: readonly BlobInfo[]): Promise<(Uint8Array | undefined)[]> {
    return readBatch(this, copies)
  }

  async deletedMs(blob: BlobName): Promise<number | undefined> {
    this.#assertOpen()
    return this.#log.deletedMs(blob)
  }

  async note(name: string): Promise<Uint8Array | undefined> {
    this.#assertOpen()
    const value = this.#notes.get(name)
    return value && Buffer.from(value)
  }

  async setNote(name: string, value: Uint8Array | undefined): Promise<void> {
    this.#assertOpen()
    if (value === undefined) this.#notes.delete(name)
    else this.#notes.set(name, Buffer.from(value))
  }

  async usage(): Promise<BlobStoreUsage> {
    this.#assertOpen()
    this.#sweep()
    return {
      liveBytes: this.#liveBytes,
      blobs: this.#blobs,
      diskBytes: this.#liveBytes + this.#stagedBytes(),
      freeBytes: Math.max(0, this.#room()),
      writable: this.#room() > 0,
      openStages: this.#stages.size,
      stagedBytes: this.#stagedBytes(),
    }
  }

  async close(): Promise<void> {
    for (const stage of [...this.#stages.values()]) await stage.abort()
    this.#closed = true
  }

  /**
   * As after a power failure: stages and pins are lost, copies stay, the log gets a new random id.
   */
  crash(): void {
    for (const stage of [...this.#stages.values()]) stage.lose()
    this.#pins.clear()
    this.#log.beginLife()
  }

  /** Flips one bit of a copy; the next reader notices. */
  rot(blob: BlobName): void {
    const copy = this.#find(blob)
    if (copy === undefined || copy.bytes.length === 0) throw new RangeError('there are no bytes to rot')
    copy.bytes = Buffer.from(copy.bytes)
    copy.bytes[0] = (copy.bytes[0] as number) ^ 1
    copy.rotten = true
  }

  #commit(
    uploadId: Uint8Array,
    group: number | undefined,
    content: SealedContent,
    bytes: Buffer,
    { pinMs, createdMs, asNew }: PlacedCommit,
  ): BlobInfo {
    this.#assertOpen()
    const copies = this.#copies.get(hex(content.id)) ?? new Map<string, Copy>()
    let copy = copies.get(hex(uploadId))
    if (!asNew) copy ??= knownOf(copies, group)
    if (copy?.info.damaged) {
      copy.bytes = bytes
      copy.rotten = false
      copy.info.damaged = undefined
    }
    if (copy === undefined) {
      const info: BlobInfo = {
        ...content,
        incarnation: Buffer.from(uploadId),
        createdMs: createdMs ?? this.#clock.now(),
        placementGroup: group,
        damaged: undefined,
      }
      copy = { info, bytes, rotten: false }
      copies.set(hex(uploadId), copy)
      this.#copies.set(hex(content.id), copies)
      this.#liveBytes += bytes.length
      this.#blobs++
      this.#log.committed(info)
    }
    this.#extendPin(copy.info, pinMs)
    this.#outcomes.set(hex(uploadId), copy.info)
    if (this.#outcomes.size > outcomesMax + this.#blobs) this.#dropOutcome()
    return { ...copy.info }
  }

  #dropOutcome(): void {
    for (const [upload, { incarnation }] of this.#outcomes)
      if (upload !== hex(incarnation)) {
        this.#outcomes.delete(upload)
        return
      }
  }

  #extendPin(blob: BlobName, ttlMs: number): void {
    const key = copyKey(blob)
    const until = this.#clock.monotonic() + ttlMs
    this.#pins.set(key, Math.max(until, this.#pins.get(key) ?? until))
  }

  #find(blob: BlobName): Copy | undefined {
    return this.#copies.get(hex(blob.id))?.get(hex(blob.incarnation))
  }

  #stagedBytes(): number {
    let bytes = 0
    for (const stage of this.#stages.values()) bytes += stage.bytes
    return bytes
  }

  #room(): number {
    return this.#capacityBytes - this.#liveBytes - this.#stagedBytes()
  }

  #sweep(): void {
    const before = this.#clock.monotonic() - this.#stageIdleMs
    for (const stage of [...this.#stages.values()]) if (stage.activeAt < before) stage.lose()
  }

  #assertOpen(): void {
    if (this.#closed) throw new BlobFault('CLOSED', 'the blob store is closed')
  }
}

/** Notices damaged bytes. */
function isUndamaged(copy: Copy): boolean {
  if (copy.rotten) copy.info.damaged = true
  return copy.info.damaged === undefined
}

/** The copy of the group for which an upload is dropped, or which it replaces. */
function knownOf(copies: Map<string, Copy>, group = 0): Copy | undefined {
  const known = [...copies]
    .filter(([, { info }]) => (info.placementGroup ?? 0) === group)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([, copy]) => copy)
  return known.find(isUndamaged) ?? known[0]
}

interface StageOwner {
  room(): number
  commit(content: SealedContent, bytes: Buffer, commit: PlacedCommit): BlobInfo
  drop(): void
}

class MemoryStage implements PlacedStage {
  readonly uploadId: Uint8Array
  readonly #clock: Clock
  readonly #owner: StageOwner
  #parts: Buffer[] = []
  #state: 'open' | 'sealed' | 'lost' | 'ended' = 'open'
  #sealed: SealedContent | undefined
  #committed: Promise<BlobInfo> | undefined
  bytes = 0
  /** Monotonic milliseconds of the last write. */
  activeAt: number

  constructor(uploadId: Uint8Array, clock: Clock, owner: StageOwner) {
    this.uploadId = uploadId
    this.#clock = clock
    this.#owner = owner
    this.activeAt = clock.monotonic()
  }

  write(bytes: Uint8Array): undefined {
    this.#assertAlive()
    if (this.#state === 'sealed') throw new BlobFault('CLOSED', 'the stage is sealed')
    this.activeAt = this.#clock.monotonic()
    if (bytes.length > this.#owner.room()) {
      this.lose()
      throw new BlobFault('FULL', `no room for ${bytes.length} more bytes`)
    }
    this.#parts.push(Buffer.from(bytes))
    this.bytes += bytes.length
    return undefined
  }

  async seal(): Promise<SealedContent> {
    this.#assertAlive()
    this.activeAt = this.#clock.monotonic()
    if (this.#sealed !== undefined) return this.#sealed
    const bytes = Buffer.concat(this.#parts)
    this.#parts = [bytes]
    this.#state = 'sealed'
    this.#sealed = { ...digestOf(bytes), size: bytes.length }
    return this.#sealed
  }

  commit(options: PlacedCommit): Promise<BlobInfo> {
    this.#committed ??= this.#commitOnce(options)
    return this.#committed
  }

  async #commitOnce(options: PlacedCommit): Promise<BlobInfo> {
    const content = await this.seal()
    this.#assertAlive() // an abort may have happened meanwhile
    const [bytes] = this.#parts as [Buffer]
    this.#end('ended')
    return this.#owner.commit(content, bytes, options)
  }

  async abort(): Promise<void> {
    if (this.#state === 'open' || this.#state === 'sealed') this.#end('ended')
  }

  lose(): void {
    this.#end('lost')
  }

  #end(state: 'lost' | 'ended'): void {
    this.#state = state
    this.#parts = []
    this.bytes = 0
    this.#owner.drop()
  }

  #assertAlive(): void {
    if (this.#state === 'lost') throw new BlobFault('UNAVAILABLE', 'the stage was swept or lost')
    if (this.#state === 'ended') throw new BlobFault('CLOSED', 'the stage has ended')
  }
}
