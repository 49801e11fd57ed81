/**
 * Requests beyond the bus' bound (manifests of large imports) are sent in parts: transfer id (16
 * bytes), index and count (4 bytes each, big-endian), then the bytes. Sent one after the other; all
 * but the last get an empty answer, the last the reply. A host that lacks the parts before (another
 * one took over, or it dropped them) answers `unavailable`, and the sender restarts.
 */
import { maxMessageBytes } from '@holdfast/bus'
import type { Clock } from '@holdfast/kernel'
import { LRUCache } from 'lru-cache'

const headBytes = 24
const partBytes = maxMessageBytes - headBytes

/** One request, and all incomplete ones of a host. */
export const requestBytesMax = 32 * 1024 * 1024
const unfinishedBytesMax = 128 * 1024 * 1024
const unfinishedMs = 30_000

export function* cutRequest(message: Uint8Array, transfer: Uint8Array): Generator<Uint8Array> {
  const count = Math.ceil(message.length / partBytes)
  if (message.length > requestBytesMax) {
    throw new RangeError(`a request of ${message.length} bytes is beyond ${requestBytesMax}`)
  }
  for (let index = 0; index < count; index++) {
    const head = Buffer.alloc(headBytes)
    head.set(transfer.subarray(0, 16))
    head.writeUInt32BE(index, 16)
    head.writeUInt32BE(count, 20)
    yield Buffer.concat([head, message.subarray(index * partBytes, (index + 1) * partBytes)])
  }
}

interface PartialRequest {
  parts: Uint8Array[]
  bytes: number
}

export type JoinedPart = 'more' | 'unknown' | Uint8Array

/** The receiving side; bounded by bytes and time. */
export class RequestJoiner {
  readonly #unfinished: LRUCache<string, PartialRequest>

  constructor(clock: Clock) {
    this.#unfinished = new LRUCache({
      maxSize: unfinishedBytesMax,
      sizeCalculation: ({ bytes }) => bytes,
      ttl: unfinishedMs,
      ttlResolution: 0,
      perf: { now: () => clock.monotonic() + 1 },
    })
  }

  /**
   * @returns the whole request with its last part; `unknown` when earlier parts are missing or the
   *   bounds are exceeded.
   */
  add(message: Uint8Array): JoinedPart {
    if (message.length <= headBytes) return 'unknown'
    const head = Buffer.from(message.buffer, message.byteOffset, headBytes)
    const transfer = head.toString('hex', 0, 16)
    const index = head.readUInt32BE(16)
    const count = head.readUInt32BE(20)
    const { parts, bytes } = this.#unfinished.get(transfer) ?? { parts: [], bytes: 0 }
    this.#unfinished.delete(transfer)
    const body = message.subarray(headBytes)
    const inPlace = index === parts.length && index < count && bytes + body.length <= requestBytesMax
    if (!inPlace) return 'unknown'
    const joined = { parts: [...parts, body], bytes: bytes + body.length }
    if (index === count - 1) return Buffer.concat(joined.parts)
    this.#unfinished.set(transfer, joined)
    return 'more'
  }
}
