/** The signature of capabilities. The first byte of what is signed tells their kinds apart. */
import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto'

/** A KeyObject is prepared once, not for each signature. */
export type CapabilityKey = Uint8Array | KeyObject

/** HMAC-SHA-256, truncated to 16 bytes. */
export function seal(key: CapabilityKey, signed: Uint8Array): Buffer {
  return createHmac('sha256', key).update(signed).digest().subarray(0, 16)
}

export function isSealed(key: CapabilityKey, signed: Uint8Array, mac: Uint8Array): boolean {
  return timingSafeEqual(seal(key, signed), mac)
}
