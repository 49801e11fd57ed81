/**
 * Request ids: 16 bytes, one effect each. Minted ids begin with the time (6 bytes, big-endian
 * milliseconds), so that an account can refuse ids older than the outcomes it still remembers. Ids
 * chosen by a client (Idempotency-Key) begin with six 0xff bytes, followed by 10 bytes of the key's
 * SHA-256, and may add 8 bytes: a digest of the request, which detects a key that is reused for
 * another request.
 */
import { createHash, randomUUID } from 'node:crypto'
import { bytesOfUuid } from './ids.ts'

export function mintRequestId(nowMs: number): Buffer {
  // Node draws randomness for UUIDs in blocks: a tenth of the cost of 16 bytes alone.
  const id = bytesOfUuid(randomUUID())
  id.writeUIntBE(nowMs, 0, 6)
  return id
}

const idBytes = 16
const askedBytes = 8

/**
 * @param asked a digest of the request, keyed where that is secret; 8 bytes of it are used. Absent:
 *   it is not compared.
 */
export function requestIdOfKey(idempotencyKey: string, asked?: Uint8Array): Buffer {
  const id = createHash('sha256').update(idempotencyKey).digest().subarray(0, idBytes)
  id.fill(0xff, 0, 6)
  return asked === undefined ? id : Buffer.concat([id, asked.subarray(0, askedBytes)])
}

/** The part that identifies the request. */
export function nameOfRequest(id: Uint8Array): Uint8Array {
  return id.subarray(0, idBytes)
}

/** False when the two are known to be different requests under one name. */
export function asksTheSame(one: Uint8Array, other: Uint8Array): boolean {
  if (one.length === idBytes || other.length === idBytes) return true
  return Buffer.compare(one.subarray(idBytes), other.subarray(idBytes)) === 0
}

/** Whether it is a minted or a chosen id: other bytes are no request id. */
export function isRequestId(id: Uint8Array): boolean {
  return id.length === idBytes || (id.length === idBytes + askedBytes && requestTime(id) === undefined)
}

/** Unix milliseconds at which a minted id was made; undefined for an id chosen by a client. */
export function requestTime(id: Uint8Array): number | undefined {
  const time = Buffer.from(id.buffer, id.byteOffset, 16).readUIntBE(0, 6)
  return time === 0xffffffffffff ? undefined : time
}
