/**
 * A request for the bytes of many small copies, and its answer.
 *
 *   request: for each copy its id (48 bytes), incarnation (16) and size (u32); the header
 *             `holdfast-names` has the digest of all
 *   answer:   for each copy the CRC-32 of its bytes (u32) and their number (u32; 2^32 - 1: not
 *             readable here), then its bytes
 */

import { createHash } from 'node:crypto'
import { BlobFault, type BlobInfo, batchCopiesMax } from '@holdfast/blob-store'
import { blobIdBytes, incarnationBytes } from '@holdfast/kernel'
import { crc32 } from '@node-rs/crc32'

export const batchKey = 'holdfast-names'
const nameBytes = blobIdBytes + incarnationBytes + 4
export const batchRequestBytesMax = batchCopiesMax * nameBytes
const headBytes = 8
const notAtHand = 0xffff_ffff

export function digestOfNames(names: Uint8Array): string {
  return createHash('sha256').update(names).digest('base64url')
}

export function namesOf(copies: readonly BlobInfo[]): Buffer {
  const names = Buffer.alloc(copies.length * nameBytes)
  for (const [n, { id, incarnation, size }] of copies.entries()) {
    names.set(id, n * nameBytes)
    names.set(incarnation, n * nameBytes + blobIdBytes)
    names.writeUInt32LE(size, (n + 1) * nameBytes - 4)
  }
  return names
}

/** @throws BlobFault INVALID */
export function parseCopyNames(names: Buffer): BlobInfo[] {
  if (names.length % nameBytes !== 0) throw new BlobFault('INVALID', `names of ${names.length} bytes`)
  return Array.from({ length: names.length / nameBytes }, (_, n) => {
    const name = names.subarray(n * nameBytes, (n + 1) * nameBytes)
    return {
      id: name.subarray(0, blobIdBytes),
      incarnation: name.subarray(blobIdBytes, blobIdBytes + incarnationBytes),
      size: name.readUInt32LE(nameBytes - 4),
      crc32: 0,
      createdMs: 0,
      placementGroup: undefined,
      damaged: undefined,
    }
  })
}

export function batchAnswer(all: readonly (Uint8Array | undefined)[]): Buffer {
  const bytesSum = all.reduce((sum, bytes) => sum + headBytes + (bytes?.length ?? 0), 0)
  const answer = Buffer.allocUnsafeSlow(bytesSum)
  let at = 0
  for (const bytes of all) {
    answer.writeUInt32LE(bytes === undefined ? 0 : crc32(bytes), at)
    answer.writeUInt32LE(bytes?.length ?? notAtHand, at + 4)
    if (bytes !== undefined) answer.set(bytes, at + headBytes)
    at += headBytes + (bytes?.length ?? 0)
  }
  return answer
}

/**
 * Bytes that changed in transit count as missing. @throws BlobFault UNAVAILABLE when it is no
 * answer to this request
 */
export function batchOf(answer: Buffer, copies: readonly BlobInfo[]): (Uint8Array | undefined)[] {
  let at = 0
  const all = copies.map(({ size }) => {
    if (at + headBytes > answer.length) throw new BlobFault('UNAVAILABLE', 'the answer is too short')
    const sum = answer.readUInt32LE(at)
    const length = answer.readUInt32LE(at + 4)
    at += headBytes
    if (length === notAtHand) return undefined
    const bytes = answer.subarray(at, at + length)
    at += length
    return length === size && bytes.length === size && crc32(bytes) === sum ? bytes : undefined
  })
  if (at !== answer.length) throw new BlobFault('UNAVAILABLE', 'the answer is not of this length')
  return all
}
