/** Uploads that were begun over the network and are neither committed nor aborted yet. */
import { BlobFault, type BlobInfo, type PlacedCommit, type PlacedStage } from '@holdfast/blob-store'
import { type Clock, hex } from '@holdfast/kernel'

interface OpenStage {
  stage: PlacedStage
  /** Monotonic milliseconds of its last activity. */
  activeAt: number
  /** Its bytes are coming, or have come. */
  receiving: boolean
  /** Requests that wait for its hashes or its sync. The stage stays while there are any. */
  busy: number
  stop: AbortController
}

export class OpenStages {
  readonly #clock: Clock
  readonly #idleMs: number
  readonly #byId = new Map<string, OpenStage>()
  readonly #sweeper: NodeJS.Timeout
  #closed = false

  constructor(clock: Clock, idleMs: number) {
    this.#clock = clock
    this.#idleMs = idleMs
    this.#sweeper = setInterval(() => this.#sweep(), Math.max(1000, Math.min(30_000, idleMs / 4))).unref()
  }

  add(stage: PlacedStage): void {
    if (this.#closed) {
      void stage.abort()
      throw new BlobFault('UNAVAILABLE', 'the node stops')
    }
    this.#byId.set(hex(stage.uploadId), {
      stage,
      activeAt: this.#clock.monotonic(),
      receiving: false,
      busy: 0,
      stop: new AbortController(),
    })
  }

  /**
   * The stage, for the one request that sends its bytes. `touch` on every piece prevents the
   * removal.
   */
  receive(uploadId: Uint8Array): { stage: PlacedStage; touch: () => void; signal: AbortSignal } {
    const open = this.#byId.get(hex(uploadId))
    if (open === undefined) throw new BlobFault('NOT_FOUND', `no upload ${hex(uploadId)} is open here`)
    if (open.receiving) throw new BlobFault('INVALID', `the upload ${hex(uploadId)} has its bytes already`)
    open.receiving = true
    return {
      stage: open.stage,
      touch: () => {
        open.activeAt = this.#clock.monotonic()
      },
      signal: open.stop.signal,
    }
  }

  /** Undefined when no such upload is open: it may have been committed before. */
  async commit(uploadId: Uint8Array, options: PlacedCommit): Promise<BlobInfo | undefined> {
    const key = hex(uploadId)
    const open = this.#byId.get(key)
    if (open === undefined) return undefined
    open.busy++
    try {
      const info = await open.stage.commit(options)
      this.#byId.delete(key)
      return info
    } catch (error) {
      this.#byId.delete(key)
      open.stop.abort()
      await open.stage.abort()
      throw error
    } finally {
      open.busy--
      open.activeAt = this.#clock.monotonic()
    }
  }

  async abort(uploadId: Uint8Array): Promise<void> {
    const open = this.#byId.get(hex(uploadId))
    if (open === undefined) return
    this.#byId.delete(hex(uploadId))
    open.stop.abort()
    await open.stage.abort()
  }

  async close(): Promise<void> {
    this.#closed = true
    clearInterval(this.#sweeper)
    for (const { stage } of [...this.#byId.values()]) await this.abort(stage.uploadId)
  }

  #sweep(): void {
    const before = this.#clock.monotonic() - this.#idleMs
    for (const open of [...this.#byId.values()])
      if (open.busy === 0 && open.activeAt < before) this.abort(open.stage.uploadId).catch(() => {})
  }
}
