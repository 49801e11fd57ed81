import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { BlobFault } from '@holdfast/blob-store'
import type { Catalogue } from './catalogue.ts'
import { readStoreFacts } from './ledger.ts'
import type { Log } from './log.ts'
import { RocksCatalogue } from './rocks-catalogue.ts'

/**
 * Opens the newest catalogue of the store, whose lock is the lock of the store. One that cannot be read, or whose first
 * batch was never finished, is given up for an empty one with the next number, to be filled from the extents.
 *
 * @param anew gives up also one that could be opened: something in it turned out to be damaged.
 * @throws BlobFault `UNAVAILABLE` when it is in use.
 */
export async function openRocksCatalogue(
  path: string,
  log: Log,
  { anew = false }: { anew?: boolean } = {},
): Promise<Catalogue> {
  const numbers = (await readdir(path)).map(catalogueNumber).filter((number) => number !== undefined)
  let number = Math.max(1, ...numbers) + (anew ? 1 : 0)
  const catalogue = await openUsable(
    () => join(path, name(number)),
    () => number++,
    log,
  )
  for (const old of numbers)
    if (old < number) await rm(join(path, name(old)), { recursive: true, force: true })
  return catalogue
}

async function openUsable(pathOf: () => string, giveUp: () => void, log: Log): Promise<Catalogue> {
  try {
    const catalogue = await RocksCatalogue.open(pathOf())
    const facts = await readStoreFacts(catalogue)
    const [row] = await catalogue.scan(Buffer.alloc(0), { limit: 1 })
    if (facts !== undefined || row === undefined) return catalogue
    await catalogue.close()
    log.error({ path: pathOf() }, 'the catalogue is of another version or not finished; it is rebuilt')
  } catch (error) {
    if (!(error instanceof BlobFault) || error.code !== 'CORRUPT') throw error
    log.error({ path: pathOf(), error: error.message }, 'the catalogue is damaged; it is rebuilt')
  }
  giveUp()
  return RocksCatalogue.open(pathOf())
}

function name(number: number): string {
  return `catalogue-${number}`
}

function catalogueNumber(fileName: string): number | undefined {
  const found = /^catalogue-(\d{1,9})$/.exec(fileName)
  return found === null ? undefined : Number(found[1])
}
