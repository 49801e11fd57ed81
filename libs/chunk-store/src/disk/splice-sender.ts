/**
 * From the page cache to a socket: verified, and not copied. `splice` puts the pages of a file into
 * a pipe, which holds them. `tee` puts the same pages into a second pipe, from which they are read
 * for their checksums. `splice` then attaches the correct ones to the socket. So exactly the
 * verified pages are sent, also if the file's cache changes meanwhile. What the socket does not
 * accept is read from the pipe.
 *
 * Pages in transit, such as those in the queue of a slow client, are not copied. A write past the
 * page cache removes the old page from the cache and leaves the page itself unchanged; `keeps`
 * tests that. A write through the page cache by another process would change pages in transit.
 */
import { closeSync, readSync, writeSync } from 'node:fs'
import { createRequire } from 'node:module'
import { cachedRead } from './page-cache.ts'

export interface PassRequest {
  file: number
  /** Where the range to verify begins, a multiple of 4 KiB. */
  position: number
  /** Bytes of the range to verify, at most 1 MiB. */
  length: number
  /** This many of them are skipped, … */
  skipped: number
  /** … and this many after them are sent. */
  wanted: number
  /** A non-blocking socket without pending output. */
  socket: number
  /** Whether the range is correct: `read` returns its next bytes until there are no more. */
  check(read: HeldRead): boolean
  /** For bytes that the socket does not accept; `length` bytes or more. */
  into: Uint8Array
}

/** The next bytes, at most `pieceBytes`, valid until the next call. */
export type HeldRead = (length: number) => Buffer

export interface SpliceResult {
  /** Bytes that the socket accepted. */
  count: number
  /** At the beginning of `into`: the rest of the requested bytes, also verified. */
  rest: number
}

interface Calls {
  pipe2(descriptors: Int32Array, flags: number): number
  fcntl(fd: number, command: number, value: number): number
  splice(
    from: number,
    position: BigInt64Array | null,
    to: number,
    none: null,
    length: number,
    flags: number,
  ): number
  tee(from: number, to: number, length: number, flags: number): number
  read(from: number, into: Uint8Array, length: number): number
  syscall(number: number, fd: number, range: BigUint64Array, counts: BigUint64Array, flags: number): number
}

const closeOnExec = 0o2000000
const setPipeSize = 1031
/** Room for 256 pages. */
const pipeBytes = 1024 * 1024
const nonblock = 2
/** The call that counts a range's pages in memory: Linux 6.5 and later, on every processor. */
const cachestat = 451
const pageBytes = 4096
/** Bytes per read. */
const pieceBytes = 64 * 1024
/** Read-ahead ends in pieces of this size or more. */
const probeBytes = 128 * 1024

interface Pipe {
  read: number
  write: number
}

interface Pipes {
  sending: Pipe
  checking: Pipe
}

export class SpliceSender {
  readonly #calls: Calls
  /** The same memory for each read: it stays in the processor's cache. */
  readonly #piece = Buffer.allocUnsafeSlow(pieceBytes)
  readonly #probe = Buffer.allocUnsafeSlow(1)
  readonly #range = new BigUint64Array(2)
  readonly #counts = new BigUint64Array(5)
  readonly #position = new BigInt64Array(1)
  #pipes: Pipes | undefined

  /** Undefined where the calls do not exist. */
  static create(): SpliceSender | undefined {
    const calls = process.platform === 'linux' ? load() : undefined
    return calls && new SpliceSender(calls)
  }

  private constructor(calls: Calls) {
    this.#calls = calls
  }

  /**
   * Completes before it returns. @returns undefined when the device would be needed, or the bytes
   * are wrong.
   */
  pass({
    file,
    position,
    length,
    skipped,
    wanted,
    socket,
    check,
    into,
  }: PassRequest): SpliceResult | undefined {
    const pipes = this.#isCached(file, position, length) ? this.#open() : undefined
    if (pipes === undefined) return undefined
    const { sending, checking } = pipes
    let isEmpty = false
    try {
      this.#position[0] = BigInt(position)
      if (this.#calls.splice(file, this.#position, sending.write, null, length, nonblock) !== length)
        return undefined
      if (this.#calls.tee(sending.read, checking.write, length, nonblock) !== length) return undefined
      if (!check((count) => this.#read(checking.read, count))) return undefined
      if (skipped > 0) this.#drain(sending.read, into, skipped)
      const count = Math.max(0, this.#calls.splice(sending.read, null, socket, null, wanted, nonblock))
      this.#drain(sending.read, into, length - skipped - count)
      isEmpty = true
      return { count, rest: wanted - count }
    } finally {
      if (!isEmpty) this.close()
    }
  }

  /**
   * Whether held pages stay unchanged when other bytes are written to their place.
   * @param file and @param direct are the same, empty one.
   */
  keeps({ file, direct, block }: { file: number; direct: number; block: Uint8Array }): boolean {
    const found = new Uint8Array(block.length)
    const length = block.length
    writeSync(direct, block.fill(1), 0, length, 0)
    readSync(file, found, 0, length, 0)
    const check = (read: HeldRead) =>
      writeSync(direct, block.fill(2), 0, length, 0) === length && read(length).length === length
    const whole = { position: 0, length, skipped: 0, wanted: length }
    const passed = this.pass({ file, ...whole, socket: -1, check, into: found.fill(0) })
    return passed?.rest === length && found.every((byte) => byte === 1)
  }

  /** It may be used again. */
  close(): void {
    const pipes = this.#pipes
    this.#pipes = undefined
    if (pipes === undefined) return
    closePipe(pipes.sending)
    closePipe(pipes.checking)
  }

  #read(pipe: number, count: number): Buffer {
    const bytes = count === pieceBytes ? this.#piece : this.#piece.subarray(0, count)
    if (this.#calls.read(pipe, bytes, count) !== count) throw new Error('a pipe lost bytes')
    return bytes
  }

  #drain(pipe: number, into: Uint8Array, count: number): void {
    for (let at = 0; at < count; ) at += readSync(pipe, into, at, count - at, null)
  }

  #isCached(file: number, position: number, length: number): boolean {
    this.#range[0] = BigInt(position)
    this.#range[1] = BigInt(length)
    const pages = Math.ceil((position + length) / pageBytes) - Math.floor(position / pageBytes)
    if (this.#calls.syscall(cachestat, file, this.#range, this.#counts, 0) !== 0) return false
    if (this.#counts[0] !== BigInt(pages)) return false
    // The count includes pages that are still being read ahead, which yield no byte yet.
    for (let at = position + length - 1; at >= position; at -= probeBytes)
      if (cachedRead?.(file, this.#probe, at) !== 1) return false
    return true
  }

  #open(): Pipes | undefined {
    if (this.#pipes !== undefined) return this.#pipes
    const sending = this.#pipe()
    const checking = sending && this.#pipe()
    if (sending === undefined || checking === undefined) {
      if (sending !== undefined) closePipe(sending)
      return undefined
    }
    this.#pipes = { sending, checking }
    return this.#pipes
  }

  #pipe(): Pipe | undefined {
    const ends = new Int32Array(2)
    if (this.#calls.pipe2(ends, closeOnExec) !== 0) return undefined
    const [read, write] = ends as unknown as [number, number]
    const pipe = { read, write }
    if (this.#calls.fcntl(write, setPipeSize, pipeBytes) >= pipeBytes) return pipe
    closePipe(pipe)
    return undefined
  }
}

function closePipe({ read, write }: Pipe): void {
  closeSync(read)
  closeSync(write)
}

function load(): Calls | undefined {
  try {
    const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi')
    const library = koffi.load(null)
    const splice = ['int', 'void *', 'int', 'void *', 'size_t', 'uint']
    return {
      pipe2: library.func('pipe2', 'int', ['void *', 'int']),
      fcntl: library.func('fcntl', 'int', ['int', 'int', 'int']),
      splice: library.func('splice', 'int64_t', splice),
      tee: library.func('tee', 'int64_t', ['int', 'int', 'size_t', 'uint']),
      read: library.func('read', 'int64_t', ['int', 'void *', 'size_t']),
      syscall: library.func('syscall', 'int64_t', ['int64_t', 'int', 'void *', 'void *', 'uint']),
    } as unknown as Calls
  } catch {
    return undefined
  }
}
