/**
 * An upload that is small so far. Its bytes are gathered here, and sent to the nodes with their
 * name in one call each. If it grows too large, or finds no memory, it is staged at the nodes with
 * the bytes it has.
 */
import {
  BlobFault,
  type BlobInfo,
  type BlobStage,
  type ReportsHolders,
  smallBlobBytesMax,
} from '@holdfast/blob-store'
import { GrowingBytes } from '@holdfast/kernel'
import type { AcknowledgedCopy } from './small-put.ts'

export interface GatheringStageDeps {
  assertOpen(): void
  /**
   * Reserves memory for this many more bytes of small uploads. @returns false when there is none.
   */
  takeMemory(bytes: number): boolean
  giveMemory(bytes: number): void
  /** Opens a stage of this upload at nodes. */
  openStage(): Promise<BlobStage & ReportsHolders>
  /** Stores all of it. */
  put(bytes: Uint8Array, pinMs: number): Promise<AcknowledgedCopy>
  ended(stage: GatheringStage): void
}

export class GatheringStage implements BlobStage, ReportsHolders {
  readonly uploadId: Uint8Array
  readonly #deps: GatheringStageDeps
  readonly #bytes = new GrowingBytes()
  #memory = 0
  #state: 'open' | 'staging' | 'staged' | 'committing' | 'lost' | 'ended' = 'open'
  #stage: (BlobStage & ReportsHolders) | undefined
  #holders: readonly string[] = []
  #committed: Promise<BlobInfo> | undefined

  constructor(uploadId: Uint8Array, deps: GatheringStageDeps) {
    this.uploadId = uploadId
    this.#deps = deps
  }

  /** Bytes gathered here; the nodes count those of their stages. */
  get bytesWritten(): number {
    return this.#memory
  }

  get acknowledgedBy(): readonly string[] {
    return this.#stage?.acknowledgedBy ?? this.#holders
  }

  write(bytes: Uint8Array): Promise<void> | undefined {
    this.#deps.assertOpen()
    if (this.#stage !== undefined) return this.#stage.write(bytes)
    this.#assertState('open')
    this.#bytes.append(bytes)
    const isSmall = this.#bytes.length <= smallBlobBytesMax
    if (!isSmall || !this.#deps.takeMemory(bytes.length)) return this.#stageAll()
    this.#memory += bytes.length
    return undefined
  }

  commit({ pinMs }: { pinMs: number }): Promise<BlobInfo> {
    this.#committed ??= this.#commit(pinMs)
    return this.#committed
  }

  async abort(): Promise<void> {
    if (this.#stage !== undefined) return this.#stage.abort()
    if (this.#state === 'open' || this.#state === 'staging') this.#end('ended')
  }

  async #stageAll(): Promise<void> {
    this.#state = 'staging'
    let stage: (BlobStage & ReportsHolders) | undefined
    try {
      stage = await this.#deps.openStage()
      if (this.#state !== 'staging') throw new BlobFault('CLOSED', 'the upload was aborted')
      const room = stage.write(this.#bytes.view())
      this.#stage = stage
      this.#end('staged')
      await room
    } catch (error) {
      if (this.#state === 'staging') this.#end('lost')
      await stage?.abort()
      throw error
    }
  }

  async #commit(pinMs: number): Promise<BlobInfo> {
    this.#deps.assertOpen()
    if (this.#stage !== undefined) return this.#stage.commit({ pinMs })
    this.#assertState('open')
    this.#state = 'committing'
    try {
      const { info, holders } = await this.#deps.put(this.#bytes.view(), pinMs)
      this.#holders = holders
      return info
    } finally {
      this.#end('ended')
    }
  }

  #end(state: 'staged' | 'lost' | 'ended'): void {
    this.#state = state
    this.#bytes.clear()
    this.#deps.giveMemory(this.#memory)
    this.#memory = 0
    this.#deps.ended(this)
  }

  #assertState(wanted: 'open'): void {
    if (this.#state === wanted) return
    throw this.#state === 'lost'
      ? new BlobFault('UNAVAILABLE', 'the upload is lost')
      : new BlobFault('CLOSED', 'the upload has ended')
  }
}
