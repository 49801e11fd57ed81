/**
 * Follows one other node: asks its log what came since the last time, fetches what is missing here,
 * and notes how far it got.
 *
 * The mark is saved after the copies it covers are synced. A position that the source does not know
 * (it began a new life, or the log was trimmed), and a group that is newly shared, lead to a
 * comparison with the source's inventory; the inventory is begun after the position from which the
 * log goes on, so nothing falls between.
 *
 * A deletion that is heard of never deletes: between it and this moment the copy may have got a pin
 * and a reference here. It tells this node's collector to look at the copy, which reads the
 * references itself; and it keeps the copy from being fetched again from a node that lags, as a
 * copy that was deleted here is fetched only when it is referenced.
 */
import {
  type BlobFacts,
  BlobFault,
  type BlobName,
  batchBytesMax,
  batchCopiesMax,
  type LogEntry,
  type Pulled,
  type StorageNode,
  smallBlobBytesMax,
} from '@holdfast/blob-store'
import type { Clock } from '@holdfast/kernel'
import type { LocalNode } from './local-node.ts'
import { copyKey } from './names.ts'
import type { Peers } from './peers.ts'
import { nodesOf } from './placement-groups.ts'
import { answerOf } from './replicated-blob-store.ts'
import { owedMax, type Watermark, type Watermarks } from './watermarks.ts'

export interface PullerOptions {
  source: string
  node: LocalNode
  peers: Peers
  watermarks: Watermarks
  /** Is this copy referenced, read at quorum? Asked for copies that were deleted here. */
  referenced: (blob: BlobName) => Promise<boolean>
  /** The source has deleted a copy that is here still: for the collector. */
  condemned?: (blob: BlobName) => void
  clock: Clock
  /**
   * Inventories are compared at least this often, ms. Default 24 h. The log does not bring back a
   * copy that this node's collector removed just before an upload elsewhere found the others' and
   * referred to it.
   */
  compareEveryMs?: number
  /** Entries looked at in one question. Default 1,000: what a slow line fetches in minutes. */
  batch?: number
}

/** What a round did. */
export interface PullRound {
  fetched: number
  /** Entries behind the mark, durable at the source. */
  behind: number
  /** Copies that nobody could give whole. */
  owed: number
  /** An inventory was compared. */
  compared: boolean
}

const batchDefault = 1_000
/**
 * How long a fetched copy is kept from the collector: until the reference that the uploader writes
 * can be seen.
 */
const pinMs = 10 * 60_000

export class Puller {
  readonly source: string
  readonly #options: Required<PullerOptions>

  constructor(options: PullerOptions) {
    this.source = options.source
    this.#options = { batch: batchDefault, compareEveryMs: 24 * 3_600_000, condemned: () => {}, ...options }
  }

  /**
   * One question, and everything it brings. Ask again at once while `behind` is above 0.
   * @param groups those that this node takes from the source.
   * @throws BlobFault when the source does not answer, is not verified, or this store takes nothing
   *   more: nothing is lost, ask again later.
   */
  async round(groups: readonly number[], signal?: AbortSignal): Promise<PullRound> {
    const { peers, watermarks, batch, clock, compareEveryMs } = this.#options
    const source = peers.node(this.source)
    if (source === undefined) throw new BlobFault('UNAVAILABLE', `${this.source} cannot be reached`)
    const mark = await watermarks.of(this.source)
    const fresh = groups.filter((group) => mark?.groups.includes(group) !== true)
    if (mark !== undefined && fresh.length > 0) return this.#widen(source, mark, { groups, fresh })
    if (mark !== undefined && clock.now() - mark.comparedMs >= compareEveryMs)
      return this.#widen(source, mark, { groups, fresh: groups })

    const pulled = await source.pull({
      after: mark?.position,
      limit: batch,
      groups,
      ...(signal === undefined ? {} : { signal }),
    })
    if (pulled.kind === 'unknown position') return this.#startOver(source, pulled, groups)
    return this.#follow(pulled, mark as Watermark, groups)
  }

  async #follow(
    pulled: Pulled & { kind: 'entries' },
    mark: Watermark,
    groups: readonly number[],
  ): Promise<PullRound> {
    const { coveredMs, comparedMs } = mark
    const { missing, gone } = await this.#sort(pulled.entries)
    const owedBefore = mark.owed.filter(
      (copy) => !gone.has(copyKey(copy)) && groups.includes(copy.placementGroup ?? 0),
    )
    const { fetched, owed } = await this.#fetchAll(merged(owedBefore, missing))
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
   * The position is of no use: everything the source holds is compared, then its log is followed
   * from where it stood before.
   */
  async #startOver(
    source: StorageNode,
    { now, nowMs }: Pulled & { kind: 'unknown position' },
    groups: readonly number[],
  ): Promise<PullRound> {
    const comparedMs = this.#options.clock.now()
    const { fetched, owed } = await this.#compare(source, groups)
    const mark = { position: now, groups, coveredMs: nowMs, comparedMs, owed }
    await this.#options.watermarks.save(this.source, mark)
    return { fetched, behind: 0, owed: owed.length, compared: true }
  }

  /**
   * Groups that came anew, or all once more: what the source has of them up to now. The log is
   * followed for all of them from the old position on.
   */
  async #widen(
    source: StorageNode,
    mark: Watermark,
    { groups, fresh }: { groups: readonly number[]; fresh: readonly number[] },
  ): Promise<PullRound> {
    const now = this.#options.clock.now()
    const comparedMs = fresh === groups ? now : mark.comparedMs
    const { fetched, owed } = await this.#compare(source, fresh)
    const kept = merged(
      mark.owed.filter((copy) => groups.includes(copy.placementGroup ?? 0)),
      owed,
    )
    await this.#options.watermarks.save(this.source, { ...mark, groups, comparedMs, owed: kept })
    return { fetched, behind: 1, owed: kept.length, compared: true }
  }

  async #compare(
    source: StorageNode,
    groups: readonly number[],
  ): Promise<{ fetched: number; owed: BlobFacts[] }> {
    let fetched = 0
    const owed: BlobFacts[] = []
    let missing: BlobFacts[] = []
    const fetch = async () => {
      const done = await this.#fetchAll(missing)
      missing = []
      fetched += done.fetched
      owed.push(...done.owed)
      this.#assertFew(owed)
    }
    for await (const facts of source.inventory({ groups })) {
      // A damaged copy there is one that somebody should have whole.
      const { damaged: _, ...copy } = facts
      if ((await this.#isMissing(copy)) && missing.push(copy) >= this.#options.batch) await fetch()
    }
    await fetch()
    return { fetched, owed }
  }

  /** What of these entries is missing here; and what is gone at the source. */
  async #sort(entries: readonly LogEntry[]): Promise<{ missing: BlobFacts[]; gone: Set<string> }> {
    const missing = new Map<string, BlobFacts>()
    const gone = new Set<string>()
    for (const entry of entries) {
      const key = copyKey(entry.copy)
      if (entry.kind === 'committed') {
        gone.delete(key)
        if (await this.#isMissing(entry.copy)) missing.set(key, entry.copy)
      } else {
        gone.add(key)
        missing.delete(key)
        if ((await this.#options.node.stat(entry.copy)) !== undefined) this.#options.condemned(entry.copy)
      }
    }
    return { missing: [...missing.values()], gone }
  }

  async #isMissing(copy: BlobFacts): Promise<boolean> {
    const { node, referenced } = this.#options
    const here = await node.stat(copy)
    if (here !== undefined) return here.damaged === true
    return (await node.deletedMs(copy)) === undefined || (await referenced(copy))
  }

  async #fetchAll(copies: readonly BlobFacts[]): Promise<{ fetched: number; owed: BlobFacts[] }> {
    const owed: BlobFacts[] = []
    let fetched = 0
    const fetch = async (copy: BlobFacts, bytes?: Uint8Array) => {
      const outcome = await this.#fetch(copy, bytes)
      if (outcome === 'fetched') fetched++
      if (outcome === 'owed') owed.push(copy)
    }
    const isSmall = ({ size }: BlobFacts) => size <= smallBlobBytesMax
    // One batch after the other holds the memory of one.
    for (const batch of batchesOf(copies.filter(isSmall))) {
      const bytes = await this.#bytesOf(batch)
      await Promise.all(batch.map((copy, n) => fetch(copy, bytes[n])))
    }
    // The node bounds how many run at once.
    await Promise.all(copies.filter((copy) => !isSmall(copy)).map((copy) => fetch(copy)))
    this.#assertFew(owed)
    return { fetched, owed }
  }

  /** What the source has at hand; the rest is fetched one by one, from whoever has it. */
  async #bytesOf(batch: readonly BlobFacts[]): Promise<readonly (Uint8Array | undefined)[]> {
    const source = batch.length > 1 ? this.#options.peers.node(this.source) : undefined
    const bytes = source === undefined ? [] : await answerOf(source.readBatch(batch))
    return bytes instanceof BlobFault ? [] : bytes
  }

  /**
   * From the source, else from the other members of the group. @param bytes of the source, when
   * they have come
   */
  async #fetch(copy: BlobFacts, bytes?: Uint8Array): Promise<'fetched' | 'gone' | 'owed'> {
    const { node } = this.#options
    const group = node.groups.get(copy.placementGroup ?? 0)
    const others = group === undefined ? [] : nodesOf(group)
    const from = [...new Set([this.source, ...others])].filter((id) => id !== node.id)
    const facts = await answerOf(node.fetch(copy, from, { pinMs, bytes }))
    if (!(facts instanceof BlobFault)) return 'fetched'
    if (facts.code === 'CORRUPT' && bytes !== undefined) return this.#fetch(copy)
    switch (facts.code) {
      case 'NOT_FOUND':
        return 'gone' // everybody says so; its deletion follows in the log
      case 'CORRUPT':
      case 'UNAVAILABLE':
      case 'UNKNOWN':
      case 'IO':
        return 'owed'
      default:
        throw facts // this store's own: it is full, or closed
    }
  }

  #assertFew(owed: readonly BlobFacts[]): void {
    if (owed.length > owedMax)
      throw new BlobFault('UNAVAILABLE', `${owed.length} copies of ${this.source} cannot be had whole`)
  }
}

/** As many as one question takes. */
function* batchesOf(copies: readonly BlobFacts[]): Generator<BlobFacts[]> {
  let batch: BlobFacts[] = []
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

function merged(one: readonly BlobFacts[], other: readonly BlobFacts[]): BlobFacts[] {
  return [...new Map([...one, ...other].map((copy) => [copyKey(copy), copy])).values()]
}
