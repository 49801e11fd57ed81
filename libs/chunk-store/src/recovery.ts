/**
 * What a start does before anything else: find out what the extents hold that the catalogue does not know.
 *
 * The catalogue is the state of some moment; every group record written after it stands in an extent that it calls open, or in
 * one whose header shows a generation it has not heard of. Those are scanned to their ends, and their group records applied
 * in the order of their sequence. A commit counts only if every byte of its blob verifies. Without a catalogue all extents
 * are scanned. What was read is synced first, so that nothing is believed that another crash could take back.
 *
 * That moment may be any: also one long before the end, when RocksDB gave up a part of its log that had rotted. What was called
 * paused then is scanned as what was open, unless `OrderlyEnd` says that this is the catalogue of the last end.
 */
import { join } from 'node:path'
import { BlobFault } from '@holdfast/blob-store'
import type { Catalogue } from './catalogue.ts'
import type { Disk } from './disk.ts'
import { Extent, type ExtentFiles, extentFileName, extentNumberOf } from './extents.ts'
import {
  blockBytes,
  decodeExtentHeader,
  type ExtentHeader,
  firstRecordOffset,
  type GroupEntry,
  type GroupHeader,
  HeaderSeal,
  type Run,
  recordBytes,
} from './format.ts'
import { type Ledger, readStoreFacts, type StoreFacts } from './ledger.ts'
import type { Log } from './log.ts'
import { alignUp } from './numbers.ts'
import { endMarkKey, type OrderlyEnd } from './orderly-end.ts'
import {
  blobPrefix,
  type Copy,
  decodeCopies,
  decodeExtentRow,
  type ExtentRow,
  extentPrefix,
  type RowEntry,
  type Rows,
} from './rows.ts'
import { type Verdict, verifyInline, verifyRuns, walk, windowBytes } from './scan.ts'
import { alignedBytes } from './slots.ts'
import { copyOf } from './writer.ts'

export interface Surveyed {
  facts: StoreFacts
  extents: Extent[]
  /** Free, with a header that does not say so yet. */
  halfFreed: Extent[]
  /** To be scanned, from where on. */
  scans: { extent: Extent; from: number }[]
  /** The catalogue cannot be believed as it is: counts are made anew, and rows that point nowhere go. */
  audit: boolean
  fresh: boolean
  /** The catalogue is the whole one of an orderly end. */
  inOrder: boolean
}

/** Looks at the catalogue and at the headers of all extents; changes nothing. */
export async function survey(parts: {
  catalogue: Catalogue
  disk: Disk
  directory: string
  files: ExtentFiles
  end: OrderlyEnd
  log: Log
  randomFill: (bytes: Buffer) => Buffer
}): Promise<Surveyed> {
  const { catalogue, disk, directory, files, end, log, randomFill } = parts
  const known = await readStoreFacts(catalogue)
  const [endMark] = await catalogue.get([endMarkKey])
  const rows = new Map<number, ExtentRow>()
  if (known !== undefined)
    for (const { key, value } of await catalogue.scan(extentPrefix, { limit: 1_000_000 }))
      rows.set(key.readUInt32BE(1), decodeExtentRow(key, value))
  const headers = new Map<number, ExtentHeader | undefined>()
  const sizes = new Map<number, number>()
  for (const name of await disk.list(directory)) {
    const number = extentNumberOf(name)
    if (number === undefined) continue
    const { header, size } = await readHeader(disk, join(directory, name))
    headers.set(number, header?.number === number ? header : undefined)
    sizes.set(number, size)
  }
  const facts = known ?? factsOfHeaders([...headers.values()], { log, randomFill })
  const result: Surveyed = {
    facts,
    extents: [],
    halfFreed: [],
    scans: [],
    audit: known === undefined,
    fresh: sizes.size === 0,
    inOrder: await end.wasMarked(endMark),
  }
  for (const number of new Set([...rows.keys(), ...sizes.keys()])) {
    const extent = new Extent(number, files)
    const row = rows.get(number)
    const header = headers.get(number)
    if (header !== undefined && !header.storeId.equals(facts.storeId)) {
      log.error({ file: extentFileName(number) }, 'an extent of another store is left alone')
      continue
    }
    adopt(extent, row, sizes.get(number), header, result, log)
    if (extent.state === 'free')
      extent.holeBytes = Math.max(0, extent.fileBytes - (await extent.allocatedBytes()))
  }
  return result
}

function adopt(
  extent: Extent,
  row: ExtentRow | undefined,
  size: number | undefined,
  header: ExtentHeader | undefined,
  result: Surveyed,
  log: Log,
): void {
  if (size === undefined) {
    if (row !== undefined && row.state !== 'free' && row.liveBytes > 0) {
      log.error({ extent: extent.number, bytes: row.liveBytes }, 'the file of an extent is missing')
      const rest = { untilMs: Number.POSITIVE_INFINITY, liveBytes: row.liveBytes }
      Object.assign(extent, row, { state: 'sealed', rest })
      result.extents.push(extent)
    }
    return
  }
  extent.fileBytes = size
  result.extents.push(extent)
  if (row !== undefined) Object.assign(extent, row)
  if (header !== undefined && header.generation >= result.facts.nextGeneration)
    result.facts.nextGeneration = header.generation + 1
  if (header !== undefined)
    result.facts.nextSequence = Math.max(result.facts.nextSequence, header.firstSequence)
  if (header !== undefined && header.generation > extent.generation) {
    // Opened after the last moment that the catalogue remembers.
    result.audit = true
    extent.begin(header.generation, firstRecordOffset)
    result.scans.push({ extent, from: firstRecordOffset })
  } else if (row === undefined) {
    extent.state = 'free' // its opening was not finished
  } else if (row.state === 'free') {
    if (header?.generation !== row.generation) result.halfFreed.push(extent)
  } else if (row.state === 'open') {
    result.scans.push({ extent, from: row.scanFrom })
  } else if (row.state === 'paused' && !result.inOrder) {
    extent.state = 'open'
    result.scans.push({ extent, from: row.frontier })
  }
}

async function readHeader(disk: Disk, path: string) {
  const file = await disk.open(path, { create: false })
  try {
    const blocks = alignedBytes(firstRecordOffset)
    await file.read(blocks, 0)
    const header = decodeExtentHeader(blocks) ?? decodeExtentHeader(blocks.subarray(blockBytes))
    return { header, size: await file.size() }
  } finally {
    await file.close()
  }
}

function factsOfHeaders(
  headers: (ExtentHeader | undefined)[],
  { log, randomFill }: { log: Log; randomFill: (bytes: Buffer) => Buffer },
): StoreFacts {
  const random = (count: number) => randomFill(Buffer.alloc(count))
  const log0 = { life: random(16), logHead: 0, logDropped: 0 }
  const counts = { nextGeneration: 1, nextSequence: 1, liveBytes: 0, blobs: 0, ...log0 }
  const found = headers.filter((header) => header !== undefined)
  const [first] = found
  if (first === undefined) return { storeId: random(16), secret: random(32), ...counts }
  if (found.some(({ secret }) => !secret.equals(first.secret)))
    throw new BlobFault('CORRUPT', 'the catalogue is missing and the extents are of several stores')
  log.warn({ extents: found.length }, 'the catalogue is missing; it is rebuilt from the extents')
  return { storeId: first.storeId, secret: first.secret, ...counts }
}

export interface Recovered {
  scannedExtents: number
  groups: number
  commits: number
  deletions: number
  /** Commits that did not verify: never acknowledged, or damaged since. */
  dropped: number
}

/** Commits whose drop is a line of its own; of all, the last line of the recovery tells how many. */
const toldOfDropped = 10
/** Bounds the rows that wait in memory. A crash in between repeats the scan: applying twice is applying once. */
const flushEveryGroups = 1000

interface Found {
  extent: Extent
  generation: number
  offset: number
  sequence: number
  entries: GroupEntry[]
}

/** Applies what the surveyed extents hold; the ledger is durable when it resolves. */
export class Recovery {
  readonly #rows: Rows
  readonly #ledger: Ledger
  readonly #catalogue: Catalogue
  readonly #extentOf: (run: { extent: number; generation: number }) => Extent | undefined
  readonly #seal: HeaderSeal
  readonly #log: Log
  readonly #window = alignedBytes(windowBytes)
  readonly #result: Recovered = { scannedExtents: 0, groups: 0, commits: 0, deletions: 0, dropped: 0 }

  constructor(parts: {
    rows: Rows
    ledger: Ledger
    catalogue: Catalogue
    extentOf: (run: { extent: number; generation: number }) => Extent | undefined
    log: Log
  }) {
    this.#rows = parts.rows
    this.#ledger = parts.ledger
    this.#catalogue = parts.catalogue
    this.#extentOf = parts.extentOf
    this.#log = parts.log
    this.#seal = new HeaderSeal(parts.ledger.facts.secret)
  }

  async run({ scans, extents, audit }: Surveyed): Promise<Recovered> {
    const { facts } = this.#ledger
    if (audit) await this.#audit(extents)
    const found: Found[] = []
    const voided = new Set<string>()
    for (const { extent, from } of scans) await this.#scan(extent, from, found, voided)
    found.sort((a, b) => a.sequence - b.sequence)
    const dead = deathsOf(found, voided)
    let applied = 0
    for (const group of found) {
      facts.nextSequence = Math.max(facts.nextSequence, group.sequence + 1)
      if (voided.has(`${group.extent.number}/${group.generation}/${group.sequence}`)) continue
      for (const entry of group.entries) await this.#apply(group, entry, dead)
      if (++applied % flushEveryGroups === 0) await this.#ledger.flush()
    }
    for (const { extent } of scans) {
      // Whatever was on its way may stand anywhere up to the end of the file: nothing more is written before it.
      extent.scanFrom = alignUp(Math.max(extent.frontier, extent.fileBytes), blockBytes)
      this.#ledger.touchExtent(extent)
    }
    if (scans.length > 0 || audit) await this.#ledger.flush()
    return this.#result
  }

  async #scan(extent: Extent, from: number, found: Found[], voided: Set<string>): Promise<void> {
    await extent.sync()
    this.#result.scannedExtents++
    let end = Math.max(from, extent.frontier)
    for await (const record of walk(extent, from, this.#seal, this.#window)) {
      end = Math.max(end, record.offset + recordBytes(record))
      if (record.kind === 'group') this.#note(extent, record, found, voided)
    }
    extent.frontier = end
  }

  #note(extent: Extent, group: GroupHeader, found: Found[], voided: Set<string>): void {
    this.#result.groups++
    const { generation, offset, sequence, entries } = group
    found.push({ extent, generation, offset, sequence, entries })
    for (const entry of entries) {
      if (entry.kind === 'void') voided.add(`${entry.extent}/${entry.generation}/${entry.sequence}`)
      if (entry.kind === 'void' || entry.kind === 'deleted') extent.marks++
    }
  }

  async #apply(group: Found, entry: GroupEntry, dead: ReadonlyMap<string, number>): Promise<void> {
    if (entry.kind === 'void') return
    const row = await this.#rows.acquire(entry.id)
    try {
      const known = row.copies.find(({ incarnation }) => incarnation.equals(entry.incarnation))
      if (entry.kind === 'deleted') {
        if (known === undefined || known.sequence > group.sequence) return
        this.#ledger.removeCopy(row, known, entry.deletedMs)
        this.#result.deletions++
      } else if (known === undefined || known.sequence < group.sequence) {
        if ((dead.get(nameOf(entry)) ?? -1) < group.sequence) await this.#commit(group, entry, row, known)
      }
    } finally {
      this.#rows.release(row)
    }
  }

  async #commit(
    group: Found,
    entry: GroupEntry & { kind: 'inline' | 'staged' },
    row: RowEntry,
    known: Copy | undefined,
  ): Promise<void> {
    const copy = copyOf(entry, group, known, { get: this.#extentOf })
    const verdict = await this.#verify(group, entry, copy)
    if (verdict === 'torn') {
      const blob = entry.id.toString('hex')
      // Of what was moved away before its place was given back there may be thousands.
      if (this.#result.dropped++ < toldOfDropped)
        this.#log.warn({ blob, extent: group.extent.number }, 'a commit whose bytes are not whole is dropped')
      return
    }
    copy.quarantined = verdict === 'unreadable'
    if (known === undefined) this.#ledger.addCopy(row, copy)
    else this.#ledger.replaceCopy(row, known, copy)
    this.#result.commits++
  }

  #verify(group: Found, entry: GroupEntry & { kind: 'inline' | 'staged' }, copy: Copy): Promise<Verdict> {
    return entry.kind === 'inline'
      ? verifyInline(entry, group.extent, copy.inlineOffset as number)
      : verifyRuns(entry, (run: Run) => this.#extentOf(run), this.#seal, this.#window)
  }

  /** Counts all rows anew; those that point to a generation which is gone go. */
  async #audit(extents: readonly Extent[]): Promise<void> {
    const { facts } = this.#ledger
    facts.liveBytes = 0
    facts.blobs = 0
    for (const extent of extents) extent.liveBytes = 0
    let after: Buffer | undefined
    for (;;) {
      const rows = await this.#catalogue.scan(blobPrefix, { after, limit: 1000 })
      for (const { key, value } of rows) {
        const entry = await this.#rows.acquire(key.subarray(1))
        entry.copies = []
        for (const copy of decodeCopies(value)) {
          if (this.#standsSomewhere(copy)) this.#ledger.addCopy(entry, copy)
          else this.#log.warn({ blob: entry.id.toString('hex') }, 'a row points to an extent that is gone')
        }
        this.#ledger.touchRow(entry)
        this.#rows.release(entry)
      }
      await this.#ledger.flush()
      after = rows.at(-1)?.key
      if (after === undefined) return
    }
  }

  #standsSomewhere(copy: Copy): boolean {
    const home = { extent: copy.commitExtent, generation: copy.commitGeneration }
    return [home, ...copy.runs].every((run) => this.#extentOf(run) !== undefined)
  }
}

/** When each copy that was deleted was deleted last: its earlier commits need no look at their bytes. */
function deathsOf(found: readonly Found[], voided: ReadonlySet<string>): Map<string, number> {
  const dead = new Map<string, number>()
  for (const { extent, generation, sequence, entries } of found) {
    if (voided.has(`${extent.number}/${generation}/${sequence}`)) continue
    for (const entry of entries) if (entry.kind === 'deleted') dead.set(nameOf(entry), sequence)
  }
  return dead
}

function nameOf({ id, incarnation }: { id: Buffer; incarnation: Buffer }): string {
  return id.toString('latin1') + incarnation.toString('latin1')
}
