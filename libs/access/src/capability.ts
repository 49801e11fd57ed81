/**
 * The capability in a download link. It records who received the link, under which password or
 * token, and when it expires.
 *
 * | offset | bytes | what |
 * |---|---|---|
 * | 0 | 1 | version 1 |
 * | 1 | 1 | flags: 1 = given to the owner |
 * | 2 | 16 | id of the folder whose file the link names |
 * | 18 | 4 | expiry, Unix seconds, big-endian |
 * | 22 | 4 | owner: token counter; visitor: 0 |
 * | 26 | 16 | visitor: salt of the password that was checked; zero: none was set |
 * | 42 | 16 | HMAC-SHA-256 of the bytes before it, truncated |
 *
 * One capability serves every file directly in the folder. It proves only what was true when it was
 * issued. The owner's actor still decides each download.
 */
import { bytesOfUuid, uuidOfBytes } from '@holdfast/kernel'
import { type CapabilityKey, isSealed, seal } from './capability-seal.ts'

export interface Capability {
  folderId: string
  /** Unix seconds. */
  ends: number
  /** Present when it was issued to the owner. */
  ownerTokenCounter: number | undefined
  /** 16 bytes, or empty when the folder had no password. */
  passwordVersion: Uint8Array
}

const signedBytes = 42
const bytesInAll = 58

export function signCapability(key: CapabilityKey, capability: Capability): string {
  const bytes = Buffer.alloc(bytesInAll)
  bytes[0] = 1
  bytes[1] = capability.ownerTokenCounter === undefined ? 0 : 1
  bytes.set(bytesOfUuid(capability.folderId), 2)
  bytes.writeUInt32BE(Math.min(capability.ends, 0xffffffff), 18)
  bytes.writeUInt32BE(capability.ownerTokenCounter ?? 0, 22)
  bytes.set(capability.passwordVersion, 26)
  bytes.set(seal(key, bytes.subarray(0, signedBytes)), signedBytes)
  return bytes.toString('base64url')
}

/** The capability, or undefined when it is forged, damaged or expired. */
export function verifyCapability(
  key: CapabilityKey,
  text: string,
  nowSeconds: number,
): Capability | undefined {
  if (!/^[A-Za-z0-9_-]{78}$/.test(text)) return undefined
  const bytes = Buffer.from(text, 'base64url')
  if (bytes.length !== bytesInAll || bytes[0] !== 1) return undefined
  if (!isSealed(key, bytes.subarray(0, signedBytes), bytes.subarray(signedBytes))) return undefined
  const ends = bytes.readUInt32BE(18)
  if (nowSeconds >= ends) return undefined
  const version = bytes.subarray(26, signedBytes)
  return {
    folderId: uuidOfBytes(bytes.subarray(2)),
    ends,
    ownerTokenCounter: bytes[1] === 1 ? bytes.readUInt32BE(22) : undefined,
    passwordVersion: version.every((byte) => byte === 0) ? new Uint8Array(0) : version,
  }
}
