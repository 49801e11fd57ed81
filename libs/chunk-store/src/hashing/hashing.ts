/**
 * Digests of uploads while they stream. md5 is the slowest part of the path, so it runs in worker
 * threads, which read the same buffers as the device. One upload stays with one worker; four share
 * one, which costs little more than one alone; more use several.
 */
import { createHash } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import { BlobFault } from '@holdfast/blob-store'
import { asBuffer, blobIdBytes } from '@holdfast/kernel'
import { Blake3Hasher } from '@napi-rs/blake-hash'

export interface Hashing {
  /** Begins a digest. */
  open(): HashStream
  close(): Promise<void>
}

export interface HashStream {
  /**
   * Hashes the bytes at this place of the shared memory, after earlier ones. `done` is called once
   * they are no longer needed; with an error when the digest is lost.
   */
  update(start: number, bytes: number, done: (error?: Error) => void): void
  /** The blob id: md5 ‖ BLAKE3 of all. */
  digest(): Promise<Buffer>
  /** Drops it; running updates end as usual. */
  drop(): void
}

/**
 * What a hash worker is asked: stream, start and length in the shared memory; -1 asks for the
 * digest, -2 drops it. A message has those of one turn of the loop.
 */
export type HashRequest = [stream: number, start: number, bytes: number]
export const digestRequest = -1
export const dropRequest = -2
/**
 * One for each request, in order within the stream: the digest, or 0. Several may come at a time.
 */
export type HashAnswer = [stream: number, digest: Uint8Array | 0]

export interface HashWorkerData {
  memory: WebAssembly.Memory
  /**
   * One number: current streams of this worker, including those whose first bytes are still to
   * come.
   */
  streams: Int32Array
}

/** Streams that a hash worker processes side by side. */
export const laneCount = 4

/** Both hashes of a blob id side by side. */
class IdHasher {
  readonly #md5 = createHash('md5')
  readonly #blake3 = new Blake3Hasher()

  update(bytes: Uint8Array): void {
    this.#md5.update(bytes)
    this.#blake3.update(asBuffer(bytes))
  }

  digest(): Buffer {
    return Buffer.concat([this.#md5.digest(), this.#blake3.digestBuffer()], blobIdBytes)
  }
}

/** In the calling thread: for tests, and where threads are not wanted. */
export class InlineHashing implements Hashing {
  readonly #memory: Buffer

  constructor(memory: WebAssembly.Memory) {
    this.#memory = Buffer.from(memory.buffer)
  }

  open(): HashStream {
    const memory = this.#memory
    const hasher = new IdHasher()
    return {
      update(start, bytes, done) {
        hasher.update(memory.subarray(start, start + bytes))
        done()
      },
      digest: async () => hasher.digest(),
      drop() {},
    }
  }

  async close(): Promise<void> {}
}

export class WorkerHashing implements Hashing {
  readonly #memory: WebAssembly.Memory
  readonly #workersMax: number
  readonly #workers: HashWorker[] = []
  #streams = 0

  constructor(memory: WebAssembly.Memory, workersMax = availableParallelism()) {
    this.#memory = memory
    this.#workersMax = workersMax
  }

  open(): HashStream {
    return new WorkerHashStream(this.#worker(), ++this.#streams)
  }

  async close(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.close()))
  }

  /**
   * The fullest worker with a free lane, or a new one while more are allowed, or the one with the
   * fewest uploads.
   */
  #worker(): HashWorker {
    const working = this.#workers
      .filter(({ failure }) => failure === undefined)
      .sort((a, b) => b.streams - a.streams)
    const least = working.at(-1)
    const free = working.find(({ streams }) => streams < laneCount)
    if (free !== undefined) return free
    if (least !== undefined && this.#workers.length >= this.#workersMax) return least
    const worker = new HashWorker(this.#memory)
    this.#workers.push(worker)
    return worker
  }
}

class WorkerHashStream implements HashStream {
  readonly #worker: HashWorker
  readonly #name: number
  #open = true

  constructor(worker: HashWorker, name: number) {
    this.#worker = worker
    this.#name = name
    worker.open(name)
  }

  update(start: number, bytes: number, done: (error?: Error) => void): void {
    this.#worker.ask([this.#name, start, bytes], (_, error) => done(error))
  }

  digest(): Promise<Buffer> {
    this.#open = false
    return new Promise((resolve, reject) => {
      this.#worker.ask([this.#name, digestRequest, 0], (digest, error) => {
        this.#worker.end(this.#name)
        if (digest !== undefined) resolve(Buffer.from(digest))
        else reject(error ?? new Error('no digest'))
      })
    })
  }

  drop(): void {
    if (!this.#open) return
    this.#open = false
    this.#worker.ask([this.#name, dropRequest, 0], () => this.#worker.end(this.#name))
  }
}

type DigestCallback = (digest: Uint8Array | undefined, error?: Error) => void

class HashWorker {
  readonly #worker: Worker
  /** By stream, in the order of the requests, which is that of the answers. */
  readonly #waiting = new Map<number, DigestCallback[]>()
  readonly #streams = new Int32Array(new SharedArrayBuffer(4))
  #waitingCount = 0
  /**
   * Sent at the end of the turn. Each message wakes the worker, which takes the CPU from this
   * thread (`bench/NOTES-bulk-uploads.md`).
   */
  #unsent: HashRequest[] = []
  failure: Error | undefined

  constructor(memory: WebAssembly.Memory) {
    const workerData: HashWorkerData = { memory, streams: this.#streams }
    this.#worker = new Worker(new URL('./hash-worker.ts', import.meta.url), { workerData })
    this.#worker.unref()
    this.#worker.on('message', (answers: HashAnswer[]) => {
      for (const answer of answers) this.#answer(answer)
    })
    this.#worker.on('error', (error) => this.#fail(error))
    this.#worker.on('exit', () => this.#fail(new Error('the hash worker ended')))
  }

  /** Running uploads of this worker. */
  get streams(): number {
    return this.#waiting.size
  }

  open(stream: number): void {
    this.#waiting.set(stream, [])
    this.#count()
  }

  end(stream: number): void {
    this.#waiting.delete(stream)
    this.#count()
  }

  #count(): void {
    Atomics.store(this.#streams, 0, this.#waiting.size)
  }

  ask(request: HashRequest, answered: DigestCallback): void {
    if (this.failure === undefined) {
      // Keeps the process alive while a digest is awaited.
      if (this.#waitingCount++ === 0) this.#worker.ref()
      this.#waiting.get(request[0])?.push(answered)
      if (this.#unsent.push(request) === 1) setImmediate(this.#send)
    } else answered(undefined, this.failure)
  }

  readonly #send = (): void => {
    const requests = this.#unsent
    this.#unsent = []
    this.#worker.postMessage(requests)
  }

  async close(): Promise<void> {
    await this.#worker.terminate()
  }

  #answer([stream, digest]: HashAnswer): void {
    const answered = this.#waiting.get(stream)?.shift()
    if (--this.#waitingCount === 0) this.#worker.unref()
    answered?.(digest === 0 ? undefined : digest)
  }

  #fail(cause: unknown): void {
    this.failure ??= new BlobFault('IO', 'a hash worker failed', { cause })
    const waiting = [...this.#waiting.values()].flat()
    this.#waiting.clear()
    for (const answered of waiting) answered(undefined, this.failure)
  }
}
