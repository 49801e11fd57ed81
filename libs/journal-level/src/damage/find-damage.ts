/**
 * Looks for damaged tables while LevelDB has them open. LevelDB compares no checksums when it
 * compacts, so damage that is not found before that is written into new tables as if it were right.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type LiveTable, type Manifest, readManifest } from '@holdfast/level-files'
import { pathOfTable } from './salvage.ts'
import { comparesOnDisk } from './uncached-read.ts'

export interface FindDamageOptions {
  /** Called before each table; false ends the search. */
  pace: (bytes: number) => Promise<boolean>
}

/**
 * Reads each table in use from the disk.
 * @returns the first damage in words; undefined: none
 */
export async function findDamage(rows: string, { pace }: FindDamageOptions): Promise<string | undefined> {
  const tables = await tablesInUse(rows)
  if (tables === undefined) return 'the list of tables is damaged'
  const damageOnDisk = comparesOnDisk()
  for (const table of tables) {
    if (!(await pace(table.bytes))) return undefined
    const damage = await damageOnDisk(await pathOfTable(rows, table.number), table)
    if (damage === undefined) continue
    // A table that was compacted meanwhile may have been removed.
    const now = await tablesInUse(rows)
    if (now?.some(({ number }) => number === table.number) !== false)
      return `the table ${table.number}: ${damage}`
  }
  return undefined
}

async function tablesInUse(rows: string): Promise<readonly LiveTable[] | undefined> {
  return (await manifestInUse(rows))?.tables
}

/** LevelDB may be writing its end. Undefined: the rest is damaged. */
export async function manifestInUse(rows: string): Promise<Manifest | undefined> {
  const name = (await readFile(join(rows, 'CURRENT'), 'latin1')).trim()
  return readManifest(await readFile(join(rows, name)))
}
