/**
 * The format of a data directory: `release.json` in it says the format, and which release wrote it
 * last. It is read before any store is opened, so a release never touches what it does not know.
 *
 * A directory without this file has the first format: releases before it wrote none.
 */

import { randomBytes } from 'node:crypto'
import { access, open, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { hex } from '@holdfast/kernel'
import { StartFault } from './start-fault.ts'
import { commit, version } from './version.ts'

export { StartFault }

export interface DataFormat {
  format: number
  /** The release that began to write it: the first of a minor version. */
  since: string
  /** What older releases cannot read in it, for operators. */
  what: string
}

/**
 * Every format, the oldest first. A new one is for changes that older releases cannot read. Within
 * a minor version there is none, so its releases open what others of them wrote.
 */
export const dataFormats: readonly DataFormat[] = [{ format: 1, since: '0.1.0', what: 'the first format' }]

/** The content of `release.json`. */
export interface DataRelease {
  format: number
  version: string
  commit: string
  /** The operator agreed to this format: older releases will not open the directory. */
  agreed: number
}

const fileName = 'release.json'
/** One of them is in every data directory, also in those without `release.json`. */
const storeNames = ['metadata', 'blobs', 'extents']
const firstRelease: DataRelease = { format: 1, version: 'unknown', commit: 'unknown', agreed: 1 }

/**
 * @returns undefined: nothing is written there.
 * @throws StartFault `DATA_FORMAT` when the file is not a valid `release.json`.
 */
export async function dataReleaseOf(path: string): Promise<DataRelease | undefined> {
  const file = join(path, fileName)
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (['ENOENT', 'ENOTDIR'].includes(code)) return undefined
    throw new StartFault('DATA_UNUSABLE', `${file} cannot be read: ${(error as Error).message}`, {
      cause: error,
    })
  }
  const reported = parseRelease(text)
  if (!Number.isSafeInteger(reported?.format) || (reported?.format as number) < 1)
    throw new StartFault('DATA_FORMAT', `${file} is damaged: it must say the format of the data directory`)
  return { ...firstRelease, ...reported } as DataRelease
}

/**
 * Whether this release may write to the directory. It may write to one without a store: no older
 * release has data there.
 * @param formats those that this release knows; it writes the last one.
 * @throws StartFault `DATA_FORMAT`: a newer release wrote it, or older ones would not open it any
 *   more and no operator agreed to that.
 */
export async function checkDataFormat(path: string, formats = dataFormats): Promise<void> {
  const written = await dataReleaseOf(path)
  if (written === undefined && !(await hasStore(path))) return
  const reported = written ?? firstRelease
  const own = newestOf(formats)
  if (reported.format > own.format)
    throw new StartFault(
      'DATA_FORMAT',
      `the data directory ${path} has format ${reported.format}, written by release ${reported.version}; release ${version} reads up to ${own.format}: start release ${reported.version} or a later one, or restore a backup of before`,
    )
  if (reported.format < own.format && reported.agreed < own.format)
    throw new StartFault(
      'DATA_FORMAT',
      `the data directory ${path} has format ${reported.format}, this release writes ${own.format} (${own.what}): releases before ${own.since} do not open it after that. Take a backup, then agree: ctl upgrade ${path} --yes`,
    )
}

/** Writes down that this release writes here; nothing when that is written. */
export async function signDataFormat(path: string, formats = dataFormats): Promise<void> {
  const { format } = newestOf(formats)
  await write(path, { format, version, commit, agreed: format })
}

/**
 * For the operator: what would happen at a start of this release.
 * @param yes agrees to a step that cannot be rolled back.
 * @throws StartFault `DATA_MISSING` when the path has no store, `DATA_FORMAT`, `DATA_UNUSABLE`.
 */
export async function upgradeOf(
  path: string,
  { yes, formats = dataFormats }: { yes: boolean; formats?: readonly DataFormat[] },
): Promise<{
  directory: DataRelease
  release: { version: string; format: number }
  opens: boolean
  answer: string
}> {
  const written = await dataReleaseOf(path)
  if (written === undefined && !(await hasStore(path)))
    throw new StartFault('DATA_MISSING', `${path} has no store: is it the data directory, and mounted?`)
  const reported = written ?? firstRelease
  const own = newestOf(formats)
  if (yes && reported.format < own.format) await write(path, { ...reported, agreed: own.format })
  const answer =
    reported.format > own.format
      ? `this release does not open it: start ${reported.version} or a later one`
      : reported.format === own.format
        ? 'this release opens it, and a rollback within the minor version does, too'
        : yes
          ? `agreed: the next start writes format ${own.format}`
          : `this release changes it (${own.what}): releases before ${own.since} do not open it after that. --yes agrees`
  const opens =
    reported.format === own.format || (reported.format < own.format && (yes || reported.agreed >= own.format))
  return { directory: reported, release: { version, format: own.format }, opens, answer }
}

/**
 * For machines whose disk may be missing at a start.
 * @param stores paths below the directory that exist where there is a store.
 * @throws StartFault `DATA_MISSING`, or `DATA_UNUSABLE` when that cannot be seen; nothing is made.
 */
export async function requireStores(path: string, stores: readonly string[]): Promise<void> {
  const missing = stores[(await existing(path, stores)).indexOf(false)]
  if (missing === undefined) return
  throw new StartFault(
    'DATA_MISSING',
    `the data directory ${path} has no store (${missing} is missing), and HOLDFAST_REQUIRE_STORE=on makes none: is its disk mounted? For a first start set it to off`,
  )
}

/** @throws StartFault `DATA_UNUSABLE` */
async function hasStore(path: string): Promise<boolean> {
  return (await existing(path, storeNames)).includes(true)
}

/** @throws StartFault `DATA_UNUSABLE`: another user's directory is not a missing one. */
function existing(path: string, names: readonly string[]): Promise<boolean[]> {
  return Promise.all(
    names.map(async (name) => {
      try {
        await access(join(path, name))
        return true
      } catch (error) {
        const { code = '', message } = error as NodeJS.ErrnoException
        if (['ENOENT', 'ENOTDIR'].includes(code)) return false
        throw new StartFault('DATA_UNUSABLE', `the data directory ${path} cannot be read: ${message}`, {
          cause: error,
        })
      }
    }),
  )
}

function newestOf(formats: readonly DataFormat[]): DataFormat {
  return formats.at(-1) as DataFormat
}

function parseRelease(text: string): Partial<DataRelease> | undefined {
  try {
    return JSON.parse(text) as Partial<DataRelease>
  } catch {
    return undefined
  }
}

/** Whole or not at all. */
async function write(path: string, release: DataRelease): Promise<void> {
  const text = `${JSON.stringify(release)}\n`
  const file = join(path, fileName)
  if ((await readFile(file, 'utf8').catch(() => '')) === text) return
  const unnamed = `${file}.${hex(randomBytes(4))}`
  try {
    {
      await using handle = await open(unnamed, 'wx', 0o600)
      await handle.writeFile(text)
      await handle.sync()
    }
    await rename(unnamed, file)
  } catch (error) {
    await rm(unnamed, { force: true })
    throw error
  }
}
