/** The data directory: made if need be, writable, and held by this process alone. */
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { LevelMetadataStore } from '@holdfast/journal-level'
import { makeDirectories } from '@holdfast/kernel'
import { StartFault } from '@holdfast/process'
import type { Logger } from 'pino'

/** Opening the metadata store again takes some 6 MiB; the rest is for what is deleted on a full disk. */
const ballastBytes = 16 * 1024 * 1024

export interface DataDir {
  metadata: string
  blobs: string
  outbox: string
}

/** @throws StartFault DATA_UNUSABLE */
export async function prepareDataDir(path: string): Promise<DataDir> {
  try {
    await makeDirectories(path)
    await checkWritable(path)
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
  return { metadata: join(path, 'metadata'), blobs: join(path, 'blobs'), outbox: join(path, 'outbox') }
}

async function checkWritable(path: string): Promise<void> {
  const probe = join(path, `.writable-${process.pid}`)
  await writeFile(probe, '')
  await rm(probe)
}

/** Opens the metadata store: holding it is holding the directory. @throws StartFault DATA_LOCKED, DATA_UNUSABLE */
export async function openMetadata(dir: DataDir, log: Logger): Promise<LevelMetadataStore> {
  try {
    return await LevelMetadataStore.open({
      path: dir.metadata,
      ballastBytes,
      onFailure: (fault) => log.error({ err: fault }, 'the metadata store takes no more writes'),
      onReopened: () => log.info('the metadata store takes writes again'),
    })
  } catch (error) {
    const { message, code } = error as Error & { code?: string }
    throw code === 'UNAVAILABLE' && !message.includes('No space left')
      ? new StartFault('DATA_LOCKED', `${message}: only one process may use a data directory`, {
          cause: error,
        })
      : new StartFault('DATA_UNUSABLE', `the metadata store ${dir.metadata} cannot be opened: ${message}`, {
          cause: error,
        })
  }
}
