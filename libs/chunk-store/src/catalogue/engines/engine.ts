/**
 * The interface of a library for the catalogue's thread: a sorted map of bytes on disk, in one
 * directory that it locks. Each call comes after the previous one's end.
 */
export interface Engine {
  /** @throws when the directory is locked by another process, is damaged, or has no room. */
  open(): Promise<void>
  /** In the order of the keys. */
  getMany(keys: readonly Buffer[]): Values | Promise<Values>
  /**
   * One atomic batch: key, value, key, value …; without a value the key is deleted. After a failure
   * it accepts nothing more until it is opened again, but can be read.
   */
  write(changes: readonly (Buffer | undefined)[], sync: boolean): void | Promise<void>
  scan(range: CatalogueRange): Promise<[key: Buffer, value: Buffer][]>
  close(): Promise<void>
}

export type Values = (Buffer | undefined)[]

export interface CatalogueRange {
  from: Buffer
  /** Instead of `from`: begins behind it. */
  after: Buffer | undefined
  until: Buffer
  limit: number
}

export const engineNames = ['rocksdb', 'level'] as const
export type EngineName = (typeof engineNames)[number]
