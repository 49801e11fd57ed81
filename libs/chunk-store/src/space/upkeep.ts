/**
 * The background work of a store: it frees space soon after bytes became dead, drops uploads
 * without activity, repeats attempts that failed, and saves the content of extents whose files were
 * removed.
 */
import type { ExtentTable } from '../extents/extent-table.ts'
import type { Log } from '../log.ts'
import { bufferBytes, type DelayedCall } from '../memory/buffer-pool.ts'
import type { StoreBounds } from '../options.ts'
import type { BlobReader } from '../reading/reader.ts'
import { ChunkStage } from '../writing/stage.ts'
import type { Stages } from '../writing/stages.ts'
import { type Compactor, worthBytes } from './compactor.ts'
import type { Space } from './space.ts'

const compactSoonMs = 200
const prepareSoonMs = 1000

export interface UpkeepDeps {
  extents: ExtentTable
  space: Space
  compactor: Compactor
  stages: Stages
  reader: BlobReader
  bounds: StoreBounds
  after: DelayedCall
  log: Log
  /** False: nothing is done unless it is called for; for tests. */
  background: boolean
}

export class Upkeep {
  readonly #deps: UpkeepDeps
  readonly #sweeper: NodeJS.Timeout
  #compactSoon: NodeJS.Timeout | undefined
  #prepareSoon: NodeJS.Timeout | undefined
  #stopped = false

  constructor(deps: UpkeepDeps) {
    this.#deps = deps
    const sweepMs = Math.max(1000, Math.min(30_000, deps.bounds.stageIdleMs / 4))
    this.#sweeper = setInterval(() => {
      if (!deps.background) return
      deps.stages.sweep()
      void this.failRemoved()
      this.compactLater() // retries what failed on a full disk
    }, sweepMs).unref()
  }

  compactLater(): void {
    if (this.#stopped || !this.#deps.background) return
    this.#compactSoon ??= setTimeout(() => {
      this.#compactSoon = undefined
      this.sealWhenShort()
      this.#deps.compactor.kick()
    }, compactSoonMs).unref()
  }

  /** Never rejects: the next look finds them, too. */
  async failRemoved(): Promise<void> {
    await this.#deps.extents.failRemoved().catch((error: Error) => {
      this.#deps.log.warn({ error: error.message }, 'the files of extents cannot be listed')
    })
  }

  /**
   * Tries again to make room for a record. Uploads would do that too, but a load balancer sends
   * none to a store that is not ready.
   */
  prepareLater(): void {
    if (this.#stopped || !this.#deps.background) return
    this.#prepareSoon ??= setTimeout(() => {
      this.#prepareSoon = undefined
      this.#deps.extents.prepare(bufferBytes).catch(() => {}) // `prepared` got the fault
    }, prepareSoonMs).unref()
  }

  /**
   * On a nearly full disk the open extent may hold most of the space that can be freed, and nothing
   * would ever fill it.
   */
  sealWhenShort(): void {
    const { extents, space, bounds } = this.#deps
    const { current } = extents
    if (current === undefined || space.freeBytes >= bounds.shortBytes) return
    const deadBytes = current.frontier - current.liveBytes
    const mostlyDead = deadBytes >= bounds.extentStepBytes && deadBytes > current.liveBytes
    const needed = space.isPressing && deadBytes >= worthBytes(bounds)
    const takesUploads = [...current.holders].some((holder) => holder instanceof ChunkStage)
    if (mostlyDead || (needed && !takesUploads)) extents.seal(current)
  }

  /** Compaction takes a small share of the device while others want it. */
  async yieldDevice(): Promise<void> {
    const { stages, reader, after } = this.#deps
    const busy = stages.count > 0 || reader.active > 0
    await new Promise<void>((resolve) => (busy ? after(resolve, 5) : setImmediate(resolve)))
  }

  stop(): void {
    this.#stopped = true
    clearInterval(this.#sweeper)
    clearTimeout(this.#compactSoon)
    clearTimeout(this.#prepareSoon)
  }
}
