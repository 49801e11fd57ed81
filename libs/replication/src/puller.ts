/**
 * Follows one other node: asks its log for changes since the last time, fetches what is missing
 * here, and records its position.
 *
 * The mark is saved after the copies it covers are synced. An inventory comparison follows when the
 * source does not know the position (it began a new life, or the log was trimmed), and for a newly
 * shared group. The inventory begins after the position from which the log continues, so there is
 * no gap.
 *
 * A deletion in the log never deletes here: the copy may have got a pin and a reference here
 * meanwhile. It makes this node's collector check the copy, and the collector reads the references
 * itself. It also prevents a new fetch from a node that lags: a copy that was deleted here is
 * fetched only when it is referenced.
 */
import {
  BlobFault,
  type BlobInfo,
  type BlobName,
  batchBytesMax,
  batchCopiesMax,
  copyKey,
  type LogEntry,
  type PullAnswer,
  pinMsMax,
  type StorageNode,
  smallBlobBytesMax,
} from '@holdfast/blob-store'
import type { Clock } from '@holdfast/kernel'
import type { LocalNode } from './local-node.ts'
import type { Peers } from './peers.ts'
import { nodesOf } from './placement-groups.ts'
import { answerOf } from './replicated-blob-store.ts'
import { owedMax, type Watermark, type Watermarks } from './watermarks.ts'

export interface PullerOptions {
  source: string
  node: LocalNode
  peers: Peers
  watermarks: Watermarks
  /** Whether this copy is referenced, read at quorum. Called for copies that were deleted here. */
  referenced: (blob: BlobName) => Promise<boolean>
  /** The source has deleted a copy that is still here: for the collector. */
  deletedAtSource: (blob: BlobName) => void
  clock: Clock
  /**
   * Inventories are compared at least this often, ms. One case needs this: this node's collector
   * removed a copy just before an upload elsewhere found the other copies and referred to them. The
   * log does not bring that copy back.
   */
  compareEveryMs: number
}

/** Result of a round. */
export interface PullRound {
  fetched: number
  /** Entries behind the mark, durable at the source. */
  behind: number
  /** Copies that no node could give whole. */
  owed: number
  /** An inventory was compared. */
  compared: boolean
}

/** Entries per request: what a slow line fetches in minutes. */
const batchEntries = 1_000
/**
 * How long a fetched copy is protected from the collector: until the uploader's reference is
 * visible.
 */

export class Puller {
  readonly source: string
  readonly #options: PullerOptions

  constructor(options: PullerOptions) {
    this.source = options.source
    this.#options = options
  }

  /**
   * One request, and all its fetches. Call again at once while `behind` is above 0.
   * @param groups those that this node pulls from the source.
   * @throws BlobFault when the source does not answer, is not verified, or this store accepts
   *   nothing more: nothing is lost, retry later.
   */
  async round(groups: readonly number[], signal?: AbortSignal): Promise<PullRound> {
    const { peers, watermarks, clock, compareEveryMs } = this.#options
    const source = peers.node(this.source)
    if (source === undefined) throw new BlobFault('UNAVAILABLE', `${this.source} cannot be reached`)
    const mark = await watermarks.of(this.source)
    const fresh = groups.filter((group) => mark?.groups.includes(group) !== true)
    if (mark !== undefined && fresh.length > 0) return this.#widen(source, mark, { groups, fresh })
    if (mark !== undefined && clock.now() - mark.comparedMs >= compareEveryMs)
      return this.#widen(source, mark, { groups, fresh: groups })

    const pulled = await source.pull({
      after: mark?.position,
      limit: batchEntries,
      groups,
      ...(signal === undefined ? {} : { signal }),
    })
    if (pulled.kind === 'unknown position') return this.#startOver(source, pulled, groups)
    return this.#follow(pulled, mark as Watermark, groups)
  }

  async #follow(
    pulled: PullAnswer & { kind: 'entries' },
    mark: Watermark,
    groups: readonly number[],
  ): Promise<PullRound> {
    const { coveredMs, comparedMs } = mark
    const { missing, gone } = await this.#sort(pulled.entries)
    const owedBefore = mark.owed.filter(
      (copy) => !gone.has(copyKey(copy)) && groups.includes(copy.placementGroup ?? 0),
    )
    const { fetched, owed } = await this.#fetchAll(mergeCopies(owedBefore, missing))
    await this.#options.watermarks.save(this.source, {
      position: pulled.through,
      groups,
      coveredMs: pulled.behind === 0 ? pulled.nowMs : coveredMs,
      comparedMs,
      owed,
    })
    return { fetched, behind: pulled.behind, owed: owed.length, compared: false }
  }

  /**
   * The position is unknown to the source: everything it holds is compared, then its log is
   * followed from its position before the comparison.
   */
  async #startOver(
    source: StorageNode,
    { now, nowMs }: PullAnswer & { kind: 'unknown position' },
    groups: readonly number[],
  ): Promise<PullRound> {
    const comparedMs = this.#options.clock.now()
    const { fetched, owed } = await this.#compare(source, groups)
    const mark = { position: now, groups, coveredMs: nowMs, comparedMs, owed }
    await this.#options.watermarks.save(this.source, mark)
    return { fetched, behind: 0, owed: owed.length, compared: true }
  }

  /**
   * New groups, or all again: the source's copies of them up to now. The log is followed for all of
   * them from the old position.
   */
  async #widen(
    source: StorageNode,
    mark: Watermark,
    { groups, fresh }: { groups: readonly number[]; fresh: readonly number[] },
  ): Promise<PullRound> {
    const now = this.#options.clock.now()
    const comparedMs = fresh === groups ? now : mark.comparedMs
    const { fetched, owed } = await this.#compare(source, fresh)
    const kept = mergeCopies(
      mark.owed.filter((copy) => groups.includes(copy.placementGroup ?? 0)),
      owed,
    )
    await this.#options.watermarks.save(this.source, { ...mark, groups, comparedMs, owed: kept })
    return { fetched, behind: 1, owed: kept.length, compared: true }
  }

  async #compare(
    source: StorageNode,
    groups: readonly number[],
  ): Promise<{ fetched: number; owed: BlobInfo[] }> {
    let fetched = 0
    const owed: BlobInfo[] = []
    let missing: BlobInfo[] = []
    const fetch = async () => {
      const done = await this.#fetchAll(missing)
      missing = []
      fetched += done.fetched
      owed.push(...done.owed)
      this.#assertFew(owed)
    }
    for await (const info of source.inventory({ groups })) {
      // The source's copy is damaged; another node should have it whole.
      const copy = { ...info, damaged: undefined }
      if ((await this.#isMissing(copy)) && missing.push(copy) >= batchEntries) await fetch()
    }
    await fetch()
    return { fetched, owed }
  }

  /** Which of these entries are missing here, and which are deleted at the source. */
  async #sort(entries: readonly LogEntry[]): Promise<{ missing: BlobInfo[]; gone: Set<string> }> {
    const missing = new Map<string, BlobInfo>()
    const gone = new Set<string>()
    for (const entry of entries) {
      const key = copyKey(entry.copy)
      if (entry.kind === 'committed') {
        gone.delete(key)
        if (await this.#isMissing(entry.copy)) missing.set(key, entry.copy)
      } else {
        gone.add(key)
        missing.delete(key)
        if ((await this.#options.node.stat(entry.copy)) !== undefined)
          this.#options.deletedAtSource(entry.copy)
      }
    }
    return { missing: [...missing.values()], gone }
  }

  async #isMissing(copy: BlobInfo): Promise<boolean> {
    const { node, referenced } = this.#options
    const here = await node.stat(copy)
    if (here !== undefined) return here.damaged === true
    return (await node.deletedMs(copy)) === undefined || (await referenced(copy))
  }

  async #fetchAll(copies: readonly BlobInfo[]): Promise<{ fetched: number; owed: BlobInfo[] }> {
    const owed: BlobInfo[] = []
    let fetched = 0
    const fetch = async (copy: BlobInfo, bytes?: Uint8Array) => {
      const outcome = await this.#fetch(copy, bytes)
      if (outcome === 'fetched') fetched++
      if (outcome === 'owed') owed.push(copy)
    }
    const isSmall = ({ size }: BlobInfo) => size <= smallBlobBytesMax
    // Batches run in sequence, to hold the memory of one.
    for (const batch of batchesOf(copies.filter(isSmall))) {
      const bytes = await this.#bytesOf(batch)
      await Promise.all(batch.map((copy, n) => fetch(copy, bytes[n])))
    }
    // The node bounds how many run at once.
    await Promise.all(copies.filter((copy) => !isSmall(copy)).map((copy) => fetch(copy)))
    this.#assertFew(owed)
    return { fetched, owed }
  }

  /** The copies that the source has in memory; the rest is fetched one by one, from any holder. */
  async #bytesOf(batch: readonly BlobInfo[]): Promise<readonly (Uint8Array | undefined)[]> {
    const source = batch.length > 1 ? this.#options.peers.node(this.source) : undefined
    const bytes = source === undefined ? [] : await answerOf(source.readBatch(batch))
    return bytes instanceof BlobFault ? [] : bytes
  }

  /**
   * From the source, else from the other members of the group. @param bytes of the source, when
   * they have arrived
   */
  async #fetch(copy: BlobInfo, bytes?: Uint8Array): Promise<'fetched' | 'gone' | 'owed'> {
    const { node } = this.#options
    const group = node.groups.get(copy.placementGroup ?? 0)
    const others = group === undefined ? [] : nodesOf(group)
    const from = [...new Set([this.source, ...others])].filter((id) => id !== node.id)
    const info = await answerOf(node.fetch(copy, from, { pinMs: pinMsMax, bytes }))
    if (!(info instanceof BlobFault)) return 'fetched'
    if (info.code === 'CORRUPT' && bytes !== undefined) return this.#fetch(copy)
    switch (info.code) {
      case 'NOT_FOUND':
        return 'gone' // all nodes agree; its deletion follows in the log
      case 'CORRUPT':
      case 'UNAVAILABLE':
      case 'UNKNOWN':
      case 'IO':
        return 'owed'
      case 'FULL':
      case 'CLOSED':
      case 'CANCELLED':
      case 'INVALID':
      case 'STALE_PLACEMENT':
      case 'UNVERIFIED':
        throw info // of this store or of the round, not of this copy
    }
  }

  #assertFew(owed: readonly BlobInfo[]): void {
    if (owed.length > owedMax)
      throw new BlobFault('UNAVAILABLE', `${owed.length} copies of ${this.source} cannot be fetched whole`)
  }
}

/** As many as one request takes. */
function* batchesOf(copies: readonly BlobInfo[]): Generator<BlobInfo[]> {
  let batch: BlobInfo[] = []
  let bytes = 0
  for (const copy of copies) {
    if (batch.length > 0 && (batch.length >= batchCopiesMax || bytes + copy.size > batchBytesMax)) {
      yield batch
      batch = []
      bytes = 0
    }
    batch.push(copy)
    bytes += copy.size
  }
  if (batch.length > 0) yield batch
}

function mergeCopies(one: readonly BlobInfo[], other: readonly BlobInfo[]): BlobInfo[] {
  return [...new Map([...one, ...other].map((copy) => [copyKey(copy), copy])).values()]
}
