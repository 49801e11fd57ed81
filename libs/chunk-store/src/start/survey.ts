/**
 * What a start finds in the directory, before anything is changed: the store's identity, its
 * extents, and which of them hold what the catalogue does not know.
 *
 * None of it prevents the start. A header exists twice and the copies are read separately. Where
 * neither is readable, the records show the generation of the file, by seals that only this store
 * can make. Files of other stores, files with unidentified content, and files for which the disk
 * returns errors go into quarantine (`Extent.quarantine`): served as far as they can be read, and
 * never written to, reused or removed.
 */
import { join } from 'node:path'
import { BlobFault } from '@holdfast/blob-store'
import { alignedBytes, hex, isShortage, isUnreadable } from '@holdfast/kernel'
import type { Catalogue } from '../catalogue/catalogue.ts'
import {
  blobPrefix,
  type Copy,
  decodeCopies,
  decodeExtentRow,
  type ExtentRow,
  extentPrefix,
} from '../catalogue/rows.ts'
import type { Disk, DiskFile } from '../disk/disk.ts'
import { faultOfDisk, isUnopenable } from '../disk/faults.ts'
import { Extent } from '../extents/extent.ts'
import { type ExtentFiles, extentFileName, extentNumberOf } from '../extents/extent-files.ts'
import { readAround, windowBytes } from '../extents/scan.ts'
import {
  blockBytes,
  decodeExtentHeader,
  type ExtentHeader,
  firstRecordOffset,
  generationAt,
  generationNamed,
  HeaderSeal,
  isHeaderBegun,
  type StoreIdentity,
} from '../format.ts'
import type { Log } from '../log.ts'
import { bytesOfRun, readStoreInfo, type StoreInfo } from '../writing/ledger.ts'
import { type CleanShutdownMarker, endMarkKey } from './clean-shutdown-marker.ts'
import { type IdentityFile, identityFileName } from './identity-file.ts'

export interface SurveyResult {
  info: StoreInfo
  extents: Extent[]
  /** Free, with a header that does not say so yet. */
  halfFreed: Extent[]
  /** To be scanned, from this position on. */
  scans: { extent: Extent; from: number }[]
  /**
   * The catalogue cannot be trusted as it is: live bytes are counted again, and rows that point
   * nowhere are removed.
   */
  audit: boolean
  /** The complete catalogue of a clean shutdown. */
  inOrder: boolean
}

export interface SurveyDeps {
  catalogue: Catalogue
  disk: Disk
  directory: string
  files: ExtentFiles
  end: CleanShutdownMarker
  identity: IdentityFile
  log: Log
  /** Unix time. */
  nowMs: number
  randomFill: (bytes: Buffer) => Buffer
}

/** A file of an extent, as far as it could be read. */
interface FoundFile {
  size: number
  header: ExtentHeader | undefined
  /** Both copies, where neither is whole. */
  blocks: Buffer | undefined
  /** The disk returned an error for a copy of the header. */
  hasErrors: boolean
  isOpenable: boolean
  /** Live blobs lie behind its end. */
  isCut: boolean
}

/** Reads the catalogue and the headers of all extents; changes nothing. @throws as `looking` */
export function survey(deps: SurveyDeps): Promise<SurveyResult> {
  return looking(() => surveyAll(deps))
}

/**
 * @throws BlobFault `IO` also when there are too few descriptors or too little memory: that says
 *   nothing about the files.
 */
export async function looking<Result>(look: () => Promise<Result>): Promise<Result> {
  try {
    return await look()
  } catch (error) {
    const { code, message, cause } = error as NodeJS.ErrnoException
    if (isShortage(error) || isShortage(cause ?? {})) {
      const why = 'too few descriptors, or too little memory, to read the extents'
      throw new BlobFault('IO', `${why}: ${message}`, { cause: error })
    }
    throw code === undefined ? error : faultOfDisk(error, 'looking at the extents')
  }
}

async function surveyAll(deps: SurveyDeps): Promise<SurveyResult> {
  const { catalogue, disk, directory, files, end, log } = deps
  const known = await readStoreInfo(catalogue)
  const [endMark] = await catalogue.get([endMarkKey])
  const rows = new Map<number, ExtentRow>()
  if (known !== undefined)
    for (const { key, value } of await catalogue.scan(extentPrefix, { limit: 1_000_000 }))
      rows.set(key.readUInt32BE(1), decodeExtentRow(key, value))
  const found = new Map<number, FoundFile>()
  for (const name of await disk.list(directory)) {
    const number = extentNumberOf(name)
    if (number !== undefined) found.set(number, await lookAt(disk, join(directory, name)))
  }
  await findCut(rows, found, catalogue)
  const info = known ?? (await infoWithoutCatalogue(found, deps))
  const result: SurveyResult = {
    info,
    extents: [],
    halfFreed: [],
    scans: [],
    audit: known === undefined,
    inOrder: await end.wasMarked(endMark),
  }
  for (const number of new Set([...rows.keys(), ...found.keys()])) {
    const extent = new Extent(number, files)
    await adopt(extent, rows.get(number), found.get(number), result, log)
    if (extent.state === 'free')
      extent.holeBytes = Math.max(0, extent.fileBytes - (await extent.allocatedBytes()))
  }
  return result
}

async function adopt(
  extent: Extent,
  row: ExtentRow | undefined,
  file: FoundFile | undefined,
  result: SurveyResult,
  log: Log,
): Promise<void> {
  if (file === undefined) {
    if (row !== undefined && row.state !== 'free' && row.liveBytes > 0) {
      const { liveBytes } = row
      const details = { file: extentFileName(extent.number), reason: 'missing', liveBytes }
      log.error(details, 'the file of an extent is missing')
      const rest = { untilMs: Number.POSITIVE_INFINITY, liveBytes }
      Object.assign(extent, row, { state: 'sealed', rest, quarantine: undefined, gap: false })
      // If the shutdown was clean, the operator removed the file since then: that ends its gap.
      extent.setAside('missing', { gap: !result.inOrder && holdsNews(row, result) })
      result.extents.push(extent)
    }
    return
  }
  const { header } = file
  extent.fileBytes = file.size
  result.extents.push(extent)
  if (row !== undefined) Object.assign(extent, row)
  // A quarantine for a damaged, foreign or missing file is decided again: the operator may have put
  // the right file back.
  if (row?.quarantine !== 'unreadable') Object.assign(extent, { quarantine: undefined, gap: false })
  if (!file.isOpenable) {
    extent.state = 'sealed'
    extent.setAside('unreadable', { gap: row === undefined || holdsNews(row, result) })
  } else if (header === undefined && (file.size > 0 || file.hasErrors))
    await adoptHeadless(extent, row, file, result)
  else if (header !== undefined && !isOwn(header, extent, result.info)) setAsideForeign(extent, row, result)
  else adoptWhole(extent, row, header, result)
  if (header !== undefined && file.hasErrors) extent.setAside('unreadable')
  if (file.isCut && row !== undefined) extent.setAside('damaged', { gap: holdsNews(row, result) })
  if (extent.quarantine === undefined) return
  if (extent.state === 'free') extent.state = 'sealed'
  const details = { file: extentFileName(extent.number), reason: extent.quarantine, bytes: file.size }
  log.error(details, 'an extent is in quarantine: its readable content is served, and it is never used again')
}

/** Its header is whole, or there is none because it is empty. */
function adoptWhole(
  extent: Extent,
  row: ExtentRow | undefined,
  header: ExtentHeader | undefined,
  result: SurveyResult,
): void {
  if (header !== undefined) {
    noteGeneration(header.generation, result.info)
    result.info.nextSequence = Math.max(result.info.nextSequence, header.firstSequence)
  }
  if (header !== undefined && header.generation > extent.generation) {
    // Opened after the catalogue's moment.
    beginScanned(extent, header.generation, result)
  } else if (row === undefined) {
    extent.state = 'free' // its opening was not finished
  } else if (row.state === 'free') {
    if (header?.generation !== row.generation) result.halfFreed.push(extent)
  } else scanNews(extent, row, result)
}

/** Neither copy of its header can be read: its records identify it. */
async function adoptHeadless(
  extent: Extent,
  row: ExtentRow | undefined,
  { size, blocks, hasErrors }: FoundFile,
  result: SurveyResult,
): Promise<void> {
  const reason = hasErrors ? 'unreadable' : 'damaged'
  if (row !== undefined && result.inOrder) {
    extent.setAside(reason)
    return
  }
  const { generation, isBlank, unread } = await generationOf(extent, result.info)
  if (generation !== undefined) noteGeneration(generation, result.info)
  const begun = blocks && !hasErrors ? generationBegun(blocks, extent, result.info) : undefined
  const isHeader = blocks !== undefined && !hasErrors && isBegun(blocks)
  if (begun !== undefined && begun > Math.max(generation ?? 0, extent.generation)) {
    // It was emptied and its next header was being written: no record is written before that is
    // synced.
    noteGeneration(begun, result.info)
    extent.state = 'free'
    extent.generation = begun
    result.halfFreed.push(extent)
  } else if (generation !== undefined && generation > extent.generation) {
    beginScanned(extent, generation, result)
    extent.setAside(reason, { gap: unread > 0 })
  } else if (row === undefined) {
    // A header whose write a power failure interrupted, and nothing behind it.
    if (isBlank && isHeader) extent.state = 'free'
    else {
      extent.state = 'sealed'
      extent.setAside(reason, { gap: !isBlank || size === 0 })
    }
  } else if (row.state === 'free' && isHeader) {
    result.halfFreed.push(extent) // the same, of one that was emptied
  } else {
    scanNews(extent, row, result)
    extent.setAside(reason)
  }
}

/**
 * The later generation named in the copies of a torn header. A single flipped bit cannot look like
 * that.
 */
function generationBegun(blocks: Buffer, { number }: Extent, info: StoreInfo): number | undefined {
  const place = { number, storeId: info.storeId, secret: info.secret }
  const first = generationNamed(blocks, place)
  const second = generationNamed(blocks.subarray(blockBytes), place)
  return first === undefined || second === undefined ? undefined : Math.max(first, second)
}

function isBegun(blocks: Buffer): boolean {
  return isHeaderBegun(blocks.subarray(0, blockBytes)) && isHeaderBegun(blocks.subarray(blockBytes))
}

/** Records may have been written to it after the catalogue's moment. */
function holdsNews({ state }: ExtentRow, { inOrder }: SurveyResult): boolean {
  return state === 'open' || (state === 'paused' && !inOrder)
}

/**
 * Finds files that are shorter than what was placed in them, and have live blobs behind their end.
 * After a power cut a file may be short, and lack only what was never synced.
 */
async function findCut(
  rows: ReadonlyMap<number, ExtentRow>,
  found: ReadonlyMap<number, FoundFile>,
  catalogue: Catalogue,
): Promise<void> {
  const short = new Map<number, { file: FoundFile; generation: number }>()
  for (const [number, file] of found) {
    const row = rows.get(number)
    if (row === undefined || row.state === 'free' || row.liveBytes === 0) continue
    const { generation } = row
    if (!file.isOpenable || file.size >= row.frontier) continue
    if ((file.header?.generation ?? generation) === generation) short.set(number, { file, generation })
  }
  let after: Buffer | undefined
  while (short.size > 0) {
    const page = await catalogue.scan(blobPrefix, { after, limit: 1000 })
    for (const { value } of page)
      for (const copy of decodeCopies(value))
        for (const { extent, generation, end } of endsOf(copy)) {
          const suspect = short.get(extent)
          if (suspect?.generation !== generation || end <= suspect.file.size) continue
          suspect.file.isCut = true
          short.delete(extent)
        }
    after = page.at(-1)?.key
    if (after === undefined) return
  }
}

/** Where the pieces of a copy end. */
function endsOf(copy: Copy): { extent: number; generation: number; end: number }[] {
  const { commitExtent: extent, commitGeneration: generation, inlineOffset, size, runs } = copy
  if (inlineOffset !== undefined) return [{ extent, generation, end: inlineOffset + size }]
  return runs.map((run) => ({
    extent: run.extent,
    generation: run.generation,
    end: run.offset + bytesOfRun(run),
  }))
}

/** Scans extents that the catalogue calls open, for what was written after its moment. */
function scanNews(extent: Extent, row: ExtentRow, result: SurveyResult): void {
  if (row.state === 'open') {
    result.scans.push({ extent, from: row.scanFrom })
  } else if (row.state === 'paused' && !result.inOrder) {
    extent.state = 'open'
    result.scans.push({ extent, from: row.frontier })
  }
}

function beginScanned(extent: Extent, generation: number, result: SurveyResult): void {
  const { quarantine, gap } = extent
  result.audit = true
  extent.begin(generation, firstRecordOffset)
  if (quarantine !== undefined) extent.setAside(quarantine, { gap })
  result.scans.push({ extent, from: firstRecordOffset })
}

function setAsideForeign(extent: Extent, row: ExtentRow | undefined, result: SurveyResult): void {
  extent.state = 'sealed'
  extent.setAside('foreign', { gap: row !== undefined && holdsNews(row, result) })
}

function isOwn(header: ExtentHeader, extent: Extent, info: StoreInfo): boolean {
  return header.storeId.equals(info.storeId) && header.number === extent.number
}

function noteGeneration(generation: number, info: StoreInfo): void {
  info.nextGeneration = Math.max(info.nextGeneration, generation + 1)
}

async function lookAt(disk: Disk, path: string): Promise<FoundFile> {
  let file: DiskFile
  try {
    file = await disk.open(path, { create: false })
  } catch (error) {
    if (!isUnopenable(error, path)) throw error
    const nothing = { size: 0, header: undefined, blocks: undefined }
    return { ...nothing, hasErrors: true, isOpenable: false, isCut: false }
  }
  try {
    const size = await file.size()
    const blocks = alignedBytes(firstRecordOffset)
    let hasErrors = false
    const read = async (from: number, to: number, how: 'read' | 'readUncached') => {
      try {
        await file[how](blocks.subarray(from, to), from)
      } catch (error) {
        if (!isUnreadable(error)) throw error
        hasErrors = true
        blocks.fill(0, from, to)
      }
    }
    await read(0, firstRecordOffset, 'read')
    if (hasErrors) {
      hasErrors = false
      await read(0, blockBytes, 'readUncached')
      await read(blockBytes, firstRecordOffset, 'readUncached')
    }
    const header = decodeExtentHeader(blocks) ?? decodeExtentHeader(blocks.subarray(blockBytes))
    const torn = header === undefined ? blocks : undefined
    return { header, size, hasErrors, blocks: torn, isOpenable: true, isCut: false }
  } finally {
    await file.close()
  }
}

/**
 * The generation of an extent without header: the highest of a record that this store has sealed
 * for its place.
 * @returns blank when nothing was ever written behind the header; how many blocks could not be
 *   read.
 */
async function generationOf(
  extent: Extent,
  { secret }: StoreInfo,
): Promise<{ generation: number | undefined; isBlank: boolean; unread: number }> {
  const seal = new HeaderSeal(secret)
  const window = alignedBytes(windowBytes)
  const zeros = alignedBytes(windowBytes)
  let generation: number | undefined
  let isBlank = true
  let unread = 0
  for (let at = firstRecordOffset; at < extent.fileBytes; at += window.length) {
    const read = await readAround(extent, window, at)
    unread += read.unread?.size ?? 0
    const bytes = window.subarray(0, read.count)
    if (bytes.equals(zeros.subarray(0, bytes.length))) continue
    isBlank = false
    for (let from = 0; from + blockBytes <= bytes.length; from += blockBytes) {
      const found = generationAt(bytes, from, { extent: extent.number, offset: at + from }, seal)
      if (found !== undefined) generation = Math.max(generation ?? 0, found)
    }
  }
  return { generation, isBlank: isBlank && unread === 0, unread }
}

/**
 * Without a catalogue the identity file says which store this is, else the majority of the headers:
 * directories of earlier releases have no such file.
 */
async function infoWithoutCatalogue(
  found: ReadonlyMap<number, FoundFile>,
  { directory, identity, log, nowMs, randomFill }: SurveyDeps,
): Promise<StoreInfo> {
  const random = (count: number) => randomFill(Buffer.alloc(count))
  const stores = storesOf(found)
  const named = await identity.read()
  const own = named ?? mostOf(stores, directory)
  const log0 = { life: random(16), logHead: 0, logDropped: 0 }
  const counts = { liveBytes: 0, blobs: 0, ...log0 }
  if (own === undefined) {
    const unknown = [...found].flatMap(([number, { size }]) => (size > 0 ? [extentFileName(number)] : []))
    if (unknown.length > 0)
      log.error({ files: unknown }, 'extents of an unknown store are here: a new store begins beside them')
    return { storeId: random(16), secret: random(32), nextGeneration: 1, nextSequence: 1, ...counts }
  }
  const { storeId, secret } = own
  const extents = stores.find((store) => store.storeId.equals(storeId))?.files.length ?? 0
  log.warn({ extents }, 'the catalogue is missing; it is rebuilt from the extents')
  if (extents === 0 && stores.length > 0)
    log.error(
      { files: stores.flatMap(({ files }) => files) },
      `these extents are not of the store that the file ${identityFileName} names, and are set aside. If they are this store's, stop, remove ${identityFileName} and the catalogue, and start again`,
    )
  // An extent that is missing now may be back later. So numbers that are used from now on must be
  // higher than all numbers in it. The clock is: the store never used numbers faster than time
  // passes.
  return { storeId, secret, nextGeneration: nowMs, nextSequence: nowMs * 1_000, ...counts }
}

interface FoundStore extends StoreIdentity {
  files: string[]
}

/** By the whole headers, those with the most extents first. */
function storesOf(found: ReadonlyMap<number, FoundFile>): FoundStore[] {
  const stores = new Map<string, FoundStore>()
  for (const [number, { header }] of found) {
    if (header === undefined || header.number !== number) continue
    const { storeId, secret } = header
    const name = hex(secret)
    const store = stores.get(name) ?? { storeId, secret, files: [] }
    store.files.push(extentFileName(number))
    stores.set(name, store)
  }
  return [...stores.values()].sort((a, b) => b.files.length - a.files.length)
}

/** @throws BlobFault `CORRUPT` when several have as many */
function mostOf([most, ...others]: readonly FoundStore[], directory: string): StoreIdentity | undefined {
  if (most === undefined) return undefined
  const equals = [most, ...others].filter(({ files }) => files.length === most.files.length)
  if (equals.length === 1) return most
  const each = equals.map(({ files }) => files.sort().join(', ')).join('; of another ')
  throw new BlobFault(
    'CORRUPT',
    `the catalogue and the file ${identityFileName} are missing, and as many extents in ${directory} are of several stores: of one ${each}. Move those of other stores to another directory, and start again`,
  )
}
