import type { EngineName } from './engines/engine.ts'

/**
 * Where the copies are: a sorted map, all of whose content can be rebuilt from the extents. Batches
 * are applied in the given order; after a crash a prefix of them is there, at least up to the last
 * synced one.
 */
export interface Catalogue {
  /** Library of its files. */
  readonly engine?: EngineName
  /** The directory of its files. */
  readonly path?: string
  /** Its rows cannot be read, or it accepts none, because of damage. The next start rebuilds it. */
  readonly damage?: Error | undefined
  /** It does nothing more until the next start. */
  readonly failure?: Error | undefined
  /** It accepts no batch now, and is retried. */
  readonly recovering?: boolean
  /** The values of these keys, in the same order. */
  get(keys: readonly Buffer[]): Promise<(Buffer | undefined)[]>
  /** One atomic batch. With `sync`, it and all before it are durable when it resolves. */
  apply(changes: readonly CatalogueChange[], options: { sync: boolean }): Promise<void>
  /** Rows with the prefix after `after`, in key order, at most `limit`. */
  scan(prefix: Buffer, options: { after?: Buffer | undefined; limit: number }): Promise<CatalogueRow[]>
  /** Approximate bytes on disk. */
  diskBytes(): Promise<number>
  /** Again: no effect. */
  close(): Promise<void>
}

export interface CatalogueRow {
  key: Buffer
  value: Buffer
}

/** Without a value the key is deleted. */
export interface CatalogueChange {
  key: Buffer
  value: Buffer | undefined
}

/** First key after all keys with this prefix. */
export function behindPrefix(prefix: Buffer): Buffer {
  const end = Buffer.from(prefix)
  for (let at = end.length - 1; at >= 0; at--) {
    const byte = end[at] as number
    if (byte < 0xff) {
      end[at] = byte + 1
      return end.subarray(0, at + 1)
    }
  }
  return Buffer.alloc(64, 0xff)
}

/** In memory, for tests and stores without a disk. */
export class MemoryCatalogue implements Catalogue {
  readonly #rows: Map<string, Buffer>

  constructor(rows: Map<string, Buffer> = new Map()) {
    this.#rows = rows
  }

  async get(keys: readonly Buffer[]): Promise<(Buffer | undefined)[]> {
    return keys.map((key) => this.#rows.get(key.toString('latin1')))
  }

  async apply(changes: readonly CatalogueChange[], _options: { sync: boolean }): Promise<void> {
    for (const { key, value } of changes) {
      if (value === undefined) this.#rows.delete(key.toString('latin1'))
      else this.#rows.set(key.toString('latin1'), Buffer.from(value))
    }
  }

  async scan(prefix: Buffer, { after, limit }: { after?: Buffer | undefined; limit: number }) {
    const from = after?.toString('latin1')
    const start = prefix.toString('latin1')
    return [...this.#rows.keys()]
      .filter((key) => key.startsWith(start) && (from === undefined || key > from))
      .sort((a, b) => (a < b ? -1 : 1))
      .slice(0, limit)
      .map((key) => ({ key: Buffer.from(key, 'latin1'), value: this.#rows.get(key) as Buffer }))
  }

  async diskBytes(): Promise<number> {
    return 0
  }

  async close(): Promise<void> {}
}
