import { createHash, hash } from 'node:crypto'

/** Parts that fit are hashed by one call. Nothing else runs while they are here. */
const joined = Buffer.alloc(4 * 1024)

/**
 * SHA-256 over the parts, 32 bytes in their own memory. Short input takes three quarters of the
 * time of `createHash`, or of `hash` with a buffer as result (bench/NOTES-small-uploads.md).
 */
export function sha256(parts: readonly Uint8Array[]): Buffer {
  let length = 0
  for (const part of parts) length += part.length
  if (length > joined.length) {
    const digest = createHash('sha256')
    for (const part of parts) digest.update(part)
    return digest.digest()
  }
  let at = 0
  for (const part of parts) {
    joined.set(part, at)
    at += part.length
  }
  // Not from the shared pool: a digest that stays would keep 8 KiB of it.
  const digest = Buffer.allocUnsafeSlow(32)
  digest.write(hash('sha256', joined.subarray(0, length), 'binary'), 'latin1')
  return digest
}
