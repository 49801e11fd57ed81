/**
 * References: the rows `ref/<blob id>/<incarnation>/<account>` that say which accounts use a copy,
 * and therefore whether it may be collected.
 */
import { hex } from '@holdfast/kernel'
import type { LookupStore } from './lookup-store.ts'

/** A copy of a blob, by its names: 48 and 16 bytes. */
export interface CopyName {
  readonly id: Uint8Array
  readonly incarnation: Uint8Array
}

/** First segment of the keys. */
export const referencesKind = 'ref'

export function referenceKey(blob: CopyName, account: string): string {
  return `${referencesOf(blob)}${account}`
}

/** The common prefix of all references of one copy. */
export function referencesOf({ id, incarnation }: CopyName): string {
  return `${referencesKind}/${hex(id)}/${hex(incarnation)}/`
}

/** Whether each of these copies has a reference; at most `maxPrefixes`. */
export async function referencedOf(lookups: LookupStore, blobs: readonly CopyName[]): Promise<boolean[]> {
  const rows = await lookups.firstOf(blobs.map(referencesOf))
  return rows.map((row) => row !== undefined)
}

export async function isReferenced(lookups: LookupStore, blob: CopyName): Promise<boolean> {
  return (await referencedOf(lookups, [blob]))[0] === true
}
