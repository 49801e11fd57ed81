/**
 * LevelDB's manifest (its db/version_edit.cc): a log, each record of which changes what the ones
 * before it say. A change is a list of fields: tag (varint), then
 *
 *     1 comparator: name behind its length      5 compaction pointer: level, key behind its length
 *     2 log number                              6 table that is no longer in use: level, number
 *     3 next file                               7 table: level, number, bytes, smallest and largest
 *     4 last sequence                             internal key, each behind its length
 *     9 number of the log before
 */
import { isInternalKey, userKey } from './internal-key.ts'
import { dataOf, logOf } from './log.ts'
import { Cursor, prefixed, varint } from './numbers.ts'
import type { KeyRange } from './salvage-table.ts'

const tag = {
  comparator: 1,
  logNumber: 2,
  nextFile: 3,
  lastSequence: 4,
  compactPointer: 5,
  deletedFile: 6,
  newFile: 7,
  previousLogNumber: 9,
} as const
const levels = 7

export interface LiveTable {
  level: number
  number: number
  bytes: number
  /** Internal keys. */
  smallest: Uint8Array
  largest: Uint8Array
}

export interface Manifest {
  comparator: string
  logNumber: number
  previousLogNumber: number
  nextFile: number
  lastSequence: bigint
  tables: LiveTable[]
}

/** What the changes so far say. */
interface Draft {
  comparator: string | undefined
  logNumber: number | undefined
  previousLogNumber: number
  nextFile: number | undefined
  lastSequence: bigint | undefined
  /** By level and number. */
  tables: Map<string, LiveTable>
}

const nothing = {
  comparator: undefined,
  logNumber: undefined,
  previousLogNumber: 0,
  nextFile: undefined,
  lastSequence: undefined,
}

/**
 * Undefined if something is damaged. Its end may be torn, as LevelDB accepts it: the last change
 * was not acknowledged then. LevelDB also takes damage for a torn end if later bytes show that it
 * is not the end; this function does not.
 */
export function readManifest(file: Buffer): Manifest | undefined {
  const changes = dataOf(file)
  const draft: Draft = { ...nothing, tables: new Map() }
  if (changes === undefined || !changes.every((change) => apply(draft, change))) return undefined
  const { comparator, logNumber, previousLogNumber, nextFile, lastSequence } = draft
  if (comparator === undefined || logNumber === undefined) return undefined
  if (nextFile === undefined || lastSequence === undefined) return undefined
  const tables = [...draft.tables.values()]
  return { comparator, logNumber, previousLogNumber, nextFile, lastSequence, tables }
}

/** @returns whether the change can be read */
function apply(draft: Draft, change: Buffer): boolean {
  const added: LiveTable[] = []
  const cursor = new Cursor(change)
  while (!cursor.isAtEnd) if (!applyField(draft, added, cursor)) return false
  // LevelDB removes first, so a table may move from a level to itself.
  for (const table of added) draft.tables.set(placeOf(table), table)
  return cursor.at === change.length
}

function applyField(draft: Draft, added: LiveTable[], cursor: Cursor): boolean {
  switch (cursor.varint()) {
    case tag.comparator:
      draft.comparator = cursor.prefixed()?.toString()
      return draft.comparator !== undefined
    case tag.logNumber:
      draft.logNumber = cursor.varint()
      return true
    case tag.previousLogNumber:
      draft.previousLogNumber = cursor.varint()
      return true
    case tag.nextFile:
      draft.nextFile = cursor.varint()
      return true
    case tag.lastSequence:
      draft.lastSequence = cursor.largeVarint()
      return draft.lastSequence !== undefined
    case tag.compactPointer:
      return cursor.varint() < levels && cursor.prefixed() !== undefined
    case tag.deletedFile:
      draft.tables.delete(placeOf({ level: cursor.varint(), number: cursor.varint() }))
      return true
    case tag.newFile: {
      const [level, number, bytes] = [cursor.varint(), cursor.varint(), cursor.varint()]
      const [smallest, largest] = [cursor.prefixed(), cursor.prefixed()]
      if (!(level < levels) || !smallest || !largest) return false
      added.push({ level, number, bytes, smallest, largest })
      return isInternalKey(smallest) && isInternalKey(largest)
    }
    default:
      return false
  }
}

function placeOf({ level, number }: { level: number; number: number }): string {
  return `${level} ${number}`
}

export function writeManifest(manifest: Manifest): Buffer {
  const { comparator, logNumber, previousLogNumber, nextFile, lastSequence, tables } = manifest
  const numbers: [number, number | bigint][] = [
    [tag.logNumber, logNumber],
    [tag.previousLogNumber, previousLogNumber],
    [tag.nextFile, nextFile],
    [tag.lastSequence, lastSequence],
  ]
  return logOf(
    Buffer.concat([
      varint(tag.comparator),
      prefixed(Buffer.from(comparator)),
      ...numbers.flat().map(varint),
      ...tables.flatMap(({ level, number, bytes, smallest, largest }) => [
        ...[tag.newFile, level, number, bytes].map(varint),
        prefixed(smallest),
        prefixed(largest),
      ]),
    ]),
  )
}

/**
 * The bounds of the user keys of a table. The range begins a little below the smallest key. The
 * keys in between are so close to it that no store uses them.
 */
export function keyRangeOf({ smallest, largest }: LiveTable): KeyRange {
  return { after: keyBefore(userKey(smallest)), through: userKey(largest) }
}

/** Undefined before the empty key. */
function keyBefore(key: Uint8Array): Uint8Array | undefined {
  const last = key.at(-1)
  if (last === undefined) return undefined
  const rest = key.subarray(0, -1)
  return last === 0 ? rest : Buffer.concat([rest, Buffer.from([last - 1]), Buffer.alloc(8, 0xff)])
}
