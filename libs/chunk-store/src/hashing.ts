/**
 * Digests of uploads while they stream. md5 is the slowest thing on the path, so it runs in worker threads, which read the
 * very slots that the device reads. One upload stays with one worker; several uploads use several.
 */
import { createHash } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import { BlobFault, blobIdBytes } from '@holdfast/blob-store'
import { Blake3Hasher } from '@napi-rs/blake-hash'

export interface Hashing {
  /** Begins a digest. */
  open(): HashStream
  close(): Promise<void>
}

export interface HashStream {
  /**
   * Takes the bytes at this place of the shared memory, after those before. `done` is called once they are no longer needed;
   * with an error when the digest is lost.
   */
  update(start: number, bytes: number, done: (error?: Error) => void): void
  /** The blob id: md5 ‖ BLAKE3 of all. */
  digest(): Promise<Buffer>
  /** Forgets it; updates under way end as usual. */
  drop(): void
}

/** A message to a hash worker: stream, start and length in the shared memory; -1 asks for the digest, -2 drops it. */
export type HashRequest = [stream: number, start: number, bytes: number]
export const digestRequest = -1
export const dropRequest = -2

/** Both hashes of a blob id side by side. */
export class IdHasher {
  readonly #md5 = createHash('md5')
  readonly #blake3 = new Blake3Hasher()

  update(bytes: Uint8Array): void {
    this.#md5.update(bytes)
    this.#blake3.update(bytes)
  }

  digest(): Buffer {
    return Buffer.concat([this.#md5.digest(), this.#blake3.digestBuffer()], blobIdBytes)
  }
}

/** In the calling thread: for tests, and where threads are not wanted. */
export class InlineHashing implements Hashing {
  readonly #memory: Buffer

  constructor(memory: SharedArrayBuffer) {
    this.#memory = Buffer.from(memory)
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
  readonly #memory: SharedArrayBuffer
  readonly #workersMax: number
  readonly #workers: HashWorker[] = []
  #streams = 0

  constructor(memory: SharedArrayBuffer, workersMax = availableParallelism()) {
    this.#memory = memory
    this.#workersMax = workersMax
  }

  open(): HashStream {
    return new WorkerHashStream(this.#leastBusy(), ++this.#streams)
  }

  async close(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.close()))
  }

  /** An idle worker, or a new one as long as more are allowed, or the one with the fewest uploads. */
  #leastBusy(): HashWorker {
    const [least] = this.#workers
      .filter(({ failure }) => failure === undefined)
      .sort((a, b) => a.streams - b.streams)
    if (least !== undefined && (least.streams === 0 || this.#workers.length >= this.#workersMax)) return least
    const worker = new HashWorker(this.#memory)
    this.#workers.push(worker)
    return worker
  }
}

class WorkerHashStream implements HashStream {
  readonly #worker: HashWorker
  readonly #stream: number
  #open = true

  constructor(worker: HashWorker, stream: number) {
    this.#worker = worker
    this.#stream = stream
    worker.streams++
  }

  update(start: number, bytes: number, done: (error?: Error) => void): void {
    this.#worker.ask([this.#stream, start, bytes], (_, error) => done(error))
  }

  digest(): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      this.#worker.ask([this.#stream, digestRequest, 0], (digest, error) => {
        if (digest !== undefined) resolve(Buffer.from(digest))
        else reject(error ?? new Error('no digest'))
      })
      this.#end()
    })
  }

  drop(): void {
    if (!this.#open) return
    this.#worker.ask([this.#stream, dropRequest, 0], () => {})
    this.#end()
  }

  #end(): void {
    if (this.#open) this.#worker.streams--
    this.#open = false
  }
}

class HashWorker {
  readonly #worker: Worker
  /** In the order of the requests, which is that of the answers. */
  readonly #waiting: ((digest: Uint8Array | undefined, error?: Error) => void)[] = []
  streams = 0
  failure: Error | undefined

  constructor(memory: SharedArrayBuffer) {
    this.#worker = new Worker(new URL('./hash-worker.ts', import.meta.url), { workerData: memory })
    this.#worker.unref()
    this.#worker.on('message', (digest: Uint8Array | 0) => {
      const answered = this.#waiting.shift()
      if (this.#waiting.length === 0) this.#worker.unref()
      answered?.(digest === 0 ? undefined : digest)
    })
    this.#worker.on('error', (error) => this.#fail(error))
    this.#worker.on('exit', () => this.#fail(new Error('the hash worker ended')))
  }

  ask(request: HashRequest, answered: (digest: Uint8Array | undefined, error?: Error) => void): void {
    if (this.failure === undefined) {
      if (this.#waiting.length === 0) this.#worker.ref() // the process stays while somebody waits for a digest
      this.#waiting.push(answered)
      this.#worker.postMessage(request)
    } else answered(undefined, this.failure)
  }

  async close(): Promise<void> {
    await this.#worker.terminate()
  }

  #fail(cause: unknown): void {
    this.failure ??= new BlobFault('IO', 'a hash worker failed', { cause })
    for (const answered of this.#waiting.splice(0)) answered(undefined, this.failure)
  }
}
