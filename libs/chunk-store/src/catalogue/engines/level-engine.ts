import { crc32 } from '@node-rs/crc32'
import { ClassicLevel } from 'classic-level'
import type { CatalogueRange, Engine, Values } from './engine.ts'
import { verifyLevelFiles } from './level-files.ts'

const MiB = 1024 * 1024
const checksumBytes = 4

/**
 * LevelDB, where RocksDB has no binding. It does not verify what it reads from tables, and skips
 * what is damaged in its log. So each value carries a checksum of its row, and all files are
 * verified before they are opened: a missing row would be taken for a copy that was deleted.
 */
export class LevelEngine implements Engine {
  readonly #path: string
  #opened: Level | undefined

  constructor(path: string) {
    this.#path = path
  }

  async open(): Promise<void> {
    await verifyLevelFiles(this.#path)
    // Made here: it opens itself soon after.
    this.#opened = makeLevel(this.#path)
    await this.#opened.open()
  }

  get #db(): Level {
    if (this.#opened === undefined) throw new Error('LevelDB is not open')
    return this.#opened
  }

  async getMany(keys: readonly Buffer[]): Promise<Values> {
    const values = await this.#db.getMany(keys as Buffer[])
    return values.map((value, n) => value && openValue(keys[n] as Buffer, value))
  }

  async write(changes: readonly (Buffer | undefined)[], sync: boolean): Promise<void> {
    const batch = []
    for (let n = 0; n < changes.length; n += 2) {
      const key = changes[n] as Buffer
      const value = changes[n + 1]
      batch.push(
        value === undefined
          ? { type: 'del' as const, key }
          : { type: 'put' as const, key, value: sealValue(key, value) },
      )
    }
    await this.#db.batch(batch, { sync })
  }

  async scan({ from, after, until, limit }: CatalogueRange): Promise<[Buffer, Buffer][]> {
    const begin = after === undefined ? { gte: from } : { gt: after }
    const rows = await this.#db.iterator({ ...begin, lt: until, limit }).all()
    return rows.map(([key, value]) => [key, openValue(key, value)])
  }

  async close(): Promise<void> {
    await this.#opened?.close()
  }
}

type Level = ReturnType<typeof makeLevel>

function makeLevel(path: string) {
  return new ClassicLevel<Buffer, Buffer>(path, {
    keyEncoding: 'buffer',
    valueEncoding: 'buffer',
    compression: false,
    cacheSize: 32 * MiB,
    writeBufferSize: 8 * MiB,
    // Fewer descriptors than with its 2 MiB.
    maxFileSize: 16 * MiB,
  })
}

function sealValue(key: Buffer, value: Buffer): Buffer {
  const checksum = Buffer.allocUnsafe(checksumBytes)
  checksum.writeUInt32LE(crc32(value, crc32(key)))
  return Buffer.concat([value, checksum])
}

/** @throws Error with `Corruption` in its message: that is how callers recognise damage. */
function openValue(key: Buffer, sealedValue: Buffer): Buffer {
  const end = sealedValue.length - checksumBytes
  const value = sealedValue.subarray(0, Math.max(0, end))
  if (end < 0 || sealedValue.readUInt32LE(end) !== crc32(value, crc32(key)))
    throw new Error('Corruption: checksum mismatch in a row')
  return value
}
