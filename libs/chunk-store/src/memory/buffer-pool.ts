/**
 * Memory that the bytes of an upload are copied into once: a hash worker reads it, and the device
 * reads it. Pages of a shared `WebAssembly.Memory` are the only page-aligned and shareable memory
 * that Node has, which O_DIRECT needs.
 *
 * A buffer is a block for a record's header and 1 MiB for its payload. All uploads share the
 * buffers. An upload that finds none free waits, and the owner of a partly filled one is asked to
 * release it.
 */
import { blockBytes, recordBytesMax } from '../format.ts'

export const bufferBytes = blockBytes + recordBytesMax
const pageBytes = 64 * 1024
/**
 * Time between two looks at partly filled buffers while uploads wait, ms. A holder that receives no
 * byte for one to two of these intervals releases its buffer.
 */
const lookMs = 10

/** Runs once after this many milliseconds; its result is ignored. */
export type DelayedCall = (run: () => void, ms: number) => unknown

export interface PooledBuffer {
  /** Where the buffer begins in the shared memory. */
  readonly start: number
  readonly all: Buffer
  readonly payload: Buffer
  /** Copies bytes, at least one, to this place of the payload. */
  put(bytes: Buffer, at: number): void
}

export class BufferPool {
  /** Shared. */
  readonly memory: WebAssembly.Memory
  readonly #free: PooledBuffer[] = []
  /** In line; a released buffer goes to the first. */
  readonly #waiting: ((buffer: PooledBuffer | undefined) => void)[] = []
  /**
   * Holders of partly filled buffers, the longest holder first, and their progress at the last
   * look.
   */
  readonly #partial = new Map<BufferHolder, number>()
  #looking = false
  readonly #after: DelayedCall

  /** @param buffers at least 4. */
  constructor(buffers: number, after: DelayedCall = setTimeout) {
    this.#after = after
    const pages = Math.ceil((buffers * bufferBytes) / pageBytes)
    this.memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true })
    for (let n = buffers - 1; n >= 0; n--) this.#free.push(this.#buffer(n * bufferBytes))
  }

  tryTake(): PooledBuffer | undefined {
    return this.#free.pop()
  }

  /** Waits in line for a buffer. Undefined when `cancelled` says so, before or after a wake-up. */
  async take(cancelled: () => boolean): Promise<PooledBuffer | undefined> {
    while (!cancelled()) {
      const buffer = this.#free.pop() ?? (await this.#wait())
      if (buffer === undefined) continue
      if (!cancelled()) return buffer
      this.give(buffer)
    }
    return undefined
  }

  give(buffer: PooledBuffer): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#free.push(buffer)
    else next(buffer)
  }

  /** Lets every waiter check again whether it is cancelled. */
  wakeAll(): void {
    for (const wake of this.#waiting.splice(0)) wake(undefined)
  }

  /** Registers the holder of a partly filled buffer, which may be asked to release it. */
  offer(holder: BufferHolder): void {
    this.#partial.set(holder, -1)
  }

  withdraw(holder: BufferHolder): void {
    this.#partial.delete(holder)
  }

  #wait(): Promise<PooledBuffer | undefined> {
    if (!this.#looking) this.#lookSoon()
    return new Promise<PooledBuffer | undefined>((resolve) => {
      this.#waiting.push(resolve)
    })
  }

  #lookSoon(): void {
    this.#looking = true
    this.#after(() => this.#look(), lookMs)
  }

  /** Holders without progress since the last look release their buffers, one for each waiter. */
  #look(): void {
    this.#looking = false
    if (this.#waiting.length > 0) this.#lookSoon()
    let wanted = this.#waiting.length
    for (const [holder, before] of [...this.#partial]) {
      if (wanted === 0) return
      if (holder.progress !== before) this.#partial.set(holder, holder.progress)
      else if (holder.giveUpBuffer()) wanted--
    }
  }

  #buffer(start: number): PooledBuffer {
    const payload = Buffer.from(this.memory.buffer, start + blockBytes, recordBytesMax)
    return {
      start,
      all: Buffer.from(this.memory.buffer, start, bufferBytes),
      payload,
      put(bytes, at) {
        // All but the first byte by memmove. A copy of the whole would be `set`, which copies into
        // shared memory byte by byte unless both sides are aligned alike: 0.26 instead of 0.04
        // CPU-s/GiB.
        payload[at] = bytes[0] as number
        bytes.copy(payload, at + 1, 1)
      },
    }
  }
}

export interface BufferHolder {
  /** Bytes so far. */
  readonly progress: number
  /**
   * Writes out or copies away the buffer's content, and releases it soon. False when it cannot now.
   */
  giveUpBuffer(): boolean
}
