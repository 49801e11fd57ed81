/** The kinds of rows. */

import { referencesKind } from '@holdfast/journal'
import type { AuditNote, RowChange } from '../writing/group-writer.ts'
import { encodeSmall, keys } from './format.ts'

/**
 * Kinds of lookups that have copies: what operators decided, and what leads to accounts. Without
 * such a row a block is lifted, or a share code does not exist.
 */
export const copiedKinds: readonly string[] = [
  'acts',
  'moderation',
  'nodes',
  'region',
  'reports',
  'setting',
  'code',
  'email',
]

const copied = new Set(copiedKinds)

/** The rows of a lookup: one, or two. */
export function lookupRows(lookup: string, value: Uint8Array): RowChange[] {
  return placesOf(lookup).map((key) => ({ type: 'put', key, value: encodeSmall(key, value) }))
}

export function removedLookupRows(lookup: string): RowChange[] {
  return placesOf(lookup).map((key) => ({ type: 'del', key }))
}

/** For the commit audit: the kinds with copies among these lookups. */
export function kindNotes(lookups: readonly string[]): AuditNote[] {
  const kinds = new Set(lookups.map(kindOfLookup).filter((kind) => copied.has(kind)))
  return [...kinds].map((kind) => ({ subject: kindSubject(kind), epoch: 0, number: 1 }))
}

/** In the commit audit. */
export function kindSubject(kind: string): string {
  return `l${kind}`
}

function placesOf(lookup: string): Buffer[] {
  const key = keys.lookup(lookup)
  return copied.has(kindOfLookup(lookup)) ? [key, keys.copy(key)] : [key]
}

function kindOfLookup(lookup: string): string {
  return lookup.split('/', 1)[0] as string
}

const references = Buffer.from(keys.lookup(`${referencesKind}/`))
const meta = ['format', 'store'].map((name) => keys.meta(name as 'format' | 'store'))

/**
 * Which rows say that an account uses a copy of a blob.
 * @returns the copy as `<id>/<incarnation>` in hex; undefined: the row says something else.
 */
export function referenceOfRow(key: Uint8Array): { copy: string; account: string } | undefined {
  if (Buffer.compare(key.subarray(0, references.length), references) !== 0) return undefined
  const [, id, incarnation, account = ''] = keys.lookupOf(key).split('/')
  return { copy: `${id}/${incarnation}`, account }
}

/** The rows of a store that has the journals of these accounts, and nothing else. */
export async function* rowsOfJournals(
  rows: AsyncIterable<[Uint8Array, Uint8Array]>,
  accounts: ReadonlySet<string>,
): AsyncGenerator<[Uint8Array, Uint8Array]> {
  const { gte, lt } = keys.journals
  for await (const row of rows) {
    const [key] = row
    const isJournal = Buffer.compare(key, gte) >= 0 && Buffer.compare(key, lt) < 0
    if (isJournal ? accounts.has(keys.accountOf(key)) : meta.some((one) => one.equals(key))) yield row
  }
}
