import { crc32c } from '@node-rs/crc32'

/** Stored checksums are rotated and shifted, so that bytes with their checksum have another one. */
const maskDelta = 0xa282ead8

/** @param stored four bytes of the file, little-endian */
export function isChecksumOf(bytes: Buffer, stored: number): boolean {
  const rotated = (stored - maskDelta) >>> 0
  return ((rotated >>> 17) | (rotated << 15)) >>> 0 === crc32c(bytes)
}

/** As it is stored. */
export function checksumOf(bytes: Buffer): Buffer {
  const checksum = crc32c(bytes)
  const rotated = ((checksum >>> 15) | (checksum << 17)) >>> 0
  const stored = Buffer.alloc(4)
  stored.writeUInt32LE((rotated + maskDelta) >>> 0)
  return stored
}
