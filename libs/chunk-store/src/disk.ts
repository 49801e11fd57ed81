/**
 * The files under the store, so small that a test can stand in for it: record every write and sync,
 * drop, tear and reorder what was not synced, refuse with ENOSPC or EIO.
 */
import type { Range } from './blocks.ts'
import type { Passed, PassRequest } from './page-pipe.ts'

export interface Disk {
  /**
   * Makes the directory and whatever is missing above it; its entry is durable when it resolves.
   */
  makeDirectory(path: string): Promise<void>
  /** Names in a directory; none when it is missing. */
  list(path: string): Promise<string[]>
  /**
   * Opens for reading and writing. With `create`, an empty file is made when there is none; its
   * entry needs
   * `syncDirectory`.
   * @param options.exclusive with `create`: EEXIST when there is one.
   */
  open(path: string, options: { create: boolean; exclusive?: boolean }): Promise<DiskFile>
  remove(path: string): Promise<void>
  /** Bytes the file occupies, holes left out; 0 when it is missing. */
  allocatedBytes(path: string): Promise<number>
  /** Makes the entries of a directory durable. */
  syncDirectory(path: string): Promise<void>
  /** Bytes that can still be taken on the file system that holds this path, and its size. */
  space(path: string): Promise<{ freeBytes: number; totalBytes: number }>
  /** Whether files have `passOn`; known once the first of them is open. */
  sendsDirectly?(): boolean
  /** Lets go of what it holds beside the files. It may be used again. */
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
   * Like `read`, but at once and only what needs no waiting for the device: fewer bytes say that
   * `read` is needed.
   */
  readCached?(into: Uint8Array, position: number): number
  /**
   * Gives a socket what `check` finds right of the bytes from a position on: at once, without
   * copying them, and only what needs no waiting for the device.
   * @returns undefined when nothing was sent: then `read` is needed.
   */
  passOn?(request: PassOn): Passed | undefined
  /**
   * Like `read`, past every cache of the host where it can. `into` lies and is as long as multiples
   * of 4 KiB.
   */
  readUncached(into: Uint8Array, position: number): Promise<number>
  /** Writes all of it. Memory, position and length are multiples of 4 KiB. */
  write(bytes: Uint8Array, position: number): Promise<void>
  /** What was written before this began is durable when it resolves. */
  sync(): Promise<void>
  /**
   * Makes the file reach at least to the end of the range, zeros where nothing was written, and
   * takes blocks for all of the range, so that no write in there meets the end of the disk.
   * @returns false when it is as long, and has no blocks for that: the file system or the system
   * cannot.
   * @throws ENOSPC: then it is as long as before.
   */
  reserve(range: Range): Promise<boolean>
  /**
   * Gives back the blocks of a range of multiples of 4 KiB: it reads as zeros then, and the file
   * stays as long.
   * @param wasRead pages of it may still be on their way to a socket (`passOn`), and must stay what
   * they are.
   * @returns `not now` when the disk had no block for that: some of it is a hole already.
   */
  discard(range: Range, options?: { wasRead?: boolean }): Promise<'done' | 'not now' | 'not here'>
  /** Shortens the file; what was behind gives its blocks back. */
  truncate(bytes: number): Promise<void>
  size(): Promise<number>
  close(): Promise<void>
}
