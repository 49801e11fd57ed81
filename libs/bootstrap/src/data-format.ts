/**
 * The format of a data directory: `release.json` in it says the format, and which release wrote it
 * last. It is read before any store is opened, so a release never touches what it does not know.
 *
 * A directory without this file has the first format: releases before it wrote none.
 *
 * The file ends with a checksum, because a changed digit is still JSON, and has a copy,
 * `release.json.copy`. If both are damaged or unreadable, the directory counts as one of the
 * release that starts, because only a rollback depends on the file. The metadata and the chunk
 * store have formats of their own: an older release refuses metadata that is too new for it, and
 * never writes to extents that are.
 */

import { hash, randomBytes } from 'node:crypto'
import { access, open, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { hex, isUnreadable } from '@holdfast/kernel'
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
/** The copy is written first. If it differs from an undamaged `release.json`, the latter counts. */
const copyName = 'release.json.copy'
/** One of them is in every data directory, also in those without `release.json`. */
const storeNames = ['metadata', 'blobs', 'extents']
const firstRelease: DataRelease = { format: 1, version: 'unknown', commit: 'unknown', agreed: 1 }

export interface FoundRelease {
  /** Undefined: nothing is written there. */
  release: DataRelease | undefined
  /** Files that are damaged or cannot be read, each with the reason. */
  damage: string[]
}

/**
 * @param formats those that this release knows: without a whole file the directory has the last one
 * @throws StartFault `DATA_UNUSABLE`: a file cannot be opened, for another reason than damage.
 */
export async function dataReleaseOf(path: string, formats = dataFormats): Promise<FoundRelease> {
  const files = await Promise.all([fileName, copyName].map((name) => readRelease(join(path, name))))
  const damage = files.flatMap((file) => file?.damage ?? [])
  const whole = files.find((file) => file?.release !== undefined)?.release
  if (whole !== undefined || damage.length === 0) return { release: whole, damage }
  const { format } = newestOf(formats)
  return { release: { ...firstRelease, format, agreed: format }, damage }
}

/**
 * Whether this release may write to the directory. It may write to one without a store: no older
 * release has data there.
 * @param formats those that this release knows; it writes the last one.
 * @returns what is damaged of the note itself, for the log: `signDataFormat` replaces it.
 * @throws StartFault `DATA_FORMAT`: a newer release wrote it, or older ones would not open it any
 *   more and no operator agreed to that.
 */
export async function checkDataFormat(path: string, formats = dataFormats): Promise<string[]> {
  const { release: written, damage } = await dataReleaseOf(path, formats)
  if (written === undefined && !(await hasStore(path))) return damage
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
  return damage
}

/**
 * Records in the directory that this release writes to it. Changes nothing if the record exists. A
 * damaged file is kept under its name with `.damaged` appended.
 */
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
  const { release: written } = await dataReleaseOf(path, formats)
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

/**
 * Which of these names exist.
 * @throws StartFault `DATA_UNUSABLE` when that cannot be read, for example because the directory
 *   belongs to another user: it does not count as missing.
 */
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

interface ReleaseFile {
  text: string
  /** Undefined: it is damaged. */
  release: DataRelease | undefined
  damage: string | undefined
}

/** Undefined: there is no such file. @throws StartFault `DATA_UNUSABLE` */
async function readRelease(file: string): Promise<ReleaseFile | undefined> {
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException
    if (['ENOENT', 'ENOTDIR'].includes(code)) return undefined
    if (isUnreadable(error))
      return { text: '', release: undefined, damage: `${file} cannot be read: ${message}` }
    throw new StartFault('DATA_UNUSABLE', `${file} cannot be read: ${message}`, { cause: error })
  }
  const release = decode(text)
  return { text, release, damage: release === undefined ? `${file} is damaged` : undefined }
}

/** Undefined: it is damaged. */
function decode(text: string): DataRelease | undefined {
  try {
    const { sum, ...reported } = JSON.parse(text) as Partial<DataRelease> & { sum?: unknown }
    if (!Number.isSafeInteger(reported.format) || (reported.format as number) < 1) return undefined
    // Earlier releases wrote none.
    if (sum !== undefined && text !== sealed(text.slice(0, text.indexOf(sumBegins)))) return undefined
    return { ...firstRelease, ...reported }
  } catch {
    return undefined
  }
}

const sumBegins = ',"sum":'

/** Of JSON without its last brace. Later releases may have more before the checksum. */
function sealed(begin: string): string {
  return `${begin}${sumBegins}"${hash('sha256', begin).slice(0, 16)}"}\n`
}

async function write(path: string, release: DataRelease): Promise<void> {
  const text = sealed(JSON.stringify(release).slice(0, -1))
  for (const name of [copyName, fileName]) await writeWhole(join(path, name), text)
}

/** Whole or not at all. */
async function writeWhole(file: string, text: string): Promise<void> {
  const before = await readRelease(file)
  if (before?.text === text) return
  const unnamed = `${file}.${hex(randomBytes(4))}`
  try {
    {
      await using handle = await open(unnamed, 'wx', 0o600)
      await handle.writeFile(text)
      await handle.sync()
    }
    if (before?.damage !== undefined) await rename(file, `${file}.damaged`)
    await rename(unnamed, file)
  } catch (error) {
    await rm(unnamed, { force: true })
    throw error
  }
}
