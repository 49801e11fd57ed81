/**
 * Replaces the damaged files of a LevelDB, so that it opens with everything that can be read.
 *
 * LevelDB itself refuses to open, ends the process, or takes rows that it cannot read for rows that
 * never existed. Its first compaction then makes that loss permanent. So its files are compared
 * before it is opened, and no other process may have it open while they are replaced.
 */
import { mkdir, readdir, rm, stat, symlink } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { absent } from '@holdfast/kernel'
import {
  contentsOf,
  isWholeLog,
  type KeyRange,
  keyRangeOf,
  type LiveTable,
  logDamage,
  type Manifest,
  readManifest,
  salvagedTable,
  tableDamage,
  writeManifest,
} from '@holdfast/level-files'
import { Level } from 'level'
import {
  type DamagedFile,
  type DamageRecord,
  dropStaged,
  readDamage,
  replaceFiles,
  stageReplacement,
  writeDamage,
} from './damage-record.ts'
import { readTolerantly, type TolerantRead } from './tolerant-read.ts'
import type { ComparesTable } from './uncached-read.ts'

/** Bytes of tables compared in about a second, newest first, where not all of them are. */
const checkedBytesMax = 256 * 1024 * 1024

export interface SalvageOptions {
  /**
   * Compares all tables, however many there are. LevelDB maps tables into memory: a read of a
   * sector that the disk cannot read would end the process.
   */
  all: boolean
  /**
   * Compares a table on the disk, where the page cache may still have the right bytes of a damaged
   * one; they replace it. Undefined: tables are read through the page cache.
   */
  damageOnDisk: ComparesTable | undefined
}

interface Replacement extends DamagedFile {
  /** Undefined: the file is only moved away. */
  bytes: Buffer | undefined
  lost: KeyRange[]
  /** It is a new list of all tables. */
  isRebuilt: boolean
}

const lossless = { isGone: false, isRebuilt: false, lost: [] }
const everything: KeyRange = { after: undefined, through: undefined }
/** Of a file that another process has removed meanwhile. */
const nothing: TolerantRead = { bytes: Buffer.alloc(0), unreadable: 0 }
const isTable = (name: string) => /^\d+\.(?:ldb|sst)$/.test(name)
const isLog = (name: string) => /^\d+\.log$/.test(name)
const isManifest = (name: string) => /^MANIFEST-\d+$/.test(name)
const numberOf = (name: string) => Number(/\d+/.exec(name)?.[0])

/** Whether files have to be replaced before LevelDB may be opened. */
export async function needsSalvage(rows: string, options: SalvageOptions): Promise<boolean> {
  if ((await readDamage(dirname(rows))) !== undefined) return true
  for await (const _ of damagedFiles(rows, options)) return true
  return false
}

/**
 * Replaces what is damaged.
 * @param rows directory of the LevelDB, which is closed
 * @returns what has to be written into the LevelDB before anything is read from it; then
 *   `forgetDamage`
 * @throws JournalFault UNAVAILABLE when another process has the directory
 */
export async function salvageRows(rows: string, options: SalvageOptions): Promise<DamageRecord> {
  const metadata = dirname(rows)
  return whileLocked(rows, async () => {
    const record = (await readDamage(metadata)) ?? { files: [], lost: [], isRebuilt: false }
    if (record.files.length > 0) await replaceFiles(metadata, rows, record)
    else await dropStaged(metadata)
    const before = record.files.length
    for await (const { name, damage, isGone, bytes, lost, isRebuilt } of damagedFiles(rows, options)) {
      // Its damage was found before it took its place.
      if (isLog(name) && record.files.some((one) => one.name === name)) continue
      if (bytes !== undefined) await stageReplacement(metadata, name, bytes)
      record.files.push({ name, damage, isGone })
      record.lost.push(...lost)
      record.isRebuilt ||= isRebuilt
    }
    if (record.files.length === before) return record
    await writeDamage(metadata, record)
    await replaceFiles(metadata, rows, record)
    return record
  })
}

/**
 * LevelDB locks a file, so another one locks the same file by a link to it.
 *
 * Within one process this lock does not exclude a second one, and it releases the first: a process
 * does not open a directory twice.
 */
async function whileLocked<Result>(rows: string, work: () => Promise<Result>): Promise<Result> {
  const path = join(dirname(rows), 'lock')
  await rm(path, { recursive: true, force: true })
  await mkdir(path, { mode: 0o700 })
  await symlink(resolve(rows, 'LOCK'), join(path, 'LOCK'))
  const level = new Level(path)
  try {
    await level.open()
    return await work()
  } finally {
    await level.close()
    await rm(path, { recursive: true, force: true })
  }
}

async function* damagedFiles(rows: string, options: SalvageOptions): AsyncGenerator<Replacement> {
  const names = (await readdir(rows).catch(absent)) ?? []
  if (!(await holdsRows(rows, names))) return
  yield* damagedLogs(rows, names)
  const { manifest, damage, replacements } = await manifestIn(rows, names)
  if (manifest !== undefined && damage === undefined) {
    yield* replacements
    yield* damagedTables(rows, manifest.tables, options)
  } else yield* rebuilt(rows, names, { manifest, damage: damage ?? 'it is missing' })
}

/** Not where LevelDB was interrupted before its first row. */
async function holdsRows(rows: string, names: readonly string[]): Promise<boolean> {
  if (names.includes('CURRENT') || names.some(isTable)) return true
  for (const name of names.filter(isLog)) if ((await stat(join(rows, name))).size > 0) return true
  return false
}

/**
 * LevelDB would drop everything behind an unreadable sector, but behind zeros it reads on. A log
 * with a damaged record is replaced by a copy of itself: LevelDB reads it and removes it, and the
 * original is kept.
 */
async function* damagedLogs(rows: string, names: readonly string[]): AsyncGenerator<Replacement> {
  for (const name of names.filter(isLog)) {
    const log = await readTolerantly(join(rows, name))
    if (log === undefined) continue
    const { bytes } = log
    if (log.unreadable > 0) yield { ...lossless, name, damage: unreadable(log), bytes }
    else if (!isWholeLog(bytes))
      yield { ...lossless, name, damage: logDamage(bytes) ?? 'its last records are damaged', bytes }
  }
}

function unreadable({ unreadable: pieces }: TolerantRead): string {
  return `the disk cannot read ${pieces} of its pieces of 4 KiB`
}

interface FoundManifest {
  manifest: Manifest | undefined
  /** Why the manifest has to be made again. */
  damage: string | undefined
  replacements: Replacement[]
}

/** The manifest that CURRENT names, or the newest one if CURRENT is damaged. */
async function manifestIn(rows: string, names: readonly string[]): Promise<FoundManifest> {
  const current = await readTolerantly(join(rows, 'CURRENT'))
  const named = /^(MANIFEST-\d+)\n$/.exec(current?.bytes.toString('latin1') ?? '')?.[1]
  const newestFirst = names.filter(isManifest).sort((one, other) => numberOf(other) - numberOf(one))
  const isCurrent = named !== undefined && names.includes(named)
  for (const name of isCurrent ? [named] : newestFirst) {
    const read = (await readTolerantly(join(rows, name))) ?? nothing
    const manifest = readManifest(read.bytes)
    if (manifest === undefined) continue
    const replacements = isCurrent ? [] : [currentOf(name)]
    return { manifest, damage: damageOfManifest(manifest, read, names), replacements }
  }
  return { manifest: undefined, damage: 'no list of tables is whole', replacements: [] }
}

function currentOf(manifest: string, damage = 'it names no list of tables'): Replacement {
  return { ...lossless, name: 'CURRENT', damage, bytes: Buffer.from(`${manifest}\n`) }
}

/**
 * Unreadable pieces are read as zeros. At the end of the manifest they would pass for a torn end,
 * so an unreadable piece counts as damage.
 */
function damageOfManifest(
  manifest: Manifest,
  read: TolerantRead,
  names: readonly string[],
): string | undefined {
  if (read.unreadable > 0) return unreadable(read)
  return isBehind(manifest, names) ? 'its end is missing' : undefined
}

/**
 * Whether the last entries of the manifest are lost. LevelDB removes logs and tables only when the
 * manifest no longer names them. So every file that a complete manifest names exists, and other
 * files exist only if a crash left them unfinished.
 */
function isBehind({ logNumber, tables }: Manifest, names: readonly string[]): boolean {
  const known = new Set(tables.map(({ number }) => number))
  const there = new Set(names.filter(isTable).map(numberOf))
  const isMissing = !names.some((name) => isLog(name) && numberOf(name) === logNumber)
  const isTableMissing = [...known].some((number) => !there.has(number))
  return (isMissing || isTableMissing) && [...there].some((number) => !known.has(number))
}

async function* damagedTables(
  rows: string,
  tables: readonly LiveTable[],
  { all, damageOnDisk }: SalvageOptions,
): AsyncGenerator<Replacement> {
  let checked = 0
  for (const table of tables.toSorted((one, other) => other.number - one.number)) {
    checked += table.bytes
    const path = await pathOfTable(rows, table.number)
    const isRead = all || checked <= checkedBytesMax
    if (!isRead && (await stat(path).catch(absent))?.size === table.bytes) continue
    const onDisk = await damageOnDisk?.(path, table)
    if (damageOnDisk !== undefined && onDisk === undefined) continue
    const read = await readTolerantly(path)
    const damaged = damageOf(table, read)
    const name = path.slice(rows.length + 1)
    if (damaged !== undefined) yield { ...lossless, name, ...damaged }
    else if (onDisk !== undefined && read !== undefined)
      yield { ...lossless, name, damage: `${onDisk}; memory had it whole`, bytes: read.bytes }
  }
}

function damageOf(
  live: LiveTable,
  read: TolerantRead | undefined,
): Pick<Replacement, 'damage' | 'bytes' | 'lost'> | undefined {
  const { bytes } = live
  const table = read?.bytes.subarray(0, bytes) ?? Buffer.alloc(0)
  const damage =
    read === undefined ? 'it is missing' : table.length < bytes ? 'its end is missing' : tableDamage(table)
  if (read !== undefined && damage === undefined && read.unreadable === 0) return undefined
  const salvaged = salvagedTable(table, { bytes, bounds: keyRangeOf(live) })
  return {
    damage: damage ?? unreadable(read as TolerantRead),
    bytes: salvaged?.table ?? table,
    lost: salvaged?.lost ?? [],
  }
}

/** A table has one of two names. */
export async function pathOfTable(rows: string, number: number): Promise<string> {
  const base = join(rows, String(number).padStart(6, '0'))
  const older = `${base}.sst`
  return (await stat(older).catch(absent)) === undefined ? `${base}.ldb` : older
}

/**
 * A new list of all tables that are there. They are in no order of age until they are compacted.
 * @param options.manifest the old one, if it can be read: what it names and is missing counts as
 *   lost
 */
async function* rebuilt(
  rows: string,
  names: readonly string[],
  { manifest, damage }: { manifest: Manifest | undefined; damage: string },
): AsyncGenerator<Replacement> {
  const tables: LiveTable[] = []
  let lastSequence = 0n
  for (const name of names.filter(isTable)) {
    const { contents, replacement } = await tableAlone(join(rows, name), name)
    if (replacement !== undefined) yield replacement
    if (contents === undefined) continue
    tables.push({ ...contents, level: 0, number: numberOf(name) })
    if (contents.lastSequence > lastSequence) lastSequence = contents.lastSequence
  }
  const highest = Math.max(0, ...names.map(numberOf).filter(Number.isSafeInteger))
  const logs = names.filter(isLog).map(numberOf)
  const made = writeManifest({
    comparator: 'leveldb.BytewiseComparator',
    logNumber: logs.length === 0 ? 0 : Math.min(...logs),
    previousLogNumber: 0,
    nextFile: highest + 2,
    lastSequence,
    tables,
  })
  const name = `MANIFEST-${String(highest + 1).padStart(6, '0')}`
  yield { name, damage, isGone: false, bytes: made, lost: missingFrom(manifest, names), isRebuilt: true }
  yield currentOf(name, damage)
  for (const old of names.filter(isManifest))
    yield { ...lossless, name: old, damage, isGone: true, bytes: undefined }
}

async function tableAlone(path: string, name: string) {
  const read = (await readTolerantly(path)) ?? nothing
  const damage = tableDamage(read.bytes) ?? (read.unreadable > 0 ? unreadable(read) : undefined)
  if (damage === undefined) return { contents: entriesOf(read.bytes), replacement: undefined }
  const { table, lost } = salvagedAlone(read.bytes) ?? { table: read.bytes, lost: [] }
  const replacement: Replacement = {
    ...lossless,
    name,
    damage,
    isGone: table === undefined,
    bytes: table,
    lost,
  }
  return { contents: table && entriesOf(table), replacement }
}

function salvagedAlone(bytes: Buffer): { table: Buffer | undefined; lost: KeyRange[] } | undefined {
  if (bytes.length < smallestTableBytes) return { table: undefined, lost: [everything] }
  return salvagedTable(bytes, { bytes: bytes.length, bounds: undefined })
}

/** Without an entry: two empty lists and the end. */
const smallestTableBytes = 8 + 5 + 8 + 5 + 48

function entriesOf(table: Buffer) {
  const contents = contentsOf(table)
  return contents && { ...contents, bytes: table.length }
}

function missingFrom(manifest: Manifest | undefined, names: readonly string[]): KeyRange[] {
  const there = new Set(names.filter(isTable).map(numberOf))
  return (manifest?.tables ?? []).filter(({ number }) => !there.has(number)).map(keyRangeOf)
}
