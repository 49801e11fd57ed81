/** Compares a table as it is on the disk, not as the page cache has it. */
import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { alignedBytes } from '@holdfast/kernel'
import { type LiveTable, tableDamage } from '@holdfast/level-files'
import { isUnreadableFile } from './tolerant-read.ts'

const blockBytes = 4096

/** The damage of a table in words. Undefined: it is whole. */
export type ComparesTable = (path: string, table: Pick<LiveTable, 'bytes'>) => Promise<string | undefined>

/**
 * Compares one table at a time, all in the same memory: each aligned memory reserves much more
 * address space than it has bytes. Rejects with errors that say nothing about the table.
 */
export function comparesOnDisk(): ComparesTable {
  let memory = alignedBytes(0)
  return (path, { bytes }) => {
    const needed = Math.ceil(bytes / blockBytes) * blockBytes
    if (memory.length < needed) memory = alignedBytes(needed)
    return damageOnDisk(path, { bytes, into: memory.subarray(0, needed) })
  }
}

async function damageOnDisk(
  path: string,
  { bytes, into }: { bytes: number; into: Buffer },
): Promise<string | undefined> {
  try {
    await using file = await openUncached(path)
    const table = into.subarray(0, Math.min(bytes, await readAll(file, into)))
    return table.length < bytes ? 'its end is missing' : tableDamage(table)
  } catch (error) {
    if (isUnreadableFile(error)) return 'the disk cannot read it'
    if ((error as { code?: string }).code === 'ENOENT') return 'it is missing'
    throw error
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
