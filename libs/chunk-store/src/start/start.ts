/**
 * The start of a store: the catalogue is opened, the directory surveyed, the parts are assembled,
 * and what a crash left is applied. A damaged catalogue is rebuilt from the extents, and so is one
 * that the disk cannot read while it can read all extents. If the disk has no room for the start,
 * the start removes the ballast and tries once more.
 */
import { randomFillSync } from 'node:crypto'
import { join } from 'node:path'
import { BlobFault } from '@holdfast/blob-store'
import { alignedBytes, ballastPath } from '@holdfast/kernel'
import { Assembly } from '../assembly.ts'
import { isListChanged } from '../catalogue/table-list.ts'
import type { Disk } from '../disk/disk.ts'
import { isUnreadableMessage } from '../disk/faults.ts'
import { NodeDisk } from '../disk/node-disk.ts'
import { ExtentFiles, extentNumberOf } from '../extents/extent-files.ts'
import { blockBytes } from '../format.ts'
import type { Log } from '../log.ts'
import { type ChunkStoreMachine, type ChunkStoreOptions, storeBoundsOf } from '../options.ts'
import { CleanShutdownMarker, endMarkKey } from './clean-shutdown-marker.ts'
import { IdentityFile } from './identity-file.ts'
import { openCatalogue } from './open-catalogue.ts'
import { Recovery, type RecoveryFigures } from './recovery.ts'
import { looking, type SurveyResult, survey } from './survey.ts'

export interface StartResult {
  parts: Assembly
  recovered: RecoveryFigures
}

interface Start {
  options: ChunkStoreOptions
  machine: Partial<ChunkStoreMachine>
  disk: Disk
  /** The directory of the extents. */
  directory: string
  log: Log
}

/** @throws BlobFault `UNAVAILABLE`, `CORRUPT`, `IO`, `FULL`: see `ChunkStore.open`. */
export async function startStore(
  options: ChunkStoreOptions,
  machine: Partial<ChunkStoreMachine>,
): Promise<StartResult> {
  const { log } = options
  const disk = machine.disk ?? new NodeDisk({ direct: options.direct })
  const directory = join(options.path, 'extents')
  await disk.makeDirectory(directory)
  const start = { options, machine, disk, directory, log }
  // Opening the catalogue takes the lock; nothing was read before.
  try {
    return await startWithRoom(start, { rebuild: false })
  } catch (error) {
    if ((error as BlobFault).code !== 'CORRUPT' && !(await isUnreadableAlone(error, start))) throw error
    log.error({ error: (error as Error).message }, 'the catalogue is damaged; it is rebuilt from the extents')
    return startWithRoom(start, { rebuild: true })
  }
}

/**
 * True when the disk returns errors for the catalogue, and for no extent. If it returns errors for
 * extents too, the whole disk may have failed: then the catalogue is kept, not replaced.
 */
async function isUnreadableAlone(error: unknown, { disk, directory }: Start): Promise<boolean> {
  if (!isUnreadableMessage((error as Error).message)) return false
  const extents = (await disk.list(directory)).filter((name) => extentNumberOf(name) !== undefined)
  const block = alignedBytes(blockBytes)
  for (const name of extents)
    try {
      const file = await disk.open(join(directory, name), { create: false })
      try {
        await file.readUncached(block, 0)
      } finally {
        await file.close()
      }
    } catch {
      return false
    }
  return extents.length > 0
}

async function startWithRoom(start: Start, { rebuild }: { rebuild: boolean }): Promise<StartResult> {
  try {
    return await startOnce(start, { rebuild })
  } catch (error) {
    if ((error as BlobFault).code !== 'FULL') throw error
    await start.disk.remove(ballastPath(start.options.path))
    return startOnce(start, { rebuild })
  }
}

async function startOnce(start: Start, { rebuild }: { rebuild: boolean }): Promise<StartResult> {
  const { options, machine, disk, directory, log } = start
  const catalogues = options.cataloguesIn ?? options.path
  const end = new CleanShutdownMarker(disk, options.path, log)
  // Opening the catalogue replaces its list.
  const left = rebuild ? undefined : await looking(() => end.leftList())
  const isChanged = left !== undefined && (await isListChanged(catalogues, left))
  const catalogue = await (machine.catalogue?.() ??
    openCatalogue(catalogues, log, { engine: options.catalogue, rebuild }))
  let parts: Assembly | undefined
  try {
    if (isChanged) throw new BlobFault('CORRUPT', `${left.file} is not as the last shutdown left it`)
    const { openExtentsMax } = storeBoundsOf(options, 0)
    const files = new ExtentFiles(disk, directory, { openMax: openExtentsMax })
    const identity = new IdentityFile(disk, options.path, log)
    const nowMs = options.clock.now()
    const randomFill = machine.randomFill ?? randomFillSync
    const surveyed = await survey({
      ...{ catalogue, disk, directory, files, end, identity, log, nowMs, randomFill },
    })
    await identity.keep(surveyed.info)
    const space = await disk.space(directory)
    parts = new Assembly(options, machine, { disk, catalogue, files, end, surveyed, space, log, randomFill })
    return { parts, recovered: await recover(parts, surveyed) }
  } catch (error) {
    if (parts !== undefined) await abandon(parts)
    await catalogue.close().catch(() => {})
    throw error
  }
}

async function recover(parts: Assembly, surveyed: SurveyResult): Promise<RecoveryFigures> {
  const { catalogue, compactor, end, extents, faults, ledger, log, rows, space } = parts
  const recovery = new Recovery({
    rows,
    ledger,
    catalogue,
    extentOf: (run) => extents.get(run),
    log,
    unreadable: (extent, missed) => faults.setAside(extent, missed),
  })
  await end.unmark()
  const recovered = await recovery.run(surveyed)
  // Earlier positions may belong to lost entries: they are not issued any more.
  for (const extent of surveyed.halfFreed.filter(({ quarantine }) => quarantine === undefined))
    await compactor.unmake(extent)
  if (!surveyed.inOrder || surveyed.audit) ledger.beginLife(parts.randomFill(Buffer.alloc(16)))
  ledger.note(endMarkKey, undefined)
  ledger.logsChanges = true
  for (const extent of extents.resume()) ledger.touchExtent(extent)
  await ledger.flush()
  await extents
    .settleBlocks()
    .catch((error: Error) =>
      log.warn({ error: error.message }, 'the open extent has more or fewer blocks than it needs'),
    )
  await space.measure()
  if (surveyed.scans.length > 0) log.info({ ...recovered }, 'the chunk store was recovered')
  parts.upkeep.compactLater()
  return recovered
}

/** The store was never open for callers. */
async function abandon({ upkeep, history, hashing, files }: Assembly): Promise<void> {
  upkeep.stop()
  await history.close()
  await hashing.close()
  await files.closeAll()
}
