/**
 * The list of the tables of a catalogue, a file of RocksDB or LevelDB. If its end is cut off, both
 * assume that a crash interrupted the writing of the list: they remove the tables that only the
 * lost end names, and open the rest without an error. So a clean shutdown notes which list it left.
 */
import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { isUnreadable } from '@holdfast/kernel'

export interface TableList {
  /** Below the directory of the catalogues, such as `catalogue-1/MANIFEST-000004`. */
  file: string
  digest: Buffer
}

/** Of a closed catalogue. Undefined: none can be read. */
export async function tableListOf(catalogue: string): Promise<TableList | undefined> {
  try {
    const name = (await readFile(join(catalogue, 'CURRENT'), 'latin1')).trim()
    return {
      file: join(basename(catalogue), name),
      digest: digestOf(await readFile(join(catalogue, name))),
    }
  } catch {
    return undefined
  }
}

/**
 * Whether the list is there with other content than it was left with. Each opening makes a new one
 * of another name, so a start that was interrupted changes nothing.
 */
export async function isListChanged(catalogues: string, { file, digest }: TableList): Promise<boolean> {
  try {
    return !digestOf(await readFile(join(catalogues, file))).equals(digest)
  } catch (error) {
    return isUnreadable(error)
  }
}

function digestOf(bytes: Buffer): Buffer {
  return hash('sha256', bytes, 'buffer')
}
