/**
 * A storage node: its own store behind the rules of its placement groups, with the ability to fetch
 * copies from others. The network serves it, an upload host in the same process writes to it, and
 * pulling, scrubbing and read-through fetch into it.
 */
import {
  BlobFault,
  type BlobInfo,
  type BlobName,
  type BlobStoreUsage,
  copyKey,
  type GroupVersion,
  type NodeStore,
  nameOfCopy,
  type PlacedStage,
  type PullAnswer,
  type PullQuery,
  type PutOptions,
  putSmall,
  readsWhole,
  restoreCopy,
  type SmallBlob,
  type StageOptions,
  type StorageNode,
  type WholeBytes,
  type WholeReads,
} from '@holdfast/blob-store'
import { hex } from '@holdfast/kernel'
import { type Holder, readFromAny } from './failover-read.ts'
import type { NodeGroups } from './node-groups.ts'
import type { Peers } from './peers.ts'
import { answerOf } from './replicated-blob-store.ts'

export interface LocalNodeOptions {
  store: NodeStore
  groups: NodeGroups
  peers: Peers
}

/**
 * Concurrent fetches; more wait, at most `fetchesWaitingMax`. Enough for a WAN line, little memory.
 */
const fetchesMax = 8
/** Beyond it a fetch is refused as unavailable. */
const fetchesWaitingMax = 10_000

export class LocalNode implements StorageNode, WholeReads {
  readonly id: string
  readonly groups: NodeGroups
  readonly #store: NodeStore
  readonly #peers: Peers
  readonly #fetches = new Map<string, Promise<BlobInfo>>()
  readonly #puts = new Map<string, Promise<BlobInfo>>()
  #running = 0
  readonly #line: (() => void)[] = []
  #unverified: string | undefined

  constructor({ store, groups, peers }: LocalNodeOptions) {
    this.id = groups.nodeId
    this.groups = groups
    this.#store = store
    this.#peers = peers
  }

  /** The node's own store, without the rules. */
  get store(): NodeStore {
    return this.#store
  }

  /**
   * While set, other nodes do not pull from here: the node was away for longer than tombstones are
   * kept, so what it holds may have been deleted everywhere else.
   */
  set unverified(reason: string | undefined) {
    this.#unverified = reason
  }

  get unverified(): string | undefined {
    return this.#unverified
  }

  async stage(options: StageOptions = {}): Promise<PlacedStage> {
    const { placement = { group: 0, version: 0 } } = options
    const over = await this.groups.admitStage(placement)
    try {
      return new AdmittedStage(await this.#store.stage(options), {
        over,
        // An upload that outlived its group must not be acknowledged for it.
        assertMember: () => this.groups.assertMember(placement.group),
      })
    } catch (error) {
      over()
      throw error
    }
  }

  /**
   * Single-flight by upload id: the sender repeats a request without an answer while the first one
   * still runs.
   */
  put(blob: SmallBlob, options: PutOptions): Promise<BlobInfo> {
    const key = hex(options.uploadId)
    let put = this.#puts.get(key)
    if (put === undefined) {
      put = putSmall(this, blob, options).finally(() => this.#puts.delete(key))
      this.#puts.set(key, put)
    }
    return put
  }

  async pin(
    blob: BlobName,
    options: { ttlMs: number; placement?: GroupVersion; whole?: boolean },
  ): Promise<boolean> {
    if (options.placement !== undefined) await this.groups.admit(options.placement)
    return this.#store.pin(blob, options)
  }

  async copyFrom(
    from: string,
    blob: BlobInfo,
    options: { pinMs: number; placement: GroupVersion; signal?: AbortSignal },
  ): Promise<BlobInfo> {
    await this.groups.admit(options.placement)
    const info = await this.fetch(blob, [from], options)
    // A caller that shares a running fetch gets a pin of its own.
    if (await this.#store.pin(info, { ttlMs: options.pinMs })) return info
    throw new BlobFault('UNAVAILABLE', `${nameOfCopy(blob)} was deleted again while it was copied`)
  }

  /**
   * Fetches a copy, verified whole and synced; returns at once when a whole one is here. A damaged
   * copy is replaced when the new one is synced. Single-flight: callers that want one copy share
   * its fetch and its sources, so none of them can cancel it.
   *
   * @param from nodes in the order in which to try them; the next continues where one failed.
   * @param options.bytes the whole blob, when it has already arrived.
   * @throws BlobFault `NOT_FOUND` when no node has it, `CORRUPT` when none has it whole, `FULL`,
   *   `UNAVAILABLE`.
   */
  fetch(
    blob: BlobInfo,
    from: readonly string[],
    options: { pinMs: number; bytes?: Uint8Array | undefined },
  ): Promise<BlobInfo> {
    const key = copyKey(blob)
    let fetch = this.#fetches.get(key)
    if (fetch === undefined) {
      const run = () => this.#fetch(blob, from, options)
      // A fetch whose bytes have arrived needs no network, so it does not wait for its turn: such
      // copies are committed, and synced, together.
      fetch = (options.bytes === undefined ? this.#inTurn(run) : run()).finally(() =>
        this.#fetches.delete(key),
      )
      this.#fetches.set(key, fetch)
    }
    return fetch
  }

  async pull(query: PullQuery): Promise<PullAnswer> {
    this.#assertVerified()
    return this.#store.pull(query)
  }

  async *inventory(options: { groups?: readonly number[] } = {}): AsyncIterable<BlobInfo> {
    this.#assertVerified()
    yield* this.#store.inventory(options)
  }

  committed(uploadId: Uint8Array): Promise<BlobInfo | undefined> {
    return this.#store.committed(uploadId)
  }

  find(id: Uint8Array): Promise<BlobInfo[]> {
    return this.#store.find(id)
  }

  stat(blob: BlobName): Promise<BlobInfo | undefined> {
    return this.#store.stat(blob)
  }

  read(
    blob: BlobName,
    range: { start: number; end: number },
    options?: { signal?: AbortSignal },
  ): AsyncIterable<Uint8Array> {
    return this.#store.read(blob, range, options)
  }

  async readWhole(blob: BlobName, range: { start: number; end: number }): Promise<WholeBytes | undefined> {
    return readsWhole(this.#store) ? this.#store.readWhole(blob, range) : undefined
  }

  delete(blob: BlobName): Promise<'deleted' | 'pinned'> {
    return this.#store.delete(blob)
  }

  async readBatch(copies: readonly BlobInfo[]): Promise<(Uint8Array | undefined)[]> {
    this.#assertVerified()
    return this.#store.readBatch(copies)
  }

  deletedMs(blob: BlobName): Promise<number | undefined> {
    return this.#store.deletedMs(blob)
  }

  usage(): Promise<BlobStoreUsage> {
    return this.#store.usage()
  }

  /** Closes the store. */
  close(): Promise<void> {
    return this.#store.close()
  }

  async #fetch(
    blob: BlobInfo,
    from: readonly string[],
    { pinMs, bytes: come }: { pinMs: number; bytes?: Uint8Array | undefined },
  ): Promise<BlobInfo> {
    const here = await this.#store.stat(blob)
    if (here !== undefined && here.damaged === undefined && (await this.#store.pin(blob, { ttlMs: pinMs })))
      return here
    const all = { start: 0, end: blob.size }
    const bytes = come === undefined ? readFromAny(this.#holders(from, blob), blob, all) : inOnePiece(come)
    return restoreCopy(this.#store, blob, bytes, { pinMs, source: from.join(', ') })
  }

  /**
   * Sources of the bytes, in the order in which they are tried: other copies of the content in this
   * store, then the copy itself at the other nodes, then other copies of the content there.
   */
  async *#holders(from: readonly string[], blob: BlobInfo): AsyncIterable<Holder> {
    yield* otherCopies(this.id, this.#store, blob)
    const nodes = from.flatMap((id) => {
      const node = id === this.id ? undefined : this.#peers.node(id)
      return node === undefined ? [] : [{ id, node }]
    })
    yield* nodes
    for (const { id, node } of nodes) yield* otherCopies(id, node, blob)
  }

  async #inTurn<T>(run: () => Promise<T>): Promise<T> {
    if (this.#running >= fetchesMax) {
      if (this.#line.length >= fetchesWaitingMax)
        throw new BlobFault('UNAVAILABLE', `${this.#line.length} copies wait to be fetched`)
      await new Promise<void>((resolve) => this.#line.push(resolve))
    } else this.#running++
    try {
      return await run()
    } finally {
      const next = this.#line.shift()
      if (next === undefined) this.#running--
      else next()
    }
  }

  #assertVerified(): void {
    if (this.#unverified !== undefined) throw new BlobFault('UNVERIFIED', this.#unverified)
  }
}

/**
 * Whole copies of the same content under other names, as holders of this one: the same id means the
 * same bytes.
 */
async function* otherCopies(
  id: string,
  node: Pick<StorageNode, 'find' | 'read'>,
  blob: BlobInfo,
): AsyncIterable<Holder> {
  const copies = await answerOf(node.find(blob.id))
  // its bytes are still requested, and that request reports the fault
  if (copies instanceof BlobFault) return
  for (const copy of copies)
    if (Buffer.compare(copy.incarnation, blob.incarnation) !== 0)
      yield { id, node: { read: (_blob, range, options) => node.read(copy, range, options) } }
}

async function* inOnePiece(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}

/** An upload that its group counts until it ends. */
class AdmittedStage implements PlacedStage {
  readonly uploadId: Uint8Array
  readonly #stage: PlacedStage
  readonly #rules: { over: () => void; assertMember: () => void }

  constructor(stage: PlacedStage, rules: { over: () => void; assertMember: () => void }) {
    this.uploadId = stage.uploadId
    this.#stage = stage
    this.#rules = rules
  }

  write(bytes: Uint8Array): Promise<void> | undefined {
    return this.#stage.write(bytes)
  }

  seal(): ReturnType<PlacedStage['seal']> {
    return this.#stage.seal()
  }

  async commit(options: Parameters<PlacedStage['commit']>[0]): Promise<BlobInfo> {
    this.#rules.assertMember()
    try {
      return await this.#stage.commit(options)
    } finally {
      this.#rules.over()
    }
  }

  async abort(): Promise<void> {
    try {
      await this.#stage.abort()
    } finally {
      this.#rules.over()
    }
  }
}
