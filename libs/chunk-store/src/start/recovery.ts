/**
 * The first step of a start: it finds what the extents have and the catalogue lacks.
 *
 * The catalogue is the state of some moment. Every group record written after it is in an extent
 * that the catalogue calls open, or in one whose header has an unknown generation. Those are
 * scanned to their ends, and their group records applied in the order of their sequence. Without a
 * catalogue all extents are scanned. What was read is synced first, so that nothing is accepted
 * that another crash could undo.
 *
 * A commit counts if every byte of its blob verifies. One whose bytes are not whole may be of the
 * last group, which a crash interrupted: it was never acknowledged and is dropped. Each earlier
 * group was durable before the next one was written, so its bytes were damaged later, or belong to
 * a copy that was moved. If no later group has the copy, it is listed as damaged: its correct parts
 * are served, and an upload of the same content replaces it. A group that an earlier crash
 * interrupted looks the same when the catalogue is lost later: no reference names its blobs, so the
 * collector removes them.
 *
 * The catalogue may be much older than the shutdown if RocksDB dropped a damaged part of its log.
 * Extents that were paused then are scanned like open ones, unless `CleanShutdownMarker` says that
 * this is the catalogue of the last shutdown.
 */

import type { BlobFault } from '@holdfast/blob-store'
import { copyKey } from '@holdfast/blob-store'
import { alignedBytes, hex, isUnreadable } from '@holdfast/kernel'
import type { Catalogue } from '../catalogue/catalogue.ts'
import { blobPrefix, type Copy, decodeCopies, type RowCache, type RowEntry } from '../catalogue/rows.ts'
import type { Extent } from '../extents/extent.ts'
import {
  type RecordState,
  UnreadBlocks,
  verifyInline,
  verifyRuns,
  walk,
  windowBytes,
} from '../extents/scan.ts'
import {
  blockBytes,
  type GroupEntry,
  type GroupHeader,
  HeaderSeal,
  type Run,
  recordBytes,
} from '../format.ts'
import type { Log } from '../log.ts'
import { alignUp } from '../numbers.ts'
import { copyOf, homeOf } from '../writing/copy-of-entry.ts'
import type { Ledger } from '../writing/ledger.ts'
import type { SurveyResult } from './survey.ts'

export interface RecoveryFigures {
  scannedExtents: number
  groups: number
  commits: number
  deletions: number
  /** Commits that did not verify: never acknowledged, or their extent is gone. */
  dropped: number
  /** Commits with bytes that the disk cannot read, or that changed: they are listed as damaged. */
  damaged: number
}

function nothingRecovered(): RecoveryFigures {
  return { scannedExtents: 0, groups: 0, commits: 0, deletions: 0, dropped: 0, damaged: 0 }
}

/** Commits that are logged one by one; the last line of the recovery has the totals. */
const reportedMax = 10
/**
 * Bounds the rows that wait in memory. A crash in between repeats the scan: applying twice has the
 * effect of once.
 */
const flushEveryGroups = 1000

interface FoundGroup {
  extent: Extent
  generation: number
  offset: number
  sequence: number
  entries: GroupEntry[]
}

interface TornEntry {
  group: FoundGroup
  entry: CommitEntry
}

type CommitEntry = GroupEntry & { kind: 'inline' | 'staged' }

/** Applies what the surveyed extents hold; the ledger is durable when it resolves. */
export class Recovery {
  readonly #rows: RowCache
  readonly #ledger: Ledger
  readonly #catalogue: Catalogue
  readonly #extentOf: (run: { extent: number; generation: number }) => Extent | undefined
  readonly #seal: HeaderSeal
  readonly #log: Log
  readonly #unreadable: (extent: Extent, missed: UnreadBlocks) => void
  readonly #window = alignedBytes(windowBytes)
  readonly #result: RecoveryFigures = nothingRecovered()
  /** Commits whose bytes are not whole, in the order of their groups. */
  readonly #torn: TornEntry[] = []

  constructor(deps: {
    rows: RowCache
    ledger: Ledger
    catalogue: Catalogue
    extentOf: (run: { extent: number; generation: number }) => Extent | undefined
    log: Log
    /** The disk returns errors for some of it. */
    unreadable: (extent: Extent, missed: UnreadBlocks) => void
  }) {
    this.#unreadable = deps.unreadable
    this.#rows = deps.rows
    this.#ledger = deps.ledger
    this.#catalogue = deps.catalogue
    this.#extentOf = deps.extentOf
    this.#log = deps.log
    this.#seal = new HeaderSeal(deps.ledger.info.secret)
  }

  async run({ scans, extents, audit }: SurveyResult): Promise<RecoveryFigures> {
    const { info } = this.#ledger
    if (audit) await this.#audit(extents)
    const found: FoundGroup[] = []
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
    // The latest first: it has the most recent place of its bytes.
    for (const { group, entry } of this.#torn.reverse()) await this.#settle(group, entry, found.at(-1))
    for (const { extent } of scans) {
      // Interrupted writes may be anywhere up to the end of the file: nothing more is written
      // before it.
      extent.scanFrom = alignUp(Math.max(extent.frontier, extent.fileBytes), blockBytes)
      this.#ledger.touchExtent(extent)
    }
    if (scans.length > 0 || audit) await this.#ledger.flush()
    return this.#result
  }

  async #scan(extent: Extent, from: number, found: FoundGroup[], voided: Set<string>): Promise<void> {
    await this.#syncScanned(extent)
    this.#result.scannedExtents++
    let end = Math.max(from, extent.frontier)
    const missed = new UnreadBlocks()
    for await (const record of walk(extent, from, { seal: this.#seal, window: this.#window, missed })) {
      end = Math.max(end, record.offset + recordBytes(record))
      if (record.kind === 'group') this.#note(extent, record, found, voided)
    }
    extent.frontier = end
    if (missed.blocks > 0) this.#unreadable(extent, missed)
  }

  /**
   * If the disk cannot sync the extent, the records that were read still count, and the extent is
   * set aside: nothing more is written to it.
   */
  async #syncScanned(extent: Extent): Promise<void> {
    try {
      await extent.sync()
    } catch (error) {
      if (!isUnreadable((error as BlobFault).cause)) throw error
      this.#unreadable(extent, new UnreadBlocks())
    }
  }

  #note(extent: Extent, group: GroupHeader, found: FoundGroup[], voided: Set<string>): void {
    this.#result.groups++
    const { generation, offset, sequence, entries } = group
    found.push({ extent, generation, offset, sequence, entries })
    for (const entry of entries) {
      if (entry.kind === 'void') voided.add(`${entry.extent}/${entry.generation}/${entry.sequence}`)
      if (entry.kind === 'void' || entry.kind === 'deleted') extent.marks++
    }
  }

  async #apply(group: FoundGroup, entry: GroupEntry, dead: ReadonlyMap<string, number>): Promise<void> {
    if (entry.kind === 'void') return
    const row = await this.#rows.acquire(entry.id)
    try {
      const known = row.copies.find(({ incarnation }) => incarnation.equals(entry.incarnation))
      if (entry.kind === 'deleted') {
        if (known === undefined || known.sequence > group.sequence) return
        this.#ledger.removeCopy(row, known, entry.deletedMs)
        this.#result.deletions++
      } else if (known === undefined || known.sequence < group.sequence) {
        if ((dead.get(copyKey(entry)) ?? -1) < group.sequence) await this.#commit(group, entry, row, known)
      }
    } finally {
      this.#rows.release(row)
    }
  }

  async #commit(
    group: FoundGroup,
    entry: CommitEntry,
    row: RowEntry,
    known: Copy | undefined,
  ): Promise<void> {
    const copy = copyOf(entry, group, known, { get: this.#extentOf })
    const verdict = await this.#verify(group, entry, copy)
    if (verdict === 'torn') this.#torn.push({ group, entry })
    else this.#add(row, known, copy, { damaged: verdict === 'unreadable' })
  }

  #add(row: RowEntry, known: Copy | undefined, copy: Copy, { damaged }: { damaged: boolean }): void {
    copy.quarantined = damaged
    if (damaged && this.#result.damaged++ < reportedMax)
      this.#log.error({ blob: hex(row.id) }, 'a blob is damaged or cannot be read from the disk')
    if (known === undefined) this.#ledger.addCopy(row, copy)
    else this.#ledger.replaceCopy(row, known, copy)
    this.#result.commits++
  }

  /** A commit whose bytes are not whole, once it is known which copies are. */
  async #settle(group: FoundGroup, entry: CommitEntry, last: FoundGroup | undefined): Promise<void> {
    const row = await this.#rows.acquire(entry.id)
    try {
      const known = row.copies.find(({ incarnation }) => incarnation.equals(entry.incarnation))
      if (known !== undefined) return this.#addHome(row, known, group)
      const runs = entry.kind === 'staged' ? entry.runs : []
      const isThere = runs.every((run) => this.#extentOf(run) !== undefined)
      if (group !== last && isThere) {
        const copy = copyOf(entry, group, undefined, { get: this.#extentOf })
        this.#add(row, undefined, copy, { damaged: true })
      } else if (this.#result.dropped++ < reportedMax) {
        const blob = hex(entry.id)
        this.#log.warn({ blob, extent: group.extent.number }, 'a commit whose bytes are not whole is dropped')
      }
    } finally {
      this.#rows.release(row)
    }
  }

  /** A deletion of the copy must name this group's entry, too. */
  #addHome(row: RowEntry, copy: Copy, { extent, generation }: FoundGroup): void {
    const homes = [homeOf(copy), ...copy.earlierHomes]
    if (homes.some((home) => home.generation === generation)) return
    copy.earlierHomes = [...copy.earlierHomes, { extent: extent.number, generation }]
    this.#ledger.touchRow(row)
  }

  #verify(group: FoundGroup, entry: CommitEntry, copy: Copy): Promise<RecordState> {
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
          else this.#log.warn({ blob: hex(entry.id) }, 'a row points to a lost extent')
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
function deathsOf(found: readonly FoundGroup[], voided: ReadonlySet<string>): Map<string, number> {
  const dead = new Map<string, number>()
  for (const { extent, generation, sequence, entries } of found) {
    if (voided.has(`${extent.number}/${generation}/${sequence}`)) continue
    for (const entry of entries) if (entry.kind === 'deleted') dead.set(copyKey(entry), sequence)
  }
  return dead
}
