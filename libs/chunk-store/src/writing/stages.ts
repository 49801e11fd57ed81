/** The uploads that are open: how many, which are silent, and what they hold. */
import { BlobFault, type PlacedStage, type StageOptions } from '@holdfast/blob-store'
import { type Clock, hex, incarnationBytes } from '@holdfast/kernel'
import { Slab } from '../memory/slab.ts'
import { ChunkStage, type StageDeps } from './stage.ts'

/** Upload ids generated at once: one call for randomness, and memory that is freed together. */
const uploadIdsSlabBytes = 64 * incarnationBytes

export interface StagesDeps {
  bounds: { stagesMax: number; stageIdleMs: number }
  clock: Clock
  randomFill: (bytes: Buffer) => Buffer
  stage: Omit<StageDeps, 'ended'>
  /** Looks at the free space, unless it did just now. */
  freshen: () => Promise<void>
  /** @throws BlobFault `FULL`. */
  assertBegins: (expectedBytes: number | undefined) => void
  /** @throws BlobFault `CLOSED`. */
  assertOpen: () => void
}

export class Stages {
  readonly #deps: StagesDeps
  readonly #stageDeps: StageDeps
  readonly #stages = new Set<ChunkStage>()
  readonly #uploadIds: Slab
  /** Stages that are already counted, and not open yet. */
  #opening = 0

  constructor(deps: StagesDeps) {
    this.#deps = deps
    this.#stageDeps = { ...deps.stage, ended: (stage) => this.#stages.delete(stage) }
    this.#uploadIds = new Slab(uploadIdsSlabBytes, deps.randomFill)
  }

  get count(): number {
    return this.#stages.size
  }

  get bytes(): number {
    let bytes = 0
    for (const stage of this.#stages) bytes += stage.size
    return bytes
  }

  async open(options: StageOptions): Promise<PlacedStage> {
    this.#deps.assertOpen()
    if (options.signal?.aborted) throw new BlobFault('CANCELLED', 'the upload was aborted before it began')
    const open = this.#stages.size + this.#opening
    if (open >= this.#deps.bounds.stagesMax)
      throw new BlobFault('UNAVAILABLE', `${open} uploads are open, no more are allowed`)
    this.#opening++
    try {
      await this.#deps.freshen()
      return this.#begin(options)
    } finally {
      this.#opening--
    }
  }

  #begin(options: StageOptions): PlacedStage {
    this.#deps.assertBegins(options.expectedBytes)
    this.#deps.assertOpen()
    const uploadId =
      options.uploadId === undefined ? this.#uploadIds.take(incarnationBytes) : Buffer.from(options.uploadId)
    for (const open of options.uploadId === undefined ? [] : this.#stages)
      if (open.uploadId.equals(uploadId))
        throw new BlobFault('INVALID', `the upload ${hex(uploadId)} is staged already`)
    const stage = new ChunkStage(uploadId, options.placement?.group ?? 0, this.#stageDeps)
    this.#stages.add(stage)
    return stage
  }

  /** Drops uploads without activity. @returns how many. */
  sweep(): number {
    const before = this.#deps.clock.monotonic() - this.#deps.bounds.stageIdleMs
    let swept = 0
    for (const stage of this.#stages) {
      if (stage.busy || stage.activeAt >= before) continue
      stage.lose(new BlobFault('UNAVAILABLE', 'the upload was silent for too long'))
      swept++
    }
    return swept
  }

  /** @returns waits until they write nothing more. */
  loseAll(fault: BlobFault): () => Promise<void> {
    const stages = [...this.#stages]
    for (const stage of stages) stage.lose(fault)
    return async () => {
      await Promise.all(stages.map((stage) => stage.quiet()))
    }
  }
}
