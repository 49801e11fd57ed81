import { existsSync } from 'node:fs'
import { readdir, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { BlobFault } from '@holdfast/blob-store'
import { ClassicLevel } from 'classic-level'
import type { EngineName } from '../catalogue/engines/engine.ts'
import { isMarkedDamaged, ThreadedCatalogue } from '../catalogue/threaded-catalogue.ts'
import type { Log } from '../log.ts'
import { readStoreInfo } from '../writing/ledger.ts'

/** RocksDB where its package has a binding for this system, else LevelDB. */
function preferredEngine(): EngineName {
  const entry = createRequire(import.meta.url).resolve('@nxtedition/rocksdb')
  const binding = join(dirname(entry), 'prebuilds', `${process.platform}-${process.arch}`)
  return existsSync(binding) && !isMusl() ? 'rocksdb' : 'level'
}

function isMusl(): boolean {
  if (process.platform !== 'linux') return false
  const report: NodeJS.ProcessReport & { excludeNetwork?: boolean } = process.report
  // Otherwise the report looks up the host name of each peer.
  report.excludeNetwork = true
  const { header } = report.getReport() as { header: { glibcVersionRuntime?: string } }
  return header.glibcVersionRuntime === undefined
}

/**
 * Opens the newest catalogue of the store, whose lock is the lock of the store. An unreadable one,
 * one of another engine, or one whose first batch never completed, is replaced by an empty one with
 * the next number, to be filled from the extents.
 *
 * @param rebuild also replaces a readable one: part of it turned out to be damaged.
 * @throws BlobFault `UNAVAILABLE` when it is in use.
 */
export async function openCatalogue(
  path: string,
  log: Log,
  {
    engine = preferredEngine(),
    rebuild = false,
  }: { engine?: EngineName | undefined; rebuild?: boolean } = {},
): Promise<ThreadedCatalogue> {
  const before = await cataloguesIn(path)
  const newest = before.at(-1)
  const isOther = newest !== undefined && newest.engine !== engine
  if (isOther && (await isLocked(join(path, catalogueDirectory(newest))))) throw inUse(path)
  if (isOther) log.info({ from: newest.engine, to: engine }, 'the catalogue is rebuilt by another engine')
  let number = (newest?.number ?? 1) + (rebuild || isOther ? 1 : 0)
  const catalogue = await openUsable(
    () => join(path, catalogueDirectory({ number, engine })),
    () => number++,
    engine,
    log,
  )
  try {
    await expectNoOther(path, { number, engine })
  } catch (error) {
    await catalogue.close()
    // Else the next start would take it for the newest.
    if (isOther)
      await rm(join(path, catalogueDirectory({ number, engine })), { recursive: true, force: true })
    throw error
  }
  for (const old of before)
    if (old.number < number) await rm(join(path, catalogueDirectory(old)), { recursive: true, force: true })
  return catalogue
}

async function openUsable(
  pathOf: () => string,
  giveUp: () => void,
  engine: EngineName,
  log: Log,
): Promise<ThreadedCatalogue> {
  let catalogue: ThreadedCatalogue | undefined
  try {
    catalogue = await ThreadedCatalogue.open(pathOf(), engine, log)
    if (await hasFirstBatch(catalogue, pathOf())) return catalogue
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
  return ThreadedCatalogue.open(pathOf(), engine, log)
}

/**
 * Refuses the start when another process uses the store. Two catalogues have two locks, so each
 * start first locks its own catalogue and then looks for others. A catalogue of another engine may
 * be in use, and one with a higher number belongs to a later start.
 *
 * @throws BlobFault `UNAVAILABLE`
 */
async function expectNoOther(path: string, own: CatalogueName): Promise<void> {
  for (const other of await cataloguesIn(path)) {
    const isLater = other.number > own.number
    if (isLater || (other.engine !== own.engine && (await isLocked(join(path, catalogueDirectory(other))))))
      throw inUse(path)
  }
}

function inUse(path: string): BlobFault {
  return new BlobFault('UNAVAILABLE', `${path} is in use by another process`)
}

/**
 * Both engines lock the file `LOCK` in the same way, and LevelDB exists everywhere. With
 * `errorIfExists` LevelDB takes the lock and then fails, before it reads any row.
 */
async function isLocked(path: string): Promise<boolean> {
  const tried = new ClassicLevel(path, { createIfMissing: false, errorIfExists: true })
  const error = await tried.open().catch((error: Error & { cause?: { code?: string } }) => error)
  return error?.cause?.code === 'LEVEL_LOCKED'
}

/** @throws BlobFault `CORRUPT` also for damage that an earlier run found. */
async function hasFirstBatch(catalogue: ThreadedCatalogue, path: string): Promise<boolean> {
  if (await isMarkedDamaged(path)) throw new BlobFault('CORRUPT', `${path} was found damaged before`)
  if ((await readStoreInfo(catalogue)) !== undefined) return true
  const [row] = await catalogue.scan(Buffer.alloc(0), { limit: 1 })
  return row === undefined
}

interface CatalogueName {
  number: number
  engine: EngineName
}

const suffixes: Record<EngineName, string> = { rocksdb: '', level: '-level' }

function catalogueDirectory({ number, engine }: CatalogueName): string {
  return `catalogue-${number}${suffixes[engine]}`
}

/** By their numbers. */
async function cataloguesIn(path: string): Promise<CatalogueName[]> {
  const found = (await readdir(path)).map((name) => /^catalogue-(\d{1,9})(-level)?$/.exec(name))
  return found
    .filter((match) => match !== null)
    .map(
      ([, number, level]): CatalogueName => ({
        number: Number(number),
        engine: level === undefined ? 'rocksdb' : 'level',
      }),
    )
    .sort((a, b) => a.number - b.number)
}
