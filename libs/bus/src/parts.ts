/**
 * Replies in numbered parts.
 *
 * One message carries at most `maxMessageBytes`, but a listing or a manifest may be longer. So a
 * reply travels as parts, each in its own message, in any order and possibly twice:
 *
 * | offset | bytes | field |
 * |---|---|---|
 * | 0 | 2 | number of this part, from 0, big-endian |
 * | 2 | 2 | number of parts, at least 1 |
 * | 4 | rest | bytes of the reply; every part but the last is full |
 */
import { maxMessageBytes } from './bus.ts'
import { BusFault } from './errors.ts'

const headerBytes = 4
const partPayloadBytes = maxMessageBytes - headerBytes

/**
 * Bound of a whole reply: four times the longest listing (10,000 items of 1.5 KiB), so that no
 * caller collects without end.
 */
export const maxReplyBytes = 64 * 1024 * 1024

/**
 * Copies of the reply, cut to messages.
 * @throws BusFault `TOO_LARGE` beyond `maxReplyBytes`.
 */
export function splitReply(reply: Uint8Array): Uint8Array[] {
  if (reply.length > maxReplyBytes) {
    throw new BusFault('TOO_LARGE', `a reply of ${reply.length} bytes is beyond ${maxReplyBytes}`)
  }
  const count = Math.max(1, Math.ceil(reply.length / partPayloadBytes))
  return Array.from({ length: count }, (_, number) => {
    const payload = reply.subarray(number * partPayloadBytes, (number + 1) * partPayloadBytes)
    const part = Buffer.allocUnsafeSlow(headerBytes + payload.length)
    part.writeUInt16BE(number, 0)
    part.writeUInt16BE(count, 2)
    part.set(payload, headerBytes)
    return part
  })
}

/**
 * Collects the parts of one reply. A part that contradicts the others is dropped: the request then
 * times out.
 */
export class ReplyJoiner {
  readonly #payloads = new Map<number, Uint8Array>()
  #count: number | undefined

  /** @returns the whole reply with the last missing part, undefined before. */
  add(part: Uint8Array): Uint8Array | undefined {
    if (part.length < headerBytes || part.length > maxMessageBytes) return undefined
    const header = Buffer.from(part.buffer, part.byteOffset, headerBytes)
    const number = header.readUInt16BE(0)
    const count = header.readUInt16BE(2)
    this.#count ??= this.#plausible(count) ? count : undefined
    if (count !== this.#count || number >= count) return undefined
    const full = number === count - 1 || part.length === maxMessageBytes
    if (!full) return undefined
    this.#payloads.set(number, part.subarray(headerBytes))
    return this.#payloads.size === count ? this.#joined(count) : undefined
  }

  #plausible(count: number): boolean {
    return count >= 1 && count <= Math.ceil(maxReplyBytes / partPayloadBytes)
  }

  #joined(count: number): Uint8Array {
    const payloads = Array.from({ length: count }, (_, number) => this.#payloads.get(number) as Uint8Array)
    return payloads.length === 1 ? (payloads[0] as Uint8Array) : Buffer.concat(payloads)
  }
}
