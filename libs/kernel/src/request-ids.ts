/**
 * Request ids: 16 bytes, one effect each. Minted ones begin with the time (6 bytes, big-endian milliseconds), so that
 * an account can refuse what is older than the outcomes it still remembers. Those a client chose (Idempotency-Key)
 * begin with six 0xff bytes, followed by 10 bytes of the key's SHA-256.
 */
import { createHash, randomUUID } from 'node:crypto'
import { bytesOfUuid } from './ids.ts'

export function mintRequestId(nowMs: number): Buffer {
  // Node draws randomness for UUIDs in blocks: a tenth of the cost of 16 bytes alone.
  const id = bytesOfUuid(randomUUID())
  id.writeUIntBE(nowMs, 0, 6)
  return id
}

export function requestIdOfKey(idempotencyKey: string): Buffer {
  const id = createHash('sha256').update(idempotencyKey).digest().subarray(0, 16)
  id.fill(0xff, 0, 6)
  return id
}

/** Unix milliseconds a minted id was made at; undefined for an id chosen by a client. */
export function requestTime(id: Uint8Array): number | undefined {
  const time = Buffer.from(id.buffer, id.byteOffset, 16).readUIntBE(0, 6)
  return time === 0xffffffffffff ? undefined : time
}
