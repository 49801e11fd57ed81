/**
 * What a damaged LevelDB lost, written down before any of its files is replaced.
 *
 * A replaced file hides the loss, so it must not be used before its ranges are in the store. The
 * steps, each of which a crash may precede:
 *
 * 1. The replacements are written to `salvaged/`, beside the LevelDB.
 * 2. `damage.json` names them with the lost ranges. From here on they count.
 * 3. The damaged files move to `damaged/`, the replacements into their places.
 * 4. LevelDB is opened, and the ranges are written into tables of it. In its log a further damage
 *    could take them without a sign.
 * 5. `damage.json` is removed.
 *
 * The next opening repeats the steps from 3 on if there is a `damage.json`, from 1 on if there is
 * none.
 */
import { cp, mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { JournalFault } from '@holdfast/journal'
import { absent, hex, syncDirectory } from '@holdfast/kernel'
import type { KeyRange } from '@holdfast/level-files'

export interface DamagedFile {
  name: string
  damage: string
  /** It has no replacement. */
  isGone: boolean
}

export interface DamageRecord {
  files: DamagedFile[]
  lost: KeyRange[]
  /**
   * The list of tables was made again: tables are not in the order of their age, and removed rows
   * may be back.
   */
  isRebuilt: boolean
}

const version = 1
const fileName = 'damage.json'
const salvagedFolder = 'salvaged'
const damagedFolder = 'damaged'

/**
 * The record of a damage that is not dealt with.
 * @throws JournalFault CORRUPT: it is damaged itself
 */
export async function readDamage(metadata: string): Promise<DamageRecord | undefined> {
  const path = join(metadata, fileName)
  const text = await readFile(path, 'utf8').catch(absent)
  if (text === undefined) return undefined
  try {
    return decode(text)
  } catch (cause) {
    throw new JournalFault('CORRUPT', `${path} is damaged`, { cause })
  }
}

function decode(text: string): DamageRecord {
  const reported = JSON.parse(text)
  if (reported.version !== version) throw new Error(`it has version ${reported.version}`)
  const end = (hex: string | null) => (hex === null ? undefined : Buffer.from(hex, 'hex'))
  return {
    files: reported.files,
    lost: reported.lost.map(([after, through]: [string | null, string | null]) => ({
      after: end(after),
      through: end(through),
    })),
    isRebuilt: reported.isRebuilt,
  }
}

function encode({ files, lost, isRebuilt }: DamageRecord): string {
  const text = (key: Uint8Array | undefined) => (key === undefined ? null : hex(key))
  const ends = lost.map(({ after, through }) => [text(after), text(through)])
  return `${JSON.stringify({ version, files, lost: ends, isRebuilt })}\n`
}

/** Step 1. */
export async function stageReplacement(metadata: string, name: string, bytes: Uint8Array): Promise<void> {
  const folder = join(metadata, salvagedFolder)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  await writeDurably(join(folder, name), bytes)
  await syncDirectory(folder)
}

/** Before step 1: removes what an interrupted one left. */
export async function dropStaged(metadata: string): Promise<void> {
  await rm(join(metadata, salvagedFolder), { recursive: true, force: true })
}

/** Step 2. */
export async function writeDamage(metadata: string, record: DamageRecord): Promise<void> {
  const path = join(metadata, fileName)
  await writeDurably(`${path}.new`, Buffer.from(encode(record)))
  await rename(`${path}.new`, path)
  await syncDirectory(metadata)
}

/** Step 3, in the directory of the LevelDB. */
export async function replaceFiles(metadata: string, rows: string, record: DamageRecord): Promise<void> {
  const damaged = join(metadata, damagedFolder)
  const salvaged = join(metadata, salvagedFolder)
  await mkdir(damaged, { recursive: true, mode: 0o700 })
  const waiting = new Set(await namesIn(salvaged))
  const nowMs = Date.now()
  for (const { name, isGone } of record.files) {
    const isWaiting = waiting.has(name)
    if (!isGone && !isWaiting) continue
    await rename(join(rows, name), join(damaged, `${name}.${nowMs}`)).catch(absent)
    await syncDirectory(damaged)
    if (isWaiting) await rename(join(salvaged, name), join(rows, name))
  }
  await syncDirectory(rows)
  await dropStaged(metadata)
  await syncDirectory(metadata)
}

/** Step 5. */
export async function forgetDamage(metadata: string): Promise<void> {
  await rm(join(metadata, fileName), { force: true })
  await syncDirectory(metadata)
}

/** For a copy of the LevelDB elsewhere: what is not dealt with concerns it, too. */
export async function copyDamage(from: string, to: string): Promise<void> {
  for (const name of [fileName, salvagedFolder])
    await cp(join(from, name), join(to, name), { recursive: true }).catch(absent)
}

/** Damaged files that were kept. */
export async function countDamagedFiles(metadata: string): Promise<number> {
  return (await namesIn(join(metadata, damagedFolder))).length
}

async function namesIn(folder: string): Promise<string[]> {
  return (await readdir(folder).catch(absent)) ?? []
}

async function writeDurably(path: string, bytes: Uint8Array): Promise<void> {
  await using file = await open(path, 'w', 0o600)
  await file.writeFile(bytes)
  await file.sync()
}
