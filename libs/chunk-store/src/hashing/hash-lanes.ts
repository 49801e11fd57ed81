/**
 * Blob ids of several streams in one thread: md5 of up to four at a time side by side
 * (md5-module.ts), BLAKE3 of each while its bytes are in the cache.
 *
 * Requests of a stream are processed in order, streams in turn. All lanes advance by the same
 * number of blocks, as far as the shortest has bytes. A stream's last bytes wait for more, or for
 * its end, in a separate block.
 */

import { blobIdBytes } from '@holdfast/kernel'
import { Blake3Hasher } from '@napi-rs/blake-hash'
import { digestRequest, dropRequest, type HashAnswer, type HashRequest, laneCount } from './hashing.ts'
import { type Md5Kernel, md5BlockBytes, md5Kernel, md5Start } from './md5-module.ts'

/** Bytes per stream and step: small enough that BLAKE3 finds them in the cache. */
const sliceBytes = 64 * 1024
/** Position of the length in the last block. */
const lengthOffset = md5BlockBytes - 8
const stateWords = md5Start.length

export class HashLanes {
  readonly #data: Buffer
  readonly #ofData: Md5Kernel
  /** For a block in the private memory. */
  readonly #ofBlock: Md5Kernel
  readonly #states: Int32Array
  readonly #block: Buffer
  readonly #blockAt: number
  readonly #streams = new Map<number, Stream>()
  /** Streams with bytes to hash, the longest waiting first. */
  readonly #ready: Stream[] = []
  readonly #now: () => number
  #answers: HashAnswer[] = []

  /** @param memory shared; requests point into it. */
  constructor(memory: WebAssembly.Memory, now: () => number = () => performance.now()) {
    this.#now = now
    const own = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true })
    this.#data = Buffer.from(memory.buffer)
    this.#ofData = md5Kernel(memory, own)
    this.#ofBlock = md5Kernel(own, own)
    this.#states = new Int32Array(own.buffer, 0, laneCount * stateWords)
    this.#blockAt = this.#states.byteLength
    this.#block = Buffer.from(own.buffer, this.#blockAt, md5BlockBytes)
  }

  /** Streams that have bytes to hash now. */
  get ready(): number {
    return this.#ready.length
  }

  /** Since when bytes wait, by `now`; undefined when none do. */
  get waitingSince(): number | undefined {
    let oldest: number | undefined
    for (const { parts } of this.#ready)
      oldest = Math.min(oldest ?? Number.POSITIVE_INFINITY, (parts[0] as Part).since)
    return oldest
  }

  ask([name, start, bytes]: HashRequest): void {
    const stream = this.#streams.get(name) ?? new Stream(name)
    this.#streams.set(name, stream)
    if (start === dropRequest) {
      for (const _ of [...stream.parts, 'drop']) this.#answers.push([name, 0])
      stream.parts = []
      const at = this.#ready.indexOf(stream)
      if (at >= 0) this.#ready.splice(at, 1)
      this.#streams.delete(name)
    } else if (start === digestRequest) {
      stream.wantsDigest = true
      if (stream.parts.length === 0) this.#finish(stream)
    } else if (stream.parts.push({ at: start, end: start + bytes, since: this.#now() }) === 1)
      this.#ready.push(stream)
  }

  /** Hashes up to the end of a request, in every lane; does nothing when nothing is ready. */
  step(): void {
    const lanes = this.#ready
      .splice(0, laneCount)
      .map((stream) => ({ stream, part: stream.parts[0] as Part }))
    // Streams of this step may have been dropped meanwhile.
    if (lanes.length === 0) return
    for (const { stream, part } of lanes) this.#fillBlock(stream, part)
    const blocks = Math.min(...lanes.map(({ part }) => Math.floor((part.end - part.at) / md5BlockBytes)))
    for (let left = blocks * md5BlockBytes; left > 0; left -= sliceBytes)
      this.#advance(lanes, Math.min(left, sliceBytes))
    for (const { stream, part } of lanes) this.#keepRest(stream, part)
  }

  /** The new answers since the last call. */
  answers(): HashAnswer[] {
    const answers = this.#answers
    this.#answers = []
    return answers
  }

  /** Advances all lanes by the same number of whole blocks. */
  #advance(lanes: readonly HashLane[], bytes: number): void {
    const [first, second = first, third = first, fourth = first] = lanes
    if (first === undefined || second === undefined || third === undefined || fourth === undefined) return
    const blocks = bytes / md5BlockBytes
    const states = this.#states
    if (lanes.length === 1) {
      states.set(first.stream.state)
      this.#ofData.one(first.part.at, blocks, 0)
      first.stream.state.set(states.subarray(0, stateWords))
    } else {
      for (let lane = 0; lane < lanes.length; lane++)
        for (let word = 0; word < stateWords; word++)
          states[word * laneCount + lane] = lanes[lane]?.stream.state[word] as number
      this.#ofData.four(first.part.at, second.part.at, third.part.at, fourth.part.at, blocks, 0)
      for (let lane = 0; lane < lanes.length; lane++)
        for (let word = 0; word < stateWords; word++)
          (lanes[lane] as HashLane).stream.state[word] = states[word * laneCount + lane] as number
    }
    for (const { stream, part } of lanes) this.#pass(stream, part, bytes)
  }

  /** These bytes are in the md5, or in the stream's separate block. */
  #pass(stream: Stream, part: Part, bytes: number): void {
    stream.blake3.update(this.#data.subarray(part.at, part.at + bytes))
    stream.bytes += bytes
    part.at += bytes
  }

  /** Bytes that wait for the rest of their block come first. */
  #fillBlock(stream: Stream, part: Part): void {
    if (stream.waiting === 0) return
    const bytes = Math.min(md5BlockBytes - stream.waiting, part.end - part.at)
    this.#setAside(stream, part, bytes)
    if (stream.waiting < md5BlockBytes) return
    this.#block.set(stream.block)
    this.#hashBlock(stream)
    stream.waiting = 0
  }

  #keepRest(stream: Stream, part: Part): void {
    const rest = part.end - part.at
    if (rest >= md5BlockBytes) {
      this.#ready.push(stream)
      return
    }
    if (rest > 0) this.#setAside(stream, part, rest)
    stream.parts.shift()
    this.#answers.push([stream.name, 0])
    if (stream.parts.length > 0) this.#ready.push(stream)
    else if (stream.wantsDigest) this.#finish(stream)
  }

  #setAside(stream: Stream, part: Part, bytes: number): void {
    this.#data.copy(stream.block, stream.waiting, part.at, part.at + bytes)
    stream.waiting += bytes
    this.#pass(stream, part, bytes)
  }

  #hashBlock(stream: Stream): void {
    this.#states.set(stream.state)
    this.#ofBlock.one(this.#blockAt, 1, 0)
    stream.state.set(this.#states.subarray(0, stateWords))
  }

  #finish(stream: Stream): void {
    const block = this.#block
    block.fill(0)
    block.set(stream.block.subarray(0, stream.waiting))
    block[stream.waiting] = 0x80
    if (stream.waiting >= lengthOffset) {
      this.#hashBlock(stream)
      block.fill(0)
    }
    block.writeBigUInt64LE(BigInt(stream.bytes) * 8n, lengthOffset)
    this.#hashBlock(stream)
    const id = Buffer.alloc(blobIdBytes)
    stream.state.forEach((word, n) => {
      id.writeInt32LE(word, 4 * n)
    })
    id.set(stream.blake3.digestBuffer(), 4 * stateWords)
    this.#streams.delete(stream.name)
    this.#answers.push([stream.name, id])
  }
}

interface Part {
  at: number
  end: number
  since: number
}

interface HashLane {
  stream: Stream
  part: Part
}

class Stream {
  readonly name: number
  readonly state = Int32Array.from(md5Start)
  readonly blake3 = new Blake3Hasher()
  /** The first bytes of an incomplete block. */
  readonly block = Buffer.alloc(md5BlockBytes)
  waiting = 0
  bytes = 0
  parts: Part[] = []
  wantsDigest = false

  constructor(name: number) {
    this.name = name
  }
}
