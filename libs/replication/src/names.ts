import type { BlobName } from '@holdfast/blob-store'
import { hex } from '@holdfast/kernel'

/** A copy's name as a key of maps. */
export function copyKey({ id, incarnation }: BlobName): string {
  return `${hex(id)}/${hex(incarnation)}`
}
