/**
 * Looks for damaged tables while LevelDB has them open. LevelDB compares no checksums when it
 * compacts, so damage that is not found before that is written into new tables as if it were right.
 */
import { constants } from 'node:fs'
import { type FileHandle, open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { absent, alignedBytes } from '@holdfast/kernel'
import { type LiveTable, readManifest, tableDamage } from '@holdfast/level-files'
import { pathOfTable } from './salvage.ts'
import { isUnreadableFile } from './tolerant-read.ts'

const blockBytes = 4096

export interface FindDamageOptions {
  /** Called before each table; false ends the search. */
  pace: (bytes: number) => Promise<boolean>
}

/**
 * Reads each table in use from the disk, not from the page cache.
 * @returns the first damage in words; undefined: none
 */
export async function findDamage(rows: string, { pace }: FindDamageOptions): Promise<string | undefined> {
  for (const table of await tablesInUse(rows)) {
    if (!(await pace(table.bytes))) return undefined
    const damage = await damageOnDisk(rows, table)
    if (damage === undefined) continue
    // A table that was compacted meanwhile may have been removed half-way.
    if ((await tablesInUse(rows)).some(({ number }) => number === table.number))
      return `the table ${table.number}: ${damage}`
  }
  return undefined
}

async function tablesInUse(rows: string): Promise<readonly LiveTable[]> {
  const name = (await readFile(join(rows, 'CURRENT'), 'latin1')).trim()
  return readManifest(await readFile(join(rows, name)))?.tables ?? []
}

async function damageOnDisk(rows: string, { number, bytes }: LiveTable): Promise<string | undefined> {
  try {
    await using file = await openUncached(await pathOfTable(rows, number))
    const into = alignedBytes(Math.ceil(bytes / blockBytes) * blockBytes)
    const table = into.subarray(0, Math.min(bytes, await readAll(file, into)))
    return table.length < bytes ? 'its end is missing' : tableDamage(table)
  } catch (error) {
    if (isUnreadableFile(error)) return 'the disk cannot read it'
    return absent(error as NodeJS.ErrnoException)
  }
}

/** A file system in memory has no uncached reads. */
async function openUncached(path: string): Promise<FileHandle> {
  try {
    return await open(path, constants.O_RDONLY | constants.O_DIRECT)
  } catch (error) {
    if ((error as { code?: string }).code !== 'EINVAL') throw error
    return open(path, 'r')
  }
}

async function readAll(file: FileHandle, into: Buffer): Promise<number> {
  let at = 0
  while (at < into.length) {
    const { bytesRead } = await file.read(into, at, into.length - at, at)
    at += bytesRead
    // Behind an end that is no multiple of a block, O_DIRECT cannot go on.
    if (bytesRead === 0 || at % blockBytes !== 0) break
  }
  return at
}
