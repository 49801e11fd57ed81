/** A blob store on another node, with the interface of a local one. */
import type { Agent } from 'node:http'
import { Metadata, type ServiceError } from '@grpc/grpc-js'
import {
  BlobFault,
  type BlobInfo,
  type BlobName,
  type BlobStoreUsage,
  batchCopiesMax,
  type GroupVersion,
  type LogEntry,
  type PlacedStage,
  type PullAnswer,
  type PullQuery,
  type PutOptions,
  type SmallBlob,
  type StageOptions,
  type StorageNode,
  smallBlobBytesMax,
  type WholeBytes,
  type WholeReads,
} from '@holdfast/blob-store'
import type { Clock } from '@holdfast/kernel'
import type { TlsContext } from '@holdfast/trust'
import { type PullResponse, StorageServiceClient, StorageServiceService } from '@holdfast/wire/storage'
import { nameClientRequest } from '../client-requests.ts'
import { ClusterSecret, type ClusterSecretSource } from '../cluster-secret.ts'
import { blobNameOf, infoOfMessage, messageOf } from '../copies.ts'
import { faultOfCall } from '../faults.ts'
import { proveCall } from '../server/proven-calls.ts'
import { byteAgent, callCredentials, callOptions, inFlightMax } from './connections.ts'
import { type ByteLine, readBytes, readCopies, readSmall } from './remote-bytes.ts'
import { putBytes } from './remote-puts.ts'
import { RemoteStage } from './remote-stage.ts'

export interface RemoteBlobStoreOptions {
  /** For messages. */
  node: string
  /** host:port of the node's gRPC service. */
  control: string
  /** http://host:port of its bytes; https with `tls`. */
  bytes: string
  /** The cluster's secret, at least 16 bytes. */
  secret: ClusterSecretSource
  /** Undefined: no encryption. */
  tls: TlsContext | undefined
  clock: Clock
}

export interface RemoteBlobStoreTuning {
  /** For calls that read or write a row, ms. Default 3,000. */
  callTimeoutMs?: number
  /** For what waits for hashes and syncs: seal, commit, delete, copy. Default 60,000. */
  commitTimeoutMs?: number
  /** A stream without a byte for this long is dropped, ms. Default 15,000. */
  progressTimeoutMs?: number
}

const defaults: Required<RemoteBlobStoreTuning> = {
  callTimeoutMs: 3_000,
  commitTimeoutMs: 60_000,
  progressTimeoutMs: 15_000,
}

/** Pulls of the largest size, over a slow line. */
const pullTimeoutMs = 15_000

type Method = Exclude<keyof typeof StorageServiceService, 'inventory'>

export class RemoteBlobStore implements StorageNode, WholeReads {
  readonly #options: RemoteBlobStoreOptions & Required<RemoteBlobStoreTuning>
  readonly #secret: ClusterSecret
  readonly #control: StorageServiceClient
  readonly #agent: Agent
  readonly #stages = new Set<RemoteStage>()
  /** Ends a call or a stream. Close calls all of them. */
  readonly #open = new Set<() => void>()
  #calls = 0
  #streams = 0
  #closed = false

  /** Connects at first use. */
  constructor(options: RemoteBlobStoreOptions, tuning: RemoteBlobStoreTuning = {}) {
    this.#options = { ...defaults, ...tuning, ...options }
    const { tls, secret, clock } = options
    this.#secret = new ClusterSecret(secret, clock)
    this.#agent = byteAgent({ tls, address: options.bytes })
    this.#control = new StorageServiceClient(options.control, callCredentials(tls, options.control), {
      ...callOptions(tls),
      'grpc.keepalive_time_ms': 10_000,
      'grpc.keepalive_timeout_ms': 5_000,
      'grpc.initial_reconnect_backoff_ms': 100,
      'grpc.min_reconnect_backoff_ms': 100,
      'grpc.max_reconnect_backoff_ms': 2_000,
      'grpc.enable_retries': 0,
      // A separate channel: a second client of this process does not share this one's connection.
      'grpc.use_local_subchannel_pool': 1,
    })
  }

  async stage(options: StageOptions = {}): Promise<PlacedStage> {
    this.#assertOpen()
    const { signal, placement = { group: 0, version: 0 }, expectedBytes } = options
    if (signal?.aborted) throw new BlobFault('CANCELLED', 'the upload was aborted before it began')
    const uploadId = options.uploadId ?? crypto.getRandomValues(new Uint8Array(16))
    await this.#call(
      'begin',
      {
        uploadId: Buffer.from(uploadId),
        placementGroup: placement.group,
        placementVersion: placement.version,
        expectedBytes,
      },
      { timeoutMs: this.#options.callTimeoutMs, signal, changes: true },
    )
    const stage = new RemoteStage(uploadId, {
      ...this.#byteLine,
      sealTimeoutMs: this.#options.commitTimeoutMs,
      commit: async ({ pinMs, createdMs, asNew }) => {
        const request = { uploadId: Buffer.from(uploadId), pinMs, noDedup: asNew ?? false, createdMs }
        const { copy } = await this.#commit(request)
        return infoOfMessage(requireValue(copy))
      },
      abort: async () => {
        const call = { timeoutMs: this.#options.callTimeoutMs, changes: true }
        await this.#call('abort', { uploadId: Buffer.from(uploadId) }, call)
      },
      ended: (stage) => this.#stages.delete(stage),
    })
    this.#stages.add(stage)
    return stage
  }

  /** A put whose answer was lost is sent again: it is idempotent by upload id. */
  async put(blob: SmallBlob, options: PutOptions): Promise<BlobInfo> {
    this.#assertOpen()
    if (blob.bytes.length > smallBlobBytesMax)
      throw new BlobFault('INVALID', `a small blob of ${blob.bytes.length} bytes`)
    return this.#untilKnown((timeoutMs) => putBytes(blob, options, { ...this.#byteLine, timeoutMs }))
  }

  async committed(uploadId: Uint8Array): Promise<BlobInfo | undefined> {
    const { copy } = await this.#call('committed', { uploadId: Buffer.from(uploadId) })
    return copy && infoOfMessage(copy)
  }

  async find(id: Uint8Array): Promise<BlobInfo[]> {
    const { copies } = await this.#call('find', { id: Buffer.from(id) })
    return copies.map(infoOfMessage)
  }

  async stat(blob: BlobName): Promise<BlobInfo | undefined> {
    const { copy } = await this.#call('stat', buffers(blob))
    return copy && infoOfMessage(copy)
  }

  async *read(
    blob: BlobName,
    range: { start: number; end: number },
    options: { signal?: AbortSignal } = {},
  ): AsyncIterable<Uint8Array> {
    this.#assertOpen()
    if (options.signal?.aborted) throw new BlobFault('CANCELLED', 'the reader gave up')
    if (!(0 <= range.start && range.start <= range.end))
      throw new RangeError(`bytes ${range.start}..${range.end} of a blob`)
    if (range.start === range.end) {
      const info = await this.stat(blob)
      if (info === undefined) throw new BlobFault('NOT_FOUND', `${this.#options.node} has no such copy`)
      if (range.end > info.size) throw new RangeError(`byte ${range.end} of a blob of ${info.size}`)
      return
    }
    yield* readBytes(blob, range, {
      ...this.#byteLine,
      isClosed: () => this.#closed,
      signal: options.signal,
    })
  }

  get #byteLine(): ByteLine {
    return {
      node: this.#options.node,
      url: this.#options.bytes,
      agent: this.#agent,
      secret: this.#secret,
      progressTimeoutMs: this.#options.progressTimeoutMs,
      beginStream: (end) => this.#beginStream(end),
    }
  }

  async readWhole(blob: BlobName, range: { start: number; end: number }): Promise<WholeBytes | undefined> {
    this.#assertOpen()
    const length = range.end - range.start
    if (!(range.start >= 0 && 0 < length && length <= smallBlobBytesMax)) return undefined
    const bytes = await readSmall(blob, range, this.#byteLine)
    return bytes && { bytes, release() {} }
  }

  async pin(
    blob: BlobName & { size?: number },
    options: { ttlMs: number; placement?: GroupVersion; whole?: boolean },
  ): Promise<boolean> {
    const { whole = false } = options
    const { callTimeoutMs, commitTimeoutMs } = this.#options
    const request = {
      ...buffers(blob),
      ttlMs: options.ttlMs,
      placementGroup: options.placement?.group ?? 0,
      placementVersion: options.placement?.version ?? 0,
      whole,
    }
    // The node may read it first, in turn with others: 8 MiB a second is slower than any usable
    // disk.
    const timeoutMs = whole ? commitTimeoutMs + (blob.size ?? 0) / 8_192 : callTimeoutMs
    return (await this.#call('pin', request, { timeoutMs })).pinned
  }

  async delete(blob: BlobName): Promise<'deleted' | 'pinned'> {
    const call = { timeoutMs: this.#options.commitTimeoutMs, changes: true }
    const { deleted } = await this.#call('delete', buffers(blob), call)
    return deleted ? 'deleted' : 'pinned'
  }

  async *inventory({ groups = [] }: { groups?: readonly number[] } = {}): AsyncIterable<BlobInfo> {
    this.#assertOpen()
    const end = this.#beginCall(() => call.cancel())
    const { path, requestSerialize, responseDeserialize } = StorageServiceService.inventory
    const message = requestSerialize({ placementGroups: [...groups] })
    const call = this.#control.makeServerStreamRequest(
      path,
      asItIs,
      responseDeserialize,
      message,
      this.#proof(path, message),
    )
    try {
      for await (const { copies } of call as AsyncIterable<{ copies: Parameters<typeof infoOfMessage>[0][] }>)
        for (const copy of copies) yield infoOfMessage(copy)
    } catch (error) {
      throw this.#faultOfNode(error as ServiceError, { changes: false })
    } finally {
      call.cancel()
      end()
    }
  }

  async pull(request: PullQuery): Promise<PullAnswer> {
    const { after, limit, groups = [], signal } = request
    const response = await this.#call(
      'pull',
      {
        storeIncarnation: Buffer.from(after?.store ?? new Uint8Array(0)),
        after: after?.sequence ?? 0,
        limit,
        placementGroups: [...groups],
      },
      { timeoutMs: pullTimeoutMs, signal, changes: false },
    )
    return pulledOf(response)
  }

  async readBatch(copies: readonly BlobInfo[]): Promise<(Uint8Array | undefined)[]> {
    this.#assertOpen()
    const largest = copies.reduce((most, { size }) => Math.max(most, size), 0)
    if (copies.length > batchCopiesMax || largest > smallBlobBytesMax)
      throw new BlobFault('INVALID', `${copies.length} copies of up to ${largest} bytes in one question`)
    return copies.length === 0 ? [] : readCopies(copies, this.#byteLine)
  }

  async deletedMs(blob: BlobName): Promise<number | undefined> {
    return (await this.#call('deleted', buffers(blob))).deletedMs
  }

  async copyFrom(
    from: string,
    blob: BlobInfo,
    options: { pinMs: number; placement: GroupVersion; signal?: AbortSignal },
  ): Promise<BlobInfo> {
    const { copy } = await this.#call(
      'copyFrom',
      {
        source: from,
        copy: messageOf(blob),
        pinMs: options.pinMs,
        placementGroup: options.placement.group,
        placementVersion: options.placement.version,
      },
      {
        // As long as a slow line takes: half a MiB a second is slower than any usable line.
        timeoutMs: this.#options.commitTimeoutMs + blob.size / 512,
        signal: options.signal,
        changes: true,
      },
    )
    return infoOfMessage(requireValue(copy))
  }

  /** Bytes in transit are counted as staged. */
  async usage(): Promise<BlobStoreUsage> {
    const usage = await this.#call('usage', {})
    let own = 0
    for (const { bytesWritten } of this.#stages) own += bytesWritten
    return { ...usage, stagedBytes: Math.max(usage.stagedBytes, own) }
  }

  /** Ends running calls; aborts open stages where the node is reachable. */
  async close(): Promise<void> {
    if (this.#closed) return
    await Promise.all([...this.#stages].map((stage) => stage.abort()))
    this.#closed = true
    for (const end of [...this.#open]) end()
    this.#agent.destroy()
    this.#control.close()
  }

  /** A commit whose answer was lost is sent again: it is idempotent by upload id. */
  async #commit(request: {
    uploadId: Buffer
    pinMs: number
    noDedup: boolean
    createdMs: number | undefined
  }) {
    return this.#untilKnown((timeoutMs) => this.#call('commit', request, { timeoutMs, changes: true }))
  }

  /** Retries while the outcome is unknown. */
  async #untilKnown<T>(attempt: (timeoutMs: number) => Promise<T>): Promise<T> {
    const until = this.#options.clock.monotonic() + this.#options.commitTimeoutMs
    for (let left = commitAttempts; ; left--) {
      try {
        return await attempt(until - this.#options.clock.monotonic())
      } catch (error) {
        const lost = error instanceof BlobFault && error.code === 'UNKNOWN'
        if (!lost || left <= 1 || until - this.#options.clock.monotonic() <= 0) throw error
      }
    }
  }

  #call<M extends Method>(
    method: M,
    request: RequestOf<M>,
    options: { timeoutMs?: number; signal?: AbortSignal | undefined; changes?: boolean } = {},
  ): Promise<ResponseOf<M>> {
    const { timeoutMs = this.#options.callTimeoutMs, signal, changes = false } = options
    return new Promise((resolve, reject) => {
      this.#assertOpen()
      if (signal?.aborted) throw new BlobFault('CANCELLED', 'the caller gave up')
      const end = this.#beginCall(() => call.cancel())
      const cancel = () => call.cancel()
      signal?.addEventListener('abort', cancel, { once: true })
      const done = (error: ServiceError | null, response?: ResponseOf<M>) => {
        end()
        signal?.removeEventListener('abort', cancel)
        if (error === null) resolve(response as ResponseOf<M>)
        else reject(this.#faultOfNode(error, { changes }))
      }
      const { path, requestSerialize, responseDeserialize } = StorageServiceService[method]
      const message = (requestSerialize as (request: RequestOf<M>) => Buffer)(request)
      const call = this.#control.makeUnaryRequest(
        path,
        asItIs,
        responseDeserialize as unknown as (bytes: Buffer) => ResponseOf<M>,
        message,
        this.#proof(path, message),
        { deadline: Date.now() + Math.max(1, timeoutMs) },
        done,
      )
    })
  }

  #proof(path: string, message: Buffer): Metadata {
    const metadata = new Metadata()
    proveCall(metadata, { secret: this.#secret, path, message })
    nameClientRequest(metadata)
    return metadata
  }

  #faultOfNode(error: ServiceError, { changes }: { changes: boolean }): BlobFault {
    if (this.#closed) return new BlobFault('CLOSED', 'the store is closed', { cause: error })
    return faultOfCall(this.#options.node, error, { changes })
  }

  #beginCall(cancel: () => void): () => void {
    if (this.#calls >= inFlightMax)
      throw new BlobFault('UNAVAILABLE', `${this.#calls} calls to ${this.#options.node} are under way`)
    this.#calls++
    return this.#track(cancel, () => this.#calls--)
  }

  #beginStream(cancel: () => void): () => void {
    this.#assertOpen()
    if (this.#streams >= inFlightMax)
      throw new BlobFault('UNAVAILABLE', `${this.#streams} streams to ${this.#options.node} are under way`)
    this.#streams++
    return this.#track(cancel, () => this.#streams--)
  }

  #track(cancel: () => void, release: () => void): () => void {
    this.#open.add(cancel)
    return () => {
      if (this.#open.delete(cancel)) release()
    }
  }

  #assertOpen(): void {
    if (this.#closed) throw new BlobFault('CLOSED', 'the store is closed')
  }
}

const commitAttempts = 3

/** A message is serialized before its proof is made. */
const asItIs = (message: Buffer) => message

type RequestOf<M extends Method> = Parameters<(typeof StorageServiceService)[M]['requestSerialize']>[0]
type ResponseOf<M extends Method> = ReturnType<(typeof StorageServiceService)[M]['responseDeserialize']>

function buffers({ id, incarnation }: BlobName): { id: Buffer; incarnation: Buffer } {
  return { id: Buffer.from(id), incarnation: Buffer.from(incarnation) }
}

function requireValue<T>(value: T | undefined): T {
  if (value === undefined) throw new BlobFault('UNAVAILABLE', 'the node answered without a copy')
  return value
}

function pulledOf(response: PullResponse): PullAnswer {
  const position = { store: response.storeIncarnation, sequence: response.through }
  const { nowMs, behind } = response
  if (response.unknownPosition) return { kind: 'unknown position', now: position, nowMs }
  const entries = response.entries.map(({ sequence, copy, deleted }): LogEntry => {
    const info = infoOfMessage(requireValue(copy))
    if (!deleted) return { kind: 'committed', sequence, copy: info }
    return {
      kind: 'deleted',
      sequence,
      copy: { ...blobNameOf(info), placementGroup: info.placementGroup ?? 0 },
    }
  })
  return { kind: 'entries', entries, through: position, behind, nowMs }
}
