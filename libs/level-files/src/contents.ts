import { blockFrom, type Entry } from './block.ts'
import { CompressedTableError } from './errors.ts'
import { sequenceOf } from './internal-key.ts'
import { contentsAt, type Handle, handleIn, isCompressed, listsOf, tableDamage } from './table.ts'

export interface Contents {
  /** Internal keys. */
  smallest: Uint8Array
  largest: Uint8Array
  /** The greatest of its entries. */
  lastSequence: bigint
}

/**
 * Bounds and last sequence of a table that is whole; undefined if it holds no entry.
 *
 * @throws CompressedTableError
 * @throws Error if it is damaged
 */
export function contentsOf(table: Buffer): Contents | undefined {
  const damage = tableDamage(table)
  if (damage !== undefined) throw new Error(`a table is taken as whole, and ${damage}`)
  let contents: Contents | undefined
  for (const { value } of entriesAt(table, listsOf(table).index)) {
    for (const { key } of entriesAt(table, handleIn(value))) {
      const sequence = sequenceOf(key)
      contents ??= { smallest: key, largest: key, lastSequence: sequence }
      contents.largest = key
      if (sequence > contents.lastSequence) contents.lastSequence = sequence
    }
  }
  return contents
}

function entriesAt(table: Buffer, handle: Handle): Entry[] {
  if (isCompressed(table, handle)) throw new CompressedTableError()
  const block = blockFrom(contentsAt(table, handle))
  if (block?.bytes !== handle.size) throw new Error(`the block at ${handle.offset} has no entries`)
  return block.entries
}
