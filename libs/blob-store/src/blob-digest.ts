/**
 * What identifies a blob: md5 ‖ BLAKE3-256 over its bytes, and the CRC-32 that ZIP archives need.
 * Clients see the md5. The pair is always compared whole, so two contents with one md5 are two
 * blobs.
 */

import { createHash, hash } from 'node:crypto'
import { asBuffer, blobIdBytes } from '@holdfast/kernel'
import { Blake3Hasher, blake3 } from '@napi-rs/blake-hash'
import { crc32 } from '@node-rs/crc32'

export interface BlobDigest {
  /** 48 bytes. */
  id: Buffer
  crc32: number
}

/** Digest of bytes in memory; cheaper than the incremental form for small blobs. */
export function digestOf(bytes: Uint8Array): BlobDigest {
  const id = Buffer.allocUnsafe(blobIdBytes)
  id.write(hash('md5', bytes, 'binary'), 'latin1') // as text it costs less than as a buffer
  id.set(blake3(asBuffer(bytes)), 16)
  return { id, crc32: crc32(bytes) }
}

/** Digest of bytes that arrive in pieces. */
export class BlobDigester {
  readonly #md5 = createHash('md5')
  readonly #blake3 = new Blake3Hasher()
  #crc32 = 0

  update(bytes: Uint8Array): void {
    this.#md5.update(bytes)
    this.#blake3.update(asBuffer(bytes))
    this.#crc32 = crc32(bytes, this.#crc32)
  }

  /** Call once, after the last update. */
  digest(): BlobDigest {
    return { id: Buffer.concat([this.#md5.digest(), this.#blake3.digestBuffer()]), crc32: this.#crc32 }
  }
}
