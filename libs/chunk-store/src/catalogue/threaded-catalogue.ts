import { open, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { BlobFault } from '@holdfast/blob-store'
import { asBuffer } from '@holdfast/kernel'
import type { Log } from '../log.ts'
import { pack, unpack } from '../memory/packed.ts'
import { behindPrefix, type Catalogue, type CatalogueChange, type CatalogueRow } from './catalogue.ts'
import type { EngineName } from './engines/engine.ts'

/** Keys are packed; changes are packed key, value, key, value … */
export type CatalogueRequest = { number: number } & (
  | { kind: 'get'; keys: Uint8Array }
  | { kind: 'apply'; changes: Uint8Array; sync: boolean }
  | { kind: 'scan'; from: Uint8Array; after: Uint8Array | undefined; until: Uint8Array; limit: number }
  | { kind: 'close' }
)

export interface CatalogueAnswer {
  number: number
  /** Packed. */
  values?: Uint8Array
  rows?: { key: Uint8Array; value: Uint8Array }[]
  error?: string
  /** The error is why it could not be reopened so far. */
  isClosed?: boolean
  /** It accepts no writes, and is reopened once possible. */
  recovering: boolean
}

type Waiter = { resolve: (answer: CatalogueAnswer) => void; reject: (error: Error) => void }

/** A file in the directory of a catalogue that the next start replaces. */
const damageMark = 'damaged'

/** Did an earlier run find damage in it? */
export async function isMarkedDamaged(path: string): Promise<boolean> {
  return (await readdir(path)).includes(damageMark)
}

/**
 * The catalogue in the files of a library, in its own thread. Opening it takes the
 * directory's exclusive lock.
 * Tables are verified when they are read, which may be long after the start: damage is marked then,
 * so that the next start rebuilds the catalogue from the extents.
 */
export class ThreadedCatalogue implements Catalogue {
  damage: BlobFault | undefined
  /** A write failed and it has not been reopened so far; each batch retries that. */
  recovering = false
  /** It does nothing more until the next start. */
  failure: BlobFault | undefined
  readonly engine: EngineName
  readonly path: string
  readonly #log: Log
  #marking: Promise<void> | undefined
  readonly #worker: Worker
  readonly #waiting = new Map<number, Waiter>()
  #numbers = 0
  #ended: Error | undefined

  private constructor(path: string, engine: EngineName, log: Log) {
    this.engine = engine
    this.path = path
    this.#log = log
    this.#worker = new Worker(new URL('./catalogue-worker.ts', import.meta.url), {
      workerData: { path, engine },
    })
    this.#worker.on('message', (answer: CatalogueAnswer) => this.#settle(answer))
    this.#worker.on('error', (cause) => {
      this.failure = new BlobFault('IO', `the catalogue's thread ended: ${cause.message}`, { cause })
      this.#end(this.failure)
    })
    this.#worker.on('exit', () => this.#end(new BlobFault('CLOSED', 'the catalogue is closed')))
  }

  /**
   * @throws BlobFault `UNAVAILABLE` when another process (or store of this one) holds it, `CORRUPT`
   *   when it cannot be read, `FULL` when there is no room to open it, `IO` otherwise.
   */
  static async open(path: string, engine: EngineName, log: Log): Promise<ThreadedCatalogue> {
    const catalogue = new ThreadedCatalogue(path, engine, log)
    const opened = new Promise<CatalogueAnswer>((resolve, reject) => {
      catalogue.#waiting.set(0, { resolve, reject })
    })
    try {
      await opened
      return catalogue
    } catch (error) {
      await catalogue.#worker.terminate()
      throw translate(error as Error, path)
    }
  }

  async get(keys: readonly Buffer[]): Promise<(Buffer | undefined)[]> {
    const { values } = await this.#ask({ kind: 'get', keys: pack(keys) })
    return values === undefined ? [] : unpack(values)
  }

  async apply(changes: readonly CatalogueChange[], { sync }: { sync: boolean }): Promise<void> {
    await this.#ask({
      kind: 'apply',
      changes: pack(changes.flatMap(({ key, value }) => [key, value])),
      sync,
    })
  }

  async scan(
    prefix: Buffer,
    { after, limit }: { after?: Buffer | undefined; limit: number },
  ): Promise<CatalogueRow[]> {
    const { rows } = await this.#ask({
      kind: 'scan',
      from: prefix,
      after,
      until: behindPrefix(prefix),
      limit,
    })
    return (rows ?? []).map(({ key, value }) => ({ key: asBuffer(key), value: asBuffer(value) }))
  }

  async diskBytes(): Promise<number> {
    let bytes = 0
    for (const name of await readdir(this.path)) {
      const found = await stat(join(this.path, name)).catch(() => undefined)
      bytes += (found?.blocks ?? 0) * 512
    }
    return bytes
  }

  async close(): Promise<void> {
    if (this.#ended !== undefined) return
    try {
      await this.#ask({ kind: 'close' })
    } finally {
      await this.#worker.terminate()
      await this.#marking
    }
  }

  #ask(request: DistributiveOmit<CatalogueRequest, 'number'>): Promise<CatalogueAnswer> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended)
    const number = ++this.#numbers
    return new Promise((resolve, reject) => {
      this.#waiting.set(number, { resolve, reject })
      this.#worker.postMessage({ ...request, number })
    })
  }

  #settle(answer: CatalogueAnswer): void {
    const waiter = this.#waiting.get(answer.number)
    this.#waiting.delete(answer.number)
    this.#noteRecovering(answer)
    if (answer.error === undefined) {
      waiter?.resolve(answer)
      return
    }
    const fault = faultOfCatalogue(answer.error, answer)
    if (fault.code === 'CORRUPT' && answer.number > 0) this.#noteDamage(fault)
    waiter?.reject(fault)
  }

  #noteRecovering({ recovering, error }: CatalogueAnswer): void {
    if (recovering === this.recovering) return
    this.recovering = recovering
    if (recovering)
      this.#log.error({ error }, 'the catalogue accepts no writes; it is reopened once possible')
    else this.#log.info({}, 'the catalogue was reopened')
  }

  #noteDamage(fault: BlobFault): void {
    if (this.damage !== undefined) return
    this.damage = fault
    this.#log.error(
      { error: fault.message },
      'the catalogue is damaged; the next start rebuilds it from the extents',
    )
    this.#marking = this.#markDamaged().catch((error: Error) =>
      this.#log.error({ error: error.message }, 'the damaged catalogue could not be marked'),
    )
  }

  async #markDamaged(): Promise<void> {
    await using mark = await open(join(this.path, damageMark), 'w', 0o600)
    await mark.sync()
    await using directory = await open(this.path, 'r')
    await directory.sync()
  }

  #end(error: Error): void {
    this.#ended ??= error
    for (const { reject } of this.#waiting.values()) reject(this.#ended)
    this.#waiting.clear()
  }
}

type DistributiveOmit<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never

/** A shortage of the machine, or a disk failure, says nothing about the stored bytes. */
const passing = /too many open files|cannot allocate memory|input\/output error/i

function faultOfCatalogue(error: string, { isClosed = false }: Partial<CatalogueAnswer> = {}): BlobFault {
  const message = isClosed
    ? `the catalogue cannot be opened, and is tried again: ${error}`
    : `the catalogue: ${error}`
  if (/no space left|quota exceeded/i.test(error)) return new BlobFault('FULL', message)
  if (!passing.test(error) && /corruption|checksum mismatch/i.test(error))
    return new BlobFault('CORRUPT', message)
  return new BlobFault(isClosed ? 'UNAVAILABLE' : 'IO', message)
}

function translate(error: Error, path: string): Error {
  const { message } = error
  if ((error as Partial<BlobFault>).code === 'FULL') return error
  if (/\block\b/i.test(message))
    // not a block's checksum
    return new BlobFault('UNAVAILABLE', `${path} is in use by another process`, { cause: error })
  if (
    !passing.test(message) &&
    /corrupt|checksum|bad |missing|malformed|no such file|not found/i.test(message)
  )
    return new BlobFault('CORRUPT', `${path} cannot be read: ${message}`, { cause: error })
  return error
}
