/** Rows of the store itself: its numbers, and what is known to be missing. */
import { type DigestNote, Suspicions } from '../writing/commit-audit.ts'
import type { RowChange } from '../writing/group-writer.ts'
import { decodeNumber, decodeSmall, encodeNumber, encodeSmall, isWholeValue, keys } from './format.ts'
import { decodeRanges, encodeRanges } from './lost-ranges.ts'
import type { StoredRows } from './stored-rows.ts'

/** Which rows have copies, in `m` `copies`: 1, those of the store; 2, lookups as well. */
export const copiesVersion = 2

export async function numberAt(rows: StoredRows, key: Uint8Array): Promise<number> {
  const stored = await rows.get(key)
  return stored === undefined ? 0 : decodeNumber(key, stored)
}

export function numberRow(key: Uint8Array, number: number): RowChange {
  return { type: 'put', key, value: encodeNumber(key, number) }
}

/**
 * The greater one of a number and its copy.
 * @returns undefined: neither is there. @throws JournalFault CORRUPT: none of those there is whole
 */
export async function copiedNumberAt(rows: StoredRows, key: Uint8Array): Promise<number | undefined> {
  let greatest: number | undefined
  let damaged: { key: Uint8Array; stored: Uint8Array } | undefined
  for (const place of [key, keys.copy(key)]) {
    const stored = await rows.get(place)
    if (stored === undefined) continue
    if (isWholeValue(place, stored)) greatest = Math.max(greatest ?? 0, decodeNumber(place, stored))
    else damaged = { key: place, stored }
  }
  if (greatest === undefined && damaged !== undefined) return decodeNumber(damaged.key, damaged.stored)
  return greatest
}

export function copiedNumberRows(key: Uint8Array, number: number): RowChange[] {
  return [key, keys.copy(key)].map((place) => numberRow(place, number))
}

/** Batches and ranges that are known to be lost. */
export async function lostBatchesIn(rows: StoredRows): Promise<number> {
  return (await copiedNumberAt(rows, keys.meta('lost'))) ?? 0
}

export async function knownSuspicions(rows: StoredRows): Promise<Suspicions> {
  const suspicions = new Suspicions()
  for (const span of [keys.suspects, keys.copiesOf(keys.suspects)])
    for await (const [key, stored] of rows.scan(span)) {
      if (!isWholeValue(key, stored)) continue
      const numbers = decodeSmall(key, stored)
      suspicions.add({
        digest: keys.suspectOf(span === keys.suspects ? key : keys.copied(key)),
        epoch: Number(numbers.readBigUInt64BE(0)),
        number: Number(numbers.readBigUInt64BE(8)),
      })
    }
  return suspicions
}

export function suspicionRows({ digest, epoch, number }: DigestNote): RowChange[] {
  const value = Buffer.alloc(16)
  value.writeBigUInt64BE(BigInt(epoch), 0)
  value.writeBigUInt64BE(BigInt(number), 8)
  return copiedRows(keys.suspect(digest), value)
}

/** Both rows are read, so that an older one that came back takes nothing away. */
export async function keptRanges(rows: StoredRows) {
  const ranges = []
  for (const key of [keys.lostRanges, keys.copy(keys.lostRanges)]) {
    const stored = await rows.get(key)
    if (stored !== undefined && isWholeValue(key, stored))
      ranges.push(...decodeRanges(decodeSmall(key, stored)))
  }
  return ranges
}

export function keptRangesRows(ranges: Parameters<typeof encodeRanges>[0]): RowChange[] {
  return copiedRows(keys.lostRanges, encodeRanges(ranges))
}

/** Kinds of lookups that were lost, and their copies, too. */
export async function keptLostKinds(rows: StoredRows): Promise<string[]> {
  const kinds = new Set<string>()
  for (const key of [keys.lostKinds, keys.copy(keys.lostKinds)]) {
    const stored = await rows.get(key)
    if (stored === undefined || !isWholeValue(key, stored)) continue
    for (const kind of decodeSmall(key, stored).toString('latin1').split(' ')) kinds.add(kind)
  }
  kinds.delete('')
  return [...kinds].sort()
}

export function lostKindsRows(kinds: readonly string[]): RowChange[] {
  return copiedRows(keys.lostKinds, Buffer.from(kinds.join(' '), 'latin1'))
}

function copiedRows(key: Uint8Array, value: Uint8Array): RowChange[] {
  return [key, keys.copy(key)].map((place) => ({ type: 'put', key: place, value: encodeSmall(place, value) }))
}
