/**
 * The files under the store. The interface is small enough for tests to replace it: record every
 * write and sync, drop, tear and reorder what was not synced, refuse with ENOSPC or EIO.
 */
import type { FileRange } from './blocks.ts'
import type { PassRequest, SpliceResult } from './splice-sender.ts'

export interface Disk {
  /** Makes the directory and all missing parents; its entry is durable when it resolves. */
  makeDirectory(path: string): Promise<void>
  /** Names in a directory; none when it is missing. */
  list(path: string): Promise<string[]>
  /**
   * Opens for reading and writing. With `create`, makes an empty file when there is none; its entry
   * needs `syncDirectory`.
   * @param options.exclusive with `create`: EEXIST when there is one.
   */
  open(path: string, options: { create: boolean; exclusive?: boolean }): Promise<DiskFile>
  remove(path: string): Promise<void>
  /** Bytes the file occupies without holes; 0 when it is missing. */
  allocatedBytes(path: string): Promise<number>
  /** Makes the entries of a directory durable. */
  syncDirectory(path: string): Promise<void>
  /** Free bytes on the file system that holds this path, and its size. */
  space(path: string): Promise<{ freeBytes: number; totalBytes: number }>
  /** Whether files have `passOn`; known once the first of them is open. */
  sendsDirectly?(): boolean
  /** Releases everything beside the files. It may be used again. */
  close?(): void
}

export type PassOn = Omit<PassRequest, 'file'>

export interface DiskFile {
  /**
   * Fills `into` from `position` on, as far as there are bytes.
   * @returns how many there were.
   */
  read(into: Uint8Array, position: number): Promise<number>
  /**
   * Like `read`, but synchronous and only bytes that need no wait for the device: fewer bytes mean
   * that `read` is needed.
   */
  readCached?(into: Uint8Array, position: number): number
  /**
   * Sends a socket the bytes from a position on that `check` accepts: at once, without copying
   * them, and only bytes that need no wait for the device.
   * @returns undefined when nothing was sent: then `read` is needed.
   */
  passOn?(request: PassOn): SpliceResult | undefined
  /**
   * Like `read`, bypassing every cache of the host where possible. Address and length of `into` are
   * multiples of 4 KiB.
   */
  readUncached(into: Uint8Array, position: number): Promise<number>
  /** Writes all of it. Memory, position and length are multiples of 4 KiB. */
  write(bytes: Uint8Array, position: number): Promise<void>
  /** What was written before this call is durable when it resolves. */
  sync(): Promise<void>
  /**
   * Extends the file to the end of the range, with zeros where nothing was written. Reserves blocks
   * for the whole range, so that no write in it hits a full disk.
   * @returns false when the length is set without reserved blocks: the file system or the system
   *   cannot.
   * @throws ENOSPC: then the length is unchanged.
   */
  reserve(range: FileRange): Promise<boolean>
  /**
   * Releases the blocks of a range of multiples of 4 KiB: it reads as zeros then, and the file
   * keeps its length.
   * @param wasRead its pages may still be in transit to a socket (`passOn`), and must not change.
   * @returns `not now` when the disk had no block for that: part of it is already a hole.
   */
  discard(range: FileRange, options?: { wasRead?: boolean }): Promise<'done' | 'not now' | 'not here'>
  /** Shortens the file and releases the blocks behind the end. */
  truncate(bytes: number): Promise<void>
  size(): Promise<number>
  close(): Promise<void>
}
