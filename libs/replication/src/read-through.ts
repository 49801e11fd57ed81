/**
 * A storage node's bytes for public downloads: its own copy, else another holder's.
 *
 * A copy that belongs here and is missing or damaged is fetched once for all concurrent readers.
 * Readers wait for a small copy, so a thousand viewers cost one transfer. A large copy is passed on
 * to readers while it is fetched. The copy is kept only if it is referenced. Nodes answer each
 * other only from their own store, so a request is never passed on and cannot loop.
 */
import {
  BlobFault,
  type BlobInfo,
  type BlobName,
  type BlobStore,
  type BlobStoreUsage,
  copyKey,
  pinMsMax,
  type WholeBytes,
  type WholeReads,
} from '@holdfast/blob-store'
import { clientRequest } from '@holdfast/kernel'
import { type Holder, readFromAny, readWholeFrom } from './failover-read.ts'
import type { LocalNode } from './local-node.ts'
import { nearestFirst, type Peers } from './peers.ts'
import { type GroupView, nodesOf } from './placement-groups.ts'
import { answerOf } from './replicated-blob-store.ts'

export interface ReadThroughOptions {
  node: LocalNode
  region: string
  /** Groups of all regions: a node may be asked for copies of groups that it is not in. */
  groups: GroupView
  peers: Peers
  /** Read at quorum; unreferenced copies are passed on and not kept. */
  referenced: (blob: BlobName) => Promise<boolean>
  log: { warn(fields: object, message: string): void }
}

/** Readers wait for copies up to this size: a second of a slow WAN line. */
const waitBytesMax = 8 * 1024 * 1024
/**
 * Concurrent readers served from other nodes; beyond it `UNAVAILABLE`: the client is redirected to
 * another holder.
 */
const passedOnMax = 256

export class ReadThroughStore implements BlobStore, WholeReads {
  readonly #options: ReadThroughOptions
  /** Concurrent readers share the check whether a copy is kept. */
  readonly #keeping = new Map<string, Promise<boolean>>()
  #passedOn = 0

  constructor(options: ReadThroughOptions) {
    this.#options = options
  }

  stage(options?: { expectedBytes?: number; signal?: AbortSignal }): ReturnType<BlobStore['stage']> {
    return this.#options.node.stage(options)
  }

  /**
   * This node's description of the copy, else the nearest holder's. @throws BlobFault `UNAVAILABLE`
   * when no node has it and one did not answer.
   */
  async stat(blob: BlobName): Promise<BlobInfo | undefined> {
    const here = await this.#options.node.stat(blob)
    return here?.damaged === undefined && here !== undefined
      ? here
      : ((await this.#statElsewhere(blob)) ?? here)
  }

  async *read(
    blob: BlobName,
    range: { start: number; end: number },
    { signal }: { signal?: AbortSignal } = {},
  ): AsyncIterable<Uint8Array> {
    const { log } = this.#options
    const failed = (holder: string, fault: BlobFault) => {
      if (fault.code !== 'NOT_FOUND')
        log.warn(
          { requestId: clientRequest(), holder, code: fault.code },
          'a holder failed; the next one continues',
        )
    }
    yield* readFromAny(this.#holders(blob), blob, range, { signal, failed })
  }

  /** Reads this node's own copy. */
  readWhole(blob: BlobName, range: { start: number; end: number }): Promise<WholeBytes | undefined> {
    return readWholeFrom(this.#options.node, blob, range)
  }

  pin(blob: BlobName, options: { ttlMs: number }): Promise<boolean> {
    return this.#options.node.pin(blob, options)
  }

  delete(blob: BlobName): Promise<'deleted' | 'pinned'> {
    return this.#options.node.delete(blob)
  }

  inventory(): AsyncIterable<BlobInfo> {
    return this.#options.node.inventory()
  }

  usage(): Promise<BlobStoreUsage> {
    return this.#options.node.usage()
  }

  /** Does not close the node: its creator does. */
  async close(): Promise<void> {}

  /**
   * This node; then, on demand, the others, and this node again when it has fetched a copy
   * meanwhile.
   */
  async *#holders(blob: BlobName): AsyncIterable<Holder> {
    const { node } = this.#options
    const own = { id: node.id, node }
    yield own
    const elsewhere = this.#elsewhere(blob)
    const info = await answerOf(this.#statElsewhere(blob))
    if (info !== undefined && !(info instanceof BlobFault) && (await this.#keep(info, elsewhere))) yield own
    if (this.#passedOn >= passedOnMax)
      throw new BlobFault('UNAVAILABLE', `${this.#passedOn} readers are served from elsewhere`)
    this.#passedOn++
    try {
      yield* elsewhere
    } finally {
      this.#passedOn--
    }
  }

  /** @returns true when a whole copy is here now. */
  async #keep(info: BlobInfo, elsewhere: readonly Holder[]): Promise<boolean> {
    const { node, log } = this.#options
    const belongs = node.groups.own().some(({ number }) => number === info.placementGroup)
    if (!belongs || !(await this.#isKept(info))) return false
    const fetched = node
      .fetch(
        info,
        elsewhere.map(({ id }) => id),
        { pinMs: pinMsMax },
      )
      .then(() => true)
      .catch((error: Error & { code?: string }) => {
        log.warn({ code: error.code, error: error.message }, 'a missing copy could not be fetched')
        return false
      })
    return info.size <= waitBytesMax ? fetched : false
  }

  #isKept(blob: BlobName): Promise<boolean> {
    const key = copyKey(blob)
    let asked = this.#keeping.get(key)
    if (asked === undefined) {
      asked = this.#options
        .referenced(blob)
        .catch(() => false)
        .finally(() => this.#keeping.delete(key))
      this.#keeping.set(key, asked)
    }
    return asked
  }

  async #statElsewhere(blob: BlobName): Promise<BlobInfo | undefined> {
    let fault: BlobFault | undefined
    for (const { id } of this.#elsewhere(blob)) {
      const info = await answerOf(this.#options.peers.node(id)?.stat(blob) ?? Promise.resolve(undefined))
      if (info instanceof BlobFault) fault = info
      else if (info !== undefined && info.damaged === undefined) return info
    }
    if (fault !== undefined) throw new BlobFault('UNAVAILABLE', fault.message, { cause: fault })
    return undefined
  }

  #elsewhere(blob: BlobName): Holder[] {
    const { node, groups, peers, region } = this.#options
    const named = blob.placementGroup === undefined ? undefined : groups.get(blob.placementGroup)
    const candidates = named === undefined ? node.groups.own() : [named]
    const holders: Holder[] = []
    for (const id of nearestFirst(candidates.flatMap(nodesOf), { peers, region })) {
      const peer = id === node.id ? undefined : peers.node(id)
      if (peer !== undefined) holders.push({ id, node: peer })
    }
    return holders
  }
}
