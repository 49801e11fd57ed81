/**
 * What a start does before anything else: it finds what the extents hold that the catalogue does
 * not know.
 *
 * The catalogue is the state of some moment. Every group record written after it is in an extent
 * that the catalogue calls open, or in one whose header has an unknown generation. Those are
 * scanned to their ends, and their group records applied in the order of their sequence. A commit
 * counts only if every byte of its blob verifies. Without a catalogue all extents are scanned. What
 * was read is synced first, so that nothing is accepted that another crash could undo.
 *
 * That moment may be long before the shutdown, when RocksDB dropped a damaged part of its log.
 * Extents that were paused then are scanned like open ones, unless `CleanShutdownMarker` says that
 * this is the catalogue of the last shutdown.
 */
import type { BlobFault } from '@holdfast/blob-store'
import type { Catalogue } from '../catalogue/catalogue.ts'
import { blobPrefix, type Copy, decodeCopies, type RowCache, type RowEntry } from '../catalogue/rows.ts'
import { type Extent, isUnreadable } from '../extents/extents.ts'
import { Missed, type RecordState, verifyInline, verifyRuns, walk, windowBytes } from '../extents/scan.ts'
import {
  blockBytes,
  type GroupEntry,
  type GroupHeader,
  HeaderSeal,
  type Run,
  recordBytes,
} from '../format.ts'
import type { Log } from '../log.ts'
import { alignedBytes } from '../memory/slots.ts'
import { alignUp } from '../numbers.ts'
import type { Ledger } from '../writing/ledger.ts'
import { copyOf } from '../writing/writer.ts'
import type { Surveyed } from './survey.ts'

export interface RecoveryFigures {
  scannedExtents: number
  groups: number
  commits: number
  deletions: number
  /** Commits that did not verify: never acknowledged, or damaged since. */
  dropped: number
  /** Commits with bytes that the disk cannot read: they are listed as damaged. */
  unreadable: number
}

export function nothingRecovered(): RecoveryFigures {
  return { scannedExtents: 0, groups: 0, commits: 0, deletions: 0, dropped: 0, unreadable: 0 }
}

/** Dropped commits that are logged one by one; the last line of the recovery has the total. */
const toldOfDropped = 10
/**
 * Bounds the rows that wait in memory. A crash in between repeats the scan: applying twice has the
 * effect of once.
 */
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
  readonly #rows: RowCache
  readonly #ledger: Ledger
  readonly #catalogue: Catalogue
  readonly #extentOf: (run: { extent: number; generation: number }) => Extent | undefined
  readonly #seal: HeaderSeal
  readonly #log: Log
  readonly #unreadable: (extent: Extent, missed: Missed) => void
  readonly #window = alignedBytes(windowBytes)
  readonly #result: RecoveryFigures = nothingRecovered()

  constructor(parts: {
    rows: RowCache
    ledger: Ledger
    catalogue: Catalogue
    extentOf: (run: { extent: number; generation: number }) => Extent | undefined
    log: Log
    /** The disk returns errors for some of it. */
    unreadable: (extent: Extent, missed: Missed) => void
  }) {
    this.#unreadable = parts.unreadable
    this.#rows = parts.rows
    this.#ledger = parts.ledger
    this.#catalogue = parts.catalogue
    this.#extentOf = parts.extentOf
    this.#log = parts.log
    this.#seal = new HeaderSeal(parts.ledger.info.secret)
  }

  async run({ scans, extents, audit }: Surveyed): Promise<RecoveryFigures> {
    const { info } = this.#ledger
    if (audit) await this.#audit(extents)
    const found: Found[] = []
    const voided = new Set<string>()
    for (const { extent, from } of scans) await this.#scan(extent, from, found, voided)
    found.sort((a, b) => a.sequence - b.sequence)
    const dead = deathsOf(found, voided)
    let applied = 0
    for (const group of found) {
      info.nextSequence = Math.max(info.nextSequence, group.sequence + 1)
      if (voided.has(`${group.extent.number}/${group.generation}/${group.sequence}`)) continue
      for (const entry of group.entries) await this.#apply(group, entry, dead)
      if (++applied % flushEveryGroups === 0) await this.#ledger.flush()
    }
    for (const { extent } of scans) {
      // Interrupted writes may be anywhere up to the end of the file: nothing more is written
      // before it.
      extent.scanFrom = alignUp(Math.max(extent.frontier, extent.fileBytes), blockBytes)
      this.#ledger.touchExtent(extent)
    }
    if (scans.length > 0 || audit) await this.#ledger.flush()
    return this.#result
  }

  async #scan(extent: Extent, from: number, found: Found[], voided: Set<string>): Promise<void> {
    await this.#syncScanned(extent)
    this.#result.scannedExtents++
    let end = Math.max(from, extent.frontier)
    const missed = new Missed()
    for await (const record of walk(extent, from, { seal: this.#seal, window: this.#window, missed })) {
      end = Math.max(end, record.offset + recordBytes(record))
      if (record.kind === 'group') this.#note(extent, record, found, voided)
    }
    extent.frontier = end
    if (missed.blocks > 0) this.#unreadable(extent, missed)
  }

  /**
   * What cannot be synced counts as far as it can be read back, and nothing more is written to it.
   */
  async #syncScanned(extent: Extent): Promise<void> {
    try {
      await extent.sync()
    } catch (error) {
      if (!isUnreadable((error as BlobFault).cause)) throw error
      this.#unreadable(extent, new Missed())
    }
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
      // There may be thousands of entries of moved copies.
      if (this.#result.dropped++ < toldOfDropped)
        this.#log.warn({ blob, extent: group.extent.number }, 'a commit whose bytes are not whole is dropped')
      return
    }
    copy.quarantined = verdict === 'unreadable'
    if (copy.quarantined && this.#result.unreadable++ < toldOfDropped)
      this.#log.error({ blob: entry.id.toString('hex') }, 'a blob is where the disk cannot read')
    if (known === undefined) this.#ledger.addCopy(row, copy)
    else this.#ledger.replaceCopy(row, known, copy)
    this.#result.commits++
  }

  #verify(group: Found, entry: GroupEntry & { kind: 'inline' | 'staged' }, copy: Copy): Promise<RecordState> {
    return entry.kind === 'inline'
      ? verifyInline(entry, group.extent, copy.inlineOffset as number)
      : verifyRuns(entry, (run: Run) => this.#extentOf(run), this.#seal, this.#window)
  }

  /** Counts all rows again; removes those that point to a lost generation. */
  async #audit(extents: readonly Extent[]): Promise<void> {
    const { info } = this.#ledger
    info.liveBytes = 0
    info.blobs = 0
    for (const extent of extents) extent.liveBytes = 0
    let after: Buffer | undefined
    for (;;) {
      const rows = await this.#catalogue.scan(blobPrefix, { after, limit: 1000 })
      for (const { key, value } of rows) {
        const entry = await this.#rows.acquire(key.subarray(1))
        entry.copies = []
        for (const copy of decodeCopies(value)) {
          if (this.#standsSomewhere(copy)) this.#ledger.addCopy(entry, copy)
          else this.#log.warn({ blob: entry.id.toString('hex') }, 'a row points to a lost extent')
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

/** When each deleted copy was last deleted: its earlier commits need no check of their bytes. */
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
