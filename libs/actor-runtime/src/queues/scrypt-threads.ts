/**
 * scrypt in threads of its own, at low priority. In the pool of the process each hash would take
 * one of four threads for 30 ms or more, while files, journals and DNS names wait, and with the
 * priority of the loop it would take the cores of a small machine from every other request.
 *
 * A thread starts with the first hash that finds none idle, and ends when it has been idle for a
 * minute. `PasswordWork` bounds how many hashes run at one time.
 */
import { type ScryptOptions, scrypt } from 'node:crypto'
import { Worker } from 'node:worker_threads'

const blockSize = 8
const idleMs = 60_000

export interface Derivation {
  secret: string
  salt: Uint8Array
  /** The length of the key. */
  bytes: number
  /** log2 of N: with 14 a hash takes some 30 ms and 16 MiB. */
  cost: number
}

export class ScryptThreads {
  readonly #start: () => Worker
  readonly #idle: ScryptThread[] = []

  constructor(start = () => new Worker(new URL('./scrypt-thread.ts', import.meta.url))) {
    this.#start = start
  }

  async derive(asked: Derivation): Promise<Buffer> {
    let thread: ScryptThread
    let key: Uint8Array
    try {
      thread = this.#taken() ?? new ScryptThread(this.#start())
      key = await thread.derive(asked)
    } catch {
      // Without a descriptor or memory no thread starts. The password is checked nevertheless.
      return await deriveInPool(asked)
    }
    this.#idle.push(thread)
    thread.endWhenIdle(idleMs, () => this.#idle.splice(this.#idle.indexOf(thread), 1))
    return Buffer.from(key)
  }

  /** One that still runs. */
  #taken(): ScryptThread | undefined {
    for (;;) {
      const thread = this.#idle.pop()
      if (thread === undefined || thread.runs) return thread
    }
  }
}

/** One hash at a time. The process may end while it is idle. */
class ScryptThread {
  readonly #worker: Worker
  /** False when it failed or ended: it would never answer. */
  runs = true
  #asked: PromiseWithResolvers<Uint8Array> | undefined
  #ending: NodeJS.Timeout | undefined

  constructor(worker: Worker) {
    this.#worker = worker
    worker.on('message', (key: Uint8Array) => this.#asked?.resolve(key))
    worker.on('error', (error) => this.#over(error))
    worker.on('exit', () => this.#over(new Error('a thread for passwords ended')))
  }

  /** Rejects when the thread could not start, or failed. */
  derive(asked: Derivation): Promise<Uint8Array> {
    clearTimeout(this.#ending)
    this.#worker.ref()
    this.#asked = Promise.withResolvers<Uint8Array>()
    this.#worker.postMessage(asked)
    return this.#asked.promise
  }

  endWhenIdle(afterMs: number, onEnd: () => void): void {
    this.#worker.unref()
    this.#ending = setTimeout(() => {
      if (this.runs) onEnd()
      void this.#worker.terminate()
    }, afterMs).unref()
  }

  #over(error: Error): void {
    this.runs = false
    this.#asked?.reject(error)
  }
}

export function scryptOptions(cost: number): ScryptOptions {
  const N = 2 ** cost
  return { N, r: blockSize, p: 1, maxmem: 256 * N * blockSize }
}

function deriveInPool({ secret, salt, bytes, cost }: Derivation): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    scrypt(secret, salt, bytes, scryptOptions(cost), (error, key) => {
      if (error) reject(error)
      else resolve(key)
    })
  })
}
