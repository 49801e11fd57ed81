import { hex, latin1 } from '@holdfast/kernel'
import type { BlobName } from './blob-store.ts'

/** As rows, messages and reports name a copy. */
export function nameOfCopy({ id, incarnation }: BlobName): string {
  return `${hex(id)}/${hex(incarnation)}`
}

/** A key of maps with many copies: one character for each byte, half the memory of the name. */
export function copyKey({ id, incarnation }: Pick<BlobName, 'id' | 'incarnation'>): string {
  return latin1(id) + latin1(incarnation)
}
