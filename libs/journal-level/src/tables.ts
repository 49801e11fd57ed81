/**
 * Checks LevelDB's tables before anything is read from them: `libs/level-files` says why. A flipped
 * bit in a value would be detected by the rows' own checksums, one in a key or in the structure of
 * a block would not. So the blocks are compared here, at opening.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { tableDamage } from '@holdfast/level-files'

/**
 * Bytes of tables compared at each opening, newest first: about a second. The rest is left to the
 * rows' own checksums.
 */
export const checkedBytesMax = 256 * 1024 * 1024

export interface Table {
  number: number
  bytes: number
}

/** The tables that are in use, from the property `leveldb.sstables`; newest first. */
export function liveTables(property: string): Table[] {
  const tables = [...property.matchAll(/^ (\d+):(\d+)\[/gm)].map((found) => ({
    number: Number(found[1]),
    bytes: Number(found[2]),
  }))
  return tables.sort((one, two) => two.number - one.number)
}

/**
 * Names of damaged tables, with the damage, among as many as are compared at an opening.
 *
 * LevelDB compacts meanwhile: a missing table is damage only if it is still in use afterwards.
 * @param live the tables in use at the time of the call.
 */
export async function damagedTables(directory: string, live: () => Table[]): Promise<string[]> {
  const damaged: string[] = []
  let checked = 0
  for (const { number, bytes } of live()) {
    checked += bytes
    if (checked > checkedBytesMax) break
    const table = await contentsOf(directory, number)
    const isGone = table === undefined && !live().some((other) => other.number === number)
    if (isGone) continue
    const damage = table === undefined ? 'it is missing' : tableDamage(table)
    if (damage !== undefined) damaged.push(`table ${number}: ${damage}`)
  }
  return damaged
}

/** A table's bytes under either of its names; undefined when there is neither. */
async function contentsOf(directory: string, number: number): Promise<Buffer | undefined> {
  const base = String(number).padStart(6, '0')
  for (const name of [`${base}.ldb`, `${base}.sst`]) {
    try {
      return await readFile(join(directory, name))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
  }
  return undefined
}
