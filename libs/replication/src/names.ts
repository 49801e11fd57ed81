import type { BlobName } from '@holdfast/blob-store'

/** A copy's name as a key of maps. */
export function copyKey({ id, incarnation }: BlobName): string {
  return `${hex(id)}/${hex(incarnation)}`
}

export function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex')
}
