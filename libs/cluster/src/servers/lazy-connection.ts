/**
 * The lookups of a region that may be unavailable when this process starts. Attempts to connect are
 * repeated. Until one succeeds, calls fail as unavailable.
 */
import { JournalFault, type LookupChange, type LookupRow, type LookupStore } from '@holdfast/journal'

const retryMs = 2_000

export class LazyConnection<Store extends { close(): Promise<void> }> {
  readonly #open: () => Promise<Store>
  #store: Store | undefined
  #trying: Promise<void>
  #timer: NodeJS.Timeout | undefined
  #closed = false

  constructor(open: () => Promise<Store>) {
    this.#open = open
    this.#trying = this.#try()
  }

  /** Undefined until it is open. */
  get now(): Store | undefined {
    return this.#store
  }

  /** Resolves after the first attempt, successful or not. */
  get tried(): Promise<void> {
    return this.#trying
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#timer)
    await this.#trying
    await this.#store?.close()
  }

  async #try(): Promise<void> {
    try {
      this.#store = await this.#open()
    } catch {
      if (this.#closed) return
      this.#timer = setTimeout(() => {
        this.#trying = this.#try()
      }, retryMs)
    }
  }
}

export class LazyLookups implements LookupStore {
  readonly #region: string
  readonly #connection: LazyConnection<{ lookups: LookupStore; close(): Promise<void> }>

  constructor(region: string, connection: LazyConnection<{ lookups: LookupStore; close(): Promise<void> }>) {
    this.#region = region
    this.#connection = connection
  }

  async write(changes: readonly LookupChange[], writeTime?: bigint): Promise<void> {
    return this.#store.write(changes, writeTime)
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    return this.#store.get(key)
  }

  async *scan(prefix: string, options?: { after?: string; limit?: number }): AsyncIterable<LookupRow> {
    yield* this.#store.scan(prefix, options)
  }

  async firstOf(prefixes: readonly string[]): Promise<(LookupRow | undefined)[]> {
    return this.#store.firstOf(prefixes)
  }

  async claim(key: string, value: Uint8Array): Promise<Uint8Array> {
    return this.#store.claim(key, value)
  }

  async take(counter: string, count: number): Promise<number> {
    return this.#store.take(counter, count)
  }

  get #store(): LookupStore {
    const store = this.#connection.now?.lookups
    if (store === undefined) throw new JournalFault('UNAVAILABLE', `${this.#region} cannot be reached`)
    return store
  }
}
