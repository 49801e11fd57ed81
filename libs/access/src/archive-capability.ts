/**
 * The capability in the link of an archive. It records which contents a visitor asked for, under
 * which passwords, and when it expires.
 *
 * | offset | bytes | what |
 * |---|---|---|
 * | 0 | 1 | version 2; 1 is the capability of a file's link |
 * | 1 | 1 | number of passwords |
 * | 2 | 4 | expiry, Unix seconds, big-endian |
 * | 6 | 16 each | salts of the passwords that were checked |
 * | then | 16 each | ids of the contents |
 * | then | 16 | HMAC-SHA-256 of the bytes before it, truncated |
 *
 * It proves only what was true when it was issued. The owner's actor still decides each download.
 */
import { archiveContentsMax, bytesOfUuid, uuidOfBytes } from '@holdfast/kernel'
import { type CapabilityKey, isSealed, seal } from './capability-seal.ts'

export interface ArchiveCapability {
  /** 1 … `archiveContentsMax`, of one account. */
  contentIds: readonly string[]
  /** Salts of 16 bytes. */
  passwordVersions: readonly Uint8Array[]
  /** Unix seconds. */
  ends: number
}

const headBytes = 6
const macBytes = 16
const partBytes = 16
const version = 2
const passwordsMax = 255
const charactersMax = Math.ceil(
  ((headBytes + (passwordsMax + archiveContentsMax) * partBytes + macBytes) * 4) / 3,
)

export function signArchiveCapability(
  key: CapabilityKey,
  { contentIds, passwordVersions, ends }: ArchiveCapability,
): string {
  const head = Buffer.alloc(headBytes)
  head[0] = version
  head[1] = passwordVersions.length
  head.writeUInt32BE(Math.min(ends, 0xffffffff), 2)
  const signed = Buffer.concat([head, ...passwordVersions, ...contentIds.map(bytesOfUuid)])
  return Buffer.concat([signed, seal(key, signed)]).toString('base64url')
}

/** The capability, or undefined when it is forged, damaged or expired. */
export function verifyArchiveCapability(
  key: CapabilityKey,
  text: string,
  nowSeconds: number,
): ArchiveCapability | undefined {
  if (text.length > charactersMax || !/^[A-Za-z0-9_-]+$/.test(text)) return undefined
  const bytes = Buffer.from(text, 'base64url')
  const signed = bytes.subarray(0, -macBytes)
  const partsBytes = signed.length - headBytes
  if (signed[0] !== version || partsBytes < partBytes || partsBytes % partBytes !== 0) return undefined
  if (!isSealed(key, signed, bytes.subarray(-macBytes))) return undefined
  const ends = signed.readUInt32BE(2)
  if (nowSeconds >= ends) return undefined
  const parts: Buffer[] = []
  for (let at = headBytes; at < signed.length; at += partBytes)
    parts.push(signed.subarray(at, at + partBytes))
  const passwords = signed[1] as number
  return {
    contentIds: parts.slice(passwords).map(uuidOfBytes),
    passwordVersions: parts.slice(0, passwords),
    ends,
  }
}
