import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { BlobFault } from '@holdfast/blob-store'
import type { Catalogue } from '../catalogue/catalogue.ts'
import { isMarkedDamaged, RocksCatalogue } from '../catalogue/rocks-catalogue.ts'
import type { Log } from '../log.ts'
import { readStoreFacts } from '../writing/ledger.ts'

/**
 * Opens the newest catalogue of the store, whose lock is the lock of the store. An unreadable one,
 * or one whose first batch never completed, is replaced by an empty one with the next number, to be
 * filled from the extents.
 *
 * @param rebuild also replaces a readable one: part of it turned out to be damaged.
 * @throws BlobFault `UNAVAILABLE` when it is in use.
 */
export async function openRocksCatalogue(
  path: string,
  log: Log,
  { rebuild = false }: { rebuild?: boolean } = {},
): Promise<Catalogue> {
  const numbers = (await readdir(path)).map(catalogueNumber).filter((number) => number !== undefined)
  let number = Math.max(1, ...numbers) + (rebuild ? 1 : 0)
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
  let catalogue: RocksCatalogue | undefined
  try {
    catalogue = await RocksCatalogue.open(pathOf(), log)
    if (await isWhole(catalogue, pathOf())) return catalogue
    log.error({ path: pathOf() }, 'the catalogue is of another version or not finished; it is rebuilt')
  } catch (error) {
    if (!(error instanceof BlobFault) || error.code !== 'CORRUPT') {
      // The error explains why opening failed.
      await catalogue?.close().catch(() => {})
      throw error
    }
    log.error({ path: pathOf(), error: error.message }, 'the catalogue is damaged; it is rebuilt')
  }
  // It is damaged and dropped: what matters is that its lock and thread are released.
  await catalogue?.close().catch(() => {})
  giveUp()
  return RocksCatalogue.open(pathOf(), log)
}

/** @throws BlobFault `CORRUPT` also for damage that an earlier run found. */
async function isWhole(catalogue: RocksCatalogue, path: string): Promise<boolean> {
  if (await isMarkedDamaged(path)) throw new BlobFault('CORRUPT', `${path} was found damaged before`)
  if ((await readStoreFacts(catalogue)) !== undefined) return true
  const [row] = await catalogue.scan(Buffer.alloc(0), { limit: 1 })
  return row === undefined
}

function name(number: number): string {
  return `catalogue-${number}`
}

function catalogueNumber(fileName: string): number | undefined {
  const found = /^catalogue-(\d{1,9})$/.exec(fileName)
  return found === null ? undefined : Number(found[1])
}
