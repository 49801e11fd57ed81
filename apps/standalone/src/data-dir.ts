/** The data directory: created if needed, writable, and locked by this process. */
import { access, constants, readdir, statfs } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { checkDataFormat, makePrivate, requireStores, StartFault } from '@holdfast/bootstrap'
import {
  isLocked,
  LevelMetadataStore,
  type MetadataDamage,
  metadataStoreDefaults,
} from '@holdfast/journal-level'
import { makeDirectories, releaseBallast } from '@holdfast/kernel'
import type { Logger } from 'pino'
import type { ReadingCopies } from './full-disk.ts'

const MiB = 1024 * 1024
/**
 * The size of the metadata's ballast. Opening the metadata store again takes some 6 MiB of it; the
 * rest is for deletions on a full disk. Small disks have a smaller ballast, because the larger one
 * would not fit there a second time.
 */
const ballastBytes = { smallDisk: 8 * MiB, most: 16 * MiB }
const smallDiskBytes = 1280 * MiB

export interface DataDir {
  metadata: string
  blobs: string
  outbox: string
  /** A copy of the master key, which a row of the metadata has. */
  masterKey: string
}

/** What exists where there is an installation. */
const stores = ['metadata/rows/CURRENT', 'blobs/extents']

/**
 * @param options.requireStore makes nothing where there is no installation
 * @throws StartFault DATA_UNUSABLE, DATA_FORMAT, DATA_MISSING
 */
export async function prepareDataDir(
  path: string,
  { requireStore, log }: { requireStore: boolean; log: Logger },
): Promise<DataDir> {
  if (requireStore) await requireStores(path, stores)
  await checkWhole(path)
  for (const damage of await checkDataFormat(path))
    log.error({ damage }, 'the format note is damaged and will be replaced')
  try {
    await makeDirectories(path)
    const left = await makePrivate(path)
    if (left.length > 0)
      log.warn(
        { paths: left },
        'files of the data directory cannot be made private: another user owns them, or they are read-only',
      )
    // creating a test file would need a block, which a full disk does not have
    await access(path, constants.W_OK | constants.X_OK)
  } catch (error) {
    const reason = (error as Error).message
    throw new StartFault(
      'DATA_UNUSABLE',
      `the data directory ${path} cannot be written (HOLDFAST_DATA_DIR): ${reason}`,
      {
        cause: error,
      },
    )
  }
  return {
    metadata: join(path, 'metadata'),
    blobs: join(path, 'blobs'),
    outbox: join(path, 'outbox'),
    masterKey: join(path, 'master.key'),
  }
}

/**
 * New metadata beside existing files would make all of them garbage, and the collector would delete
 * them. A first start makes the metadata first, so it never leaves files without metadata. New
 * files beside existing metadata would answer every download with an error.
 * @throws StartFault DATA_MISSING, DATA_UNUSABLE
 */
async function checkWhole(path: string): Promise<void> {
  const names = (folder: string) => namesIn(join(path, folder))
  const [top, blobs, extents, rows] = await Promise.all([
    names('.'),
    names('blobs'),
    names('blobs/extents'),
    names('metadata/rows'),
  ])
  if (top.includes('restoring'))
    throw new StartFault(
      'DATA_MISSING',
      `the data directory ${path} holds a restore that did not complete: repeat ctl restore, or remove ${join(path, 'restoring')}`,
    )
  // A file that is missing among the others is made again.
  const hasRows = rows.some((name) => name === 'CURRENT' || /\.(?:ldb|sst|log)$/.test(name))
  if (extents.length > 0 && !hasRows)
    throw new StartFault(
      'DATA_MISSING',
      `the data directory ${path} has files (blobs/extents) and no metadata (metadata/rows is empty): without it no account owns the files, and they would be deleted. Is its disk mounted? Otherwise restore a backup`,
    )
  // `release.json` is written only when both stores exist.
  if (hasRows && top.includes('release.json') && !blobs.includes('extents'))
    throw new StartFault(
      'DATA_MISSING',
      `the data directory ${path} has metadata and no files (blobs/extents is missing): is its disk mounted? Otherwise restore a backup, or make the empty folder ${join(path, 'blobs/extents')}: the service then starts without the files`,
    )
}

/** None where there is no such folder. @throws StartFault DATA_UNUSABLE */
async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder)
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException
    if (['ENOENT', 'ENOTDIR'].includes(code)) return []
    throw new StartFault('DATA_UNUSABLE', `${folder} cannot be read (HOLDFAST_DATA_DIR): ${message}`, {
      cause: error,
    })
  }
}

/**
 * Opens the metadata store, whose lock is the directory's lock. On a full disk, with its own
 * ballast spent, it uses that of the blobs.
 * @throws StartFault DATA_LOCKED, DATA_UNUSABLE
 */
export async function openEmbeddedMetadata(
  dir: DataDir,
  copies: ReadingCopies,
  log: Logger,
): Promise<LevelMetadataStore> {
  const open = async () => {
    const { bsize, blocks } = await statfs(dirname(dir.metadata))
    return LevelMetadataStore.open({
      ...metadataStoreDefaults,
      path: dir.metadata,
      copyForReading: (rows) => copies.ofRowsWhereItCan(rows),
      ballastBytes: bsize * blocks < smallDiskBytes ? ballastBytes.smallDisk : ballastBytes.most,
      onFailure: (fault) => log.error({ err: fault }, 'the metadata store refuses writes'),
      onReopened: () => log.info('the metadata store takes writes again'),
      onDamage: (damage) => logDamage(log, damage),
      onUnaudited: (error) => log.warn({ err: error }, 'the commit audit of the metadata cannot be written'),
    })
  }
  try {
    return await open().catch(async (error: Error) => {
      if (!isFull(error) || !(await releaseBallast(dir.blobs))) throw error
      return open()
    })
  } catch (error) {
    const { message } = error as Error
    throw isLocked(error)
      ? new StartFault('DATA_LOCKED', `${message}: only one process may use a data directory`, {
          cause: error,
        })
      : new StartFault('DATA_UNUSABLE', `the metadata store ${dir.metadata} cannot be opened: ${message}`, {
          cause: error,
        })
  }
}

/** @throws StartFault DATA_LOCKED, DATA_UNUSABLE */
export async function openMetadataForReading(
  dir: DataDir,
  copies: ReadingCopies,
  log: Logger,
): Promise<LevelMetadataStore> {
  try {
    return await LevelMetadataStore.openReadOnly({
      path: dir.metadata,
      copyForReading: async (rows) => {
        const copy = await copies.ofRows(rows)
        if (copy !== undefined) return copy
        throw new StartFault(
          'DATA_UNUSABLE',
          `${dir.metadata}: the disk is full, and no other has room for a copy`,
        )
      },
      onFailure: () => log.error('the disk is full: the service only reads'),
      onDamage: (damage) => logDamage(log, damage),
    })
  } catch (error) {
    if (error instanceof StartFault) throw error
    const { message } = error as Error
    throw new StartFault(isLocked(error) ? 'DATA_LOCKED' : 'DATA_UNUSABLE', message, { cause: error })
  }
}

function logDamage(log: Logger, damage: MetadataDamage): void {
  log.error(
    damage,
    'the metadata is damaged: readable rows stay in use, accounts that may have lost rows have to be repaired',
  )
}

function isFull({ message }: Error): boolean {
  return message.includes('No space left')
}
