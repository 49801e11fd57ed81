/** One upload in transit to several nodes. */
import {
  BlobFault,
  type BlobInfo,
  type BlobStage,
  type PlacedStage,
  type ReportsHolders,
  type SealedContent,
  type StorageNode,
} from '@holdfast/blob-store'
import { type Clock, hex } from '@holdfast/kernel'
import { worstOf } from './failover-read.ts'
import { type PlacementGroup, quorumOf } from './placement-groups.ts'
import type { AcknowledgedCopy } from './small-put.ts'

/** A node's part of an upload. */
export interface Leg {
  id: string
  node: StorageNode
  stage: PlacedStage
}

/** A copy that some nodes did not pin as whole. */
export interface RefusedCopy {
  copy: BlobInfo
  by: { id: string; node: StorageNode }[]
  /** Nodes that have it whole. */
  whole: string[]
}

export interface KnownCopy {
  copy: AcknowledgedCopy | undefined
  refused: RefusedCopy[]
}

export interface ReplicatedStageDeps {
  group: PlacementGroup
  clock: Clock
  assertOpen(): void
  /** One commit of a content at a time. */
  inTurn<T>(id: Uint8Array, commit: () => Promise<T>): Promise<T>
  /** A known copy that W nodes have pinned, each of them whole. */
  known(id: Uint8Array, pinMs: number): Promise<KnownCopy>
  /** Copies of the same content are damaged somewhere, and these nodes have it whole now. */
  repair(refused: readonly RefusedCopy[], holders: readonly string[]): void
  /** Members without a part yet, nearest first. */
  others(used: ReadonlySet<string>): { id: string; node: StorageNode }[]
  nearestFirst(nodes: readonly string[]): string[]
  broken(node: string, fault: BlobFault): void
  ended(stage: ReplicatedStage): void
}

export class ReplicatedStage implements BlobStage, ReportsHolders {
  readonly uploadId: Uint8Array
  readonly #deps: ReplicatedStageDeps
  /** Nodes that have every byte so far. */
  #legs: Leg[]
  /** Nodes whose part failed: asked last when a copy is needed. */
  readonly #broken = new Map<string, Leg>()
  readonly #faults: BlobFault[] = []
  #state: 'open' | 'committing' | 'lost' | 'ended' = 'open'
  #committed: Promise<BlobInfo> | undefined
  acknowledgedBy: readonly string[] = []
  bytesWritten = 0

  constructor(uploadId: Uint8Array, legs: Leg[], deps: ReplicatedStageDeps) {
    this.uploadId = uploadId
    this.#legs = legs
    this.#deps = deps
  }

  /** Continues while at least one node accepts the bytes. */
  write(bytes: Uint8Array): Promise<void> | undefined {
    this.#assertWritable()
    this.bytesWritten += bytes.length
    let waiting: Promise<void>[] | undefined
    for (const leg of this.#legs) {
      try {
        const room = leg.stage.write(bytes)
        if (room === undefined) continue
        waiting ??= []
        waiting.push(room.catch((error: unknown) => this.#drop(leg, error)))
      } catch (error) {
        this.#drop(leg, error)
      }
    }
    if (waiting === undefined) {
      if (this.#legs.length === 0) throw this.#lose()
      return undefined
    }
    return Promise.all(waiting).then(() => {
      if (this.#legs.length === 0) throw this.#lose()
    })
  }

  commit({ pinMs }: { pinMs: number }): Promise<BlobInfo> {
    this.#committed ??= this.#commit(pinMs)
    return this.#committed
  }

  async abort(): Promise<void> {
    if (this.#state !== 'open') return
    this.#end('ended')
    await this.#abortLegs()
  }

  async #commit(pinMs: number): Promise<BlobInfo> {
    this.#assertWritable()
    this.#state = 'committing'
    try {
      const content = await this.#seal()
      const { info, holders } = await this.#deps.inTurn(content.id, async () => {
        this.#deps.assertOpen()
        const { copy, refused } = await this.#deps.known(content.id, pinMs)
        if (copy === undefined) return this.#commitNew(content, pinMs, refused)
        await this.#abortLegs()
        return copy
      })
      this.acknowledgedBy = holders
      this.#end('ended')
      return info
    } catch (error) {
      this.#end('lost')
      await this.#abortLegs()
      throw error
    }
  }

  /** The digest that all nodes agree on. */
  async #seal(): Promise<SealedContent> {
    const sealed: { leg: Leg; content: SealedContent }[] = []
    await Promise.all(
      this.#legs.map(async (leg) => {
        try {
          sealed.push({ leg, content: await leg.stage.seal() })
        } catch (error) {
          this.#drop(leg, error)
        }
      }),
    )
    const [first, ...rest] = sealed
    if (first === undefined) throw this.#lose()
    const { content } = first
    for (const other of rest)
      if (Buffer.compare(other.content.id, content.id) !== 0 || other.content.size !== content.size)
        throw new BlobFault('CORRUPT', `${first.leg.id} and ${other.leg.id} received different bytes`)
    if (content.size !== this.bytesWritten)
      throw new BlobFault('CORRUPT', `${content.size} of ${this.bytesWritten} bytes arrived`)
    return content
  }

  async #commitNew(
    { id, size, crc32 }: SealedContent,
    pinMs: number,
    refused: readonly RefusedCopy[],
  ): Promise<AcknowledgedCopy> {
    const { group, clock } = this.#deps
    const info: BlobInfo = {
      id,
      incarnation: this.uploadId,
      size,
      crc32,
      createdMs: clock.now(),
      placementGroup: group.number,
      damaged: undefined,
    }
    const options = { pinMs, createdMs: info.createdMs, asNew: true }
    const holders: Leg[] = []
    await Promise.all(
      this.#legs.map(async (leg) => {
        try {
          await leg.stage.commit(options)
          holders.push(leg)
        } catch (error) {
          this.#drop(leg, error)
          if (await this.#hasIt(leg, info)) holders.push(leg)
        }
      }),
    )
    if (holders.length === 0) throw this.#lose()
    await this.#copyOn(info, holders, pinMs)
    const ids = this.#deps.nearestFirst(holders.map(({ id }) => id))
    this.#deps.repair(refused, ids)
    return { info, holders: ids }
  }

  /** A commit without an answer may have taken effect. */
  async #hasIt({ node }: Leg, info: BlobInfo): Promise<boolean> {
    try {
      return (await node.committed(this.uploadId))?.size === info.size
    } catch {
      return false // it does not count, and is harmless if it exists
    }
  }

  /**
   * Copies the finished blob to other members until there are W.
   * @throws BlobFault `UNAVAILABLE` when there are fewer.
   */
  async #copyOn(info: BlobInfo, holders: { id: string; node: StorageNode }[], pinMs: number): Promise<void> {
    const { group, others } = this.#deps
    const placement = { group: group.number, version: group.version }
    const used = new Set([...holders.map(({ id }) => id), ...this.#broken.keys()])
    const candidates = [...others(used), ...this.#broken.values()]
    for (const { id, node } of candidates) {
      if (holders.length >= quorumOf(group)) return
      if (holders.some((holder) => holder.id === id)) continue
      for (const source of [...holders]) {
        try {
          await node.copyFrom(source.id, info, { pinMs, placement })
          holders.push({ id, node })
          break
        } catch (error) {
          this.#note(id, error)
        }
      }
    }
    if (holders.length < quorumOf(group))
      throw new BlobFault(
        'UNAVAILABLE',
        `${holders.length} of ${quorumOf(group)} copies of the upload ${hex(this.uploadId)} could be made`,
        { cause: worstOf(this.#faults) },
      )
  }

  #drop(leg: Leg, error: unknown): void {
    if (!this.#legs.includes(leg)) return
    this.#legs = this.#legs.filter((other) => other !== leg)
    this.#broken.set(leg.id, leg)
    this.#note(leg.id, error)
    leg.stage.abort().catch(() => {}) // its node removes it later
  }

  #note(node: string, error: unknown): void {
    const fault =
      error instanceof BlobFault
        ? error
        : new BlobFault('UNAVAILABLE', `${node}: ${(error as Error).message}`, { cause: error })
    this.#faults.push(fault)
    this.#deps.broken(node, fault)
  }

  /** The fault to throw when no node is left. */
  #lose(): BlobFault {
    if (this.#state === 'open') this.#end('lost')
    const full = this.#faults.length > 0 && this.#faults.every(({ code }) => code === 'FULL')
    const unknown = this.#faults.some(({ code }) => code === 'UNKNOWN')
    const code = full ? 'FULL' : unknown ? 'UNKNOWN' : 'UNAVAILABLE'
    return new BlobFault(code, `every node lost the upload ${hex(this.uploadId)}`, {
      cause: this.#faults.at(-1),
    })
  }

  async #abortLegs(): Promise<void> {
    await Promise.all(this.#legs.map(({ stage }) => stage.abort().catch(() => {})))
  }

  #end(state: 'lost' | 'ended'): void {
    this.#state = state
    this.bytesWritten = 0
    this.#deps.ended(this)
  }

  #assertWritable(): void {
    this.#deps.assertOpen()
    if (this.#state === 'open') return
    throw this.#state === 'lost'
      ? new BlobFault('UNAVAILABLE', 'the upload is lost')
      : new BlobFault('CLOSED', 'the upload has ended')
  }
}
