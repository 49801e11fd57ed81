/**
 * One upload on its way in.
 *
 * Up to 64 KiB are gathered and hashed at commit, in this thread: a request to a worker costs more.
 * Beyond that, bytes are copied once into a buffer of the shared memory. A full buffer goes to a
 * hash worker and to the device at the same time, as one data record, and is free again when both
 * are done. When no buffer is free, `write` returns a promise; an upload that holds a partly filled
 * buffer while others wait writes it as a shorter record.
 */

import {
  BlobFault,
  type BlobInfo,
  digestOf,
  type PlacedCommit,
  type PlacedStage,
  type SealedContent,
} from '@holdfast/blob-store'
import { asBuffer, type Clock, GrowingBytes } from '@holdfast/kernel'
import { crc32 } from '@node-rs/crc32'
import type { Extent } from '../extents/extent.ts'
import type { ExtentPosition, ExtentTable } from '../extents/extent-table.ts'
import {
  blockBytes,
  chunkBytes,
  dataRecordBytes,
  encodeDataHeader,
  type HeaderSeal,
  inlineBytesMax,
  type Run,
  recordBytesMax,
} from '../format.ts'
import type { Crc32Combiner } from '../hashing/crc32-combine.ts'
import type { Hashing, HashStream } from '../hashing/hashing.ts'
import type { BufferHolder, BufferPool, PooledBuffer } from '../memory/buffer-pool.ts'

export interface StageDeps {
  clock: Clock
  buffers: BufferPool
  hashing: Hashing
  extents: ExtentTable
  seal: HeaderSeal
  crc: Crc32Combiner
  /** @throws BlobFault `FULL` when the disk is too full to accept more. */
  assertRoom(): void
  commit(
    stage: ChunkStage,
    blob: { id: Buffer; crc32: number },
    body: { bytes: Uint8Array } | { runs: Run[] },
    options: PlacedCommit,
  ): Promise<BlobInfo>
  /** The stage has ended. */
  ended(stage: ChunkStage): void
  /** Extents may have lost their last holder. */
  released(): void
}

interface StageContent {
  blob: { id: Buffer; crc32: number }
  size: number
  body: { bytes: Uint8Array } | { runs: Run[] }
}

export class ChunkStage implements PlacedStage, BufferHolder {
  readonly uploadId: Buffer
  readonly placementGroup: number
  readonly #deps: StageDeps
  /** Bytes accepted. */
  size = 0
  /** Of the last activity; monotonic milliseconds. */
  activeAt: number
  #state: 'open' | 'sealing' | 'sealed' | 'committing' | 'ended' = 'open'
  #sealed: Promise<StageContent> | undefined
  #fault: BlobFault | undefined
  #committed: Promise<BlobInfo> | undefined
  /** A small blob so far; later, what waits for a buffer. */
  readonly #aside = new GrowingBytes()
  #filling: Promise<void> | undefined
  #bulk = false
  #buffer: PooledBuffer | undefined
  #bufferBytes = 0
  #hash: HashStream | undefined
  /** Waits for a buffer. */
  #inLine = false
  /** Records that are being hashed or written. */
  #pending = 0
  #settled: (() => void) | undefined
  /** Where the next record is in the blob. */
  #position = 0
  #crc32 = 0
  readonly #runs: Run[] = []
  /** The last run's last record is full, so another may follow it. */
  #runOpen = false
  readonly #extents = new Set<Extent>()

  constructor(uploadId: Buffer, placementGroup: number, deps: StageDeps) {
    this.uploadId = uploadId
    this.placementGroup = placementGroup
    this.#deps = deps
    this.activeAt = deps.clock.monotonic()
  }

  get busy(): boolean {
    return this.#state === 'sealing' || this.#state === 'committing' || this.#filling !== undefined
  }

  write(bytes: Uint8Array): Promise<void> | undefined {
    this.#assertOpen()
    this.activeAt = this.#deps.clock.monotonic()
    this.size += bytes.length
    if (!this.#bulk && this.size <= inlineBytesMax) return this.#putAside(bytes)
    this.#bulk = true
    this.#assertRoom()
    // From now on the hash worker waits for this upload's bytes as well.
    this.#hash ??= this.#deps.hashing.open()
    const rest = this.#filling === undefined && this.#fillAside() ? this.#fill(bytes) : bytes
    if (rest === undefined) return undefined
    this.#putAside(rest)
    if (this.#filling === undefined) {
      this.#filling = this.#later(() => this.#drainAside())
      this.#filling.catch(() => {}) // an upload without waiting callers may be lost silently
    }
    return this.#filling
  }

  async seal(): Promise<SealedContent> {
    const { blob, size } = await this.#sealOnce()
    return { ...blob, size }
  }

  commit(options: PlacedCommit): Promise<BlobInfo> {
    this.#committed ??= this.#commit(options)
    return this.#committed
  }

  async abort(): Promise<void> {
    if (this.#state === 'ended' || this.#committed !== undefined) return
    this.lose(new BlobFault('CLOSED', 'the upload was aborted'))
  }

  /** Releases everything; writers and committers get the fault. A running commit ends by itself. */
  lose(fault: BlobFault): void {
    if (this.#state === 'ended') return
    this.#fault ??= fault
    if (this.#state === 'open' || this.#state === 'sealed') this.#end()
  }

  /** Resolves when nothing of this upload is being written. */
  async quiet(): Promise<void> {
    await this.#sealed?.catch(() => {})
    await this.#committed?.catch(() => {})
    if (this.#pending > 0)
      await new Promise<void>((resolve) => {
        this.#settled = resolve
      })
  }

  get progress(): number {
    return this.size
  }

  giveUpBuffer(): boolean {
    if (this.#buffer === undefined || this.#state !== 'open' || this.#filling !== undefined) return false
    if (this.#bufferBytes < chunkBytes) {
      // Too little for its own record: gathered until more comes.
      const buffer = this.#buffer
      const later = this.#aside.view()
      this.#buffer = undefined
      this.#deps.buffers.withdraw(this)
      this.#aside.clear()
      this.#aside.append(buffer.payload.subarray(0, this.#bufferBytes))
      this.#aside.append(later)
      this.#deps.buffers.give(buffer)
      return true
    }
    this.#filling = this.#later(() => this.#writeOut())
    this.#filling.catch(() => {}) // the stage is lost, and reports it to its owner
    return true
  }

  #putAside(bytes: Uint8Array): undefined {
    this.#aside.append(bytes)
    return undefined
  }

  /** Copies into buffers as long as that needs no wait. @returns what did not fit. */
  #fill(bytes: Uint8Array): Uint8Array | undefined {
    const source = asBuffer(bytes)
    let at = 0
    while (at < bytes.length) {
      if (this.#buffer === undefined && !this.#takeBuffer(this.#deps.buffers.tryTake()))
        return bytes.subarray(at)
      const buffer = this.#buffer as unknown as PooledBuffer
      const count = Math.min(bytes.length - at, recordBytesMax - this.#bufferBytes)
      buffer.put(count === source.length ? source : source.subarray(at, at + count), this.#bufferBytes)
      this.#bufferBytes += count
      at += count
      if (this.#bufferBytes < recordBytesMax) continue
      const place = this.#deps.extents.tryPlace(dataRecordBytes(recordBytesMax))
      if (place === undefined) return bytes.subarray(at)
      this.#send(place)
    }
    return undefined
  }

  async #later(act: () => Promise<void>): Promise<void> {
    try {
      await Promise.resolve() // gathers first what is written in this turn
      await act()
    } finally {
      this.#filling = undefined // in the same turn, or a write would wait for an ended stage
    }
  }

  /** Puts gathered bytes into buffers, waiting for buffers and for room on the disk. */
  async #drainAside(): Promise<void> {
    for (;;) {
      if (this.#fault !== undefined) throw this.#fault
      if (this.#buffer !== undefined && this.#bufferBytes === recordBytesMax) await this.#writeOut()
      if (this.#fillAside()) return
      if (this.#buffer !== undefined) continue
      this.#inLine = true
      const buffer = await this.#deps.buffers.take(() => this.#fault !== undefined)
      this.#inLine = false
      if (buffer === undefined) throw this.#lost()
      this.#takeBuffer(buffer)
    }
  }

  /**
   * Puts gathered bytes into buffers as long as that needs no wait.
   * @returns whether nothing is left of them.
   */
  #fillAside(): boolean {
    const { length } = this.#aside
    if (length === 0) return true
    const rest = this.#fill(this.#aside.view())
    this.#aside.drop(length - (rest?.length ?? 0))
    return rest === undefined
  }

  #takeBuffer(buffer: PooledBuffer | undefined): boolean {
    if (buffer === undefined) return false
    this.#buffer = buffer
    this.#bufferBytes = 0
    this.#deps.buffers.offer(this)
    return true
  }

  async #writeOut(): Promise<void> {
    const bytes = dataRecordBytes(this.#bufferBytes)
    let place: ExtentPosition | undefined
    try {
      place = this.#deps.extents.tryPlace(bytes) ?? (await this.#deps.extents.place(bytes))
    } catch (error) {
      this.lose(error as BlobFault)
      throw error
    }
    if (this.#buffer === undefined) throw this.#lost() // ended meanwhile; the place stays empty
    this.#send(place)
  }

  /** The buffer's content becomes a record: sent to the hash worker and to the device at once. */
  #send({ extent, offset }: ExtentPosition): void {
    const { buffers, seal } = this.#deps
    const buffer = this.#buffer as PooledBuffer
    const payloadBytes = this.#bufferBytes
    this.#buffer = undefined
    this.#bufferBytes = 0
    buffers.withdraw(this)
    const bytes = dataRecordBytes(payloadBytes)
    buffer.all.fill(0, blockBytes + payloadBytes, bytes)
    const checksums = this.#checksums(buffer.payload, payloadBytes)
    const { number, generation } = extent
    const place = { extent: number, generation, offset }
    const header = { ...place, uploadId: this.uploadId, position: this.#position, payloadBytes, checksums }
    encodeDataHeader(header, seal, buffer.all)
    this.#note(extent, offset, payloadBytes)

    this.#pending++
    let users = 2
    const release = () => {
      if (--users > 0) return
      buffers.give(buffer)
      if (--this.#pending > 0) return
      this.#settled?.()
      if (this.#state === 'ended') this.#letExtentsGo()
    }
    const hash = this.#hash as HashStream
    hash.update(buffer.start + blockBytes, payloadBytes, (error) => {
      if (error !== undefined) this.lose(error as BlobFault)
      release()
    })
    extent.write(buffer.all.subarray(0, bytes), offset).then(release, (error: BlobFault) => {
      this.lose(error)
      release()
    })
  }

  #checksums(payload: Buffer, bytes: number): Uint32Array {
    const checksums = new Uint32Array(Math.ceil(bytes / chunkBytes))
    for (let n = 0, at = 0; at < bytes; n++, at += chunkBytes) {
      const chunk = payload.subarray(at, Math.min(bytes, at + chunkBytes))
      const sum = crc32(chunk)
      checksums[n] = sum
      this.#crc32 = this.#deps.crc.combine(this.#crc32, sum, chunk.length)
    }
    return checksums
  }

  #note(extent: Extent, offset: number, payloadBytes: number): void {
    const last = this.#runs.at(-1)
    const follows =
      last !== undefined &&
      this.#runOpen &&
      last.extent === extent.number &&
      last.offset + (last.bytes / recordBytesMax) * dataRecordBytes(recordBytesMax) === offset
    if (follows) last.bytes += payloadBytes
    else
      this.#runs.push({ extent: extent.number, generation: extent.generation, offset, bytes: payloadBytes })
    this.#runOpen = payloadBytes === recordBytesMax
    this.#position += payloadBytes
    this.#extents.add(extent)
    extent.holders.add(this)
  }

  async #commit(options: PlacedCommit): Promise<BlobInfo> {
    const { blob, body } = await this.#sealOnce()
    this.#assertAlive()
    this.#state = 'committing'
    try {
      return await this.#deps.commit(this, blob, body, options)
    } catch (error) {
      this.#fault ??= error as BlobFault
      throw this.#fault
    } finally {
      this.#end()
    }
  }

  #sealOnce(): Promise<StageContent> {
    this.#sealed ??= this.#seal()
    return this.#sealed
  }

  async #seal(): Promise<StageContent> {
    this.#assertOpen()
    this.#state = 'sealing'
    try {
      const sealed = this.#bulk ? await this.#sealBulk() : this.#sealSmall()
      if (this.#fault !== undefined) throw this.#fault
      this.#state = 'sealed'
      this.activeAt = this.#deps.clock.monotonic()
      return sealed
    } catch (error) {
      this.#fault ??= error as BlobFault
      this.#end()
      throw this.#fault
    }
  }

  #sealSmall(): StageContent {
    const bytes = this.#aside.view()
    return { blob: digestOf(bytes), size: this.size, body: { bytes } }
  }

  async #sealBulk(): Promise<StageContent> {
    await this.#filling
    if (this.#aside.length > 0) await this.#drainAside()
    if (this.#buffer !== undefined) await this.#writeOut()
    const hash = this.#hash as HashStream
    this.#hash = undefined
    const id = await hash.digest()
    if (this.#pending > 0)
      await new Promise<void>((resolve) => {
        this.#settled = resolve
      })
    return { blob: { id, crc32: this.#crc32 }, size: this.size, body: { runs: this.#runs } }
  }

  #end(): void {
    this.#state = 'ended'
    this.#aside.clear()
    this.size = 0
    this.#hash?.drop()
    this.#hash = undefined
    this.#deps.buffers.withdraw(this)
    if (this.#buffer !== undefined) this.#deps.buffers.give(this.#buffer)
    this.#buffer = undefined
    if (this.#inLine) this.#deps.buffers.wakeAll()
    if (this.#pending === 0) this.#letExtentsGo()
    this.#deps.ended(this)
  }

  /** Not before the last write has ended: it must not land in an extent's next generation. */
  #letExtentsGo(): void {
    for (const extent of this.#extents) extent.holders.delete(this)
    this.#extents.clear()
    this.#deps.released()
  }

  #assertRoom(): void {
    try {
      this.#deps.assertRoom()
    } catch (error) {
      this.lose(error as BlobFault)
      throw error
    }
  }

  #assertAlive(): void {
    if (this.#fault !== undefined) throw this.#fault
    if (this.#state === 'ended') throw new BlobFault('CLOSED', 'the upload has ended')
  }

  #assertOpen(): void {
    if (this.#fault !== undefined) throw this.#fault
    if (this.#state !== 'open') throw new BlobFault('CLOSED', 'the upload has ended')
  }

  #lost(): BlobFault {
    return this.#fault ?? new BlobFault('CLOSED', 'the upload has ended')
  }
}
