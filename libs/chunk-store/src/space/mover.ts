/**
 * Moves what lives in an extent to the open one: copies of blobs, and the deletion and void entries
 * that are still needed. In portions, so that uploads and readers have the device in between.
 */
import { alignedBytes, hex, isUnreadable } from '@holdfast/kernel'
import type { Copy, RowCache, RowEntry } from '../catalogue/rows.ts'
import type { Extent } from '../extents/extent.ts'
import type { ExtentTable } from '../extents/extent-table.ts'
import { readInline, readRecord, recordsOf, UnreadBlocks, walk, windowBytes } from '../extents/scan.ts'
import {
  blockBytes,
  type DataHeader,
  type DeletedEntry,
  dataRecordBytes,
  encodeDataHeader,
  firstRecordOffset,
  type GroupEntry,
  type GroupHeader,
  type HeaderSeal,
  type Run,
  recordBytesMax,
  type VoidEntry,
} from '../format.ts'
import type { Log } from '../log.ts'
import { bufferBytes } from '../memory/buffer-pool.ts'
import { bytesOfRun, type Ledger } from '../writing/ledger.ts'
import { type CarriedEntry, CarryIntent, carriedEntriesMax, MoveIntent } from '../writing/move-intents.ts'
import type { Writer } from '../writing/writer.ts'

export interface MoverDeps {
  extents: ExtentTable
  rows: RowCache
  ledger: Ledger
  writer: Writer
  seal: HeaderSeal
  log: Log
  /** The blob that an upload became, if it is live. */
  blobOf(incarnation: Buffer): Promise<Buffer | undefined>
  /** The copy is at another place now. */
  moved(entry: RowEntry, old: Copy, copy: Copy, from: Extent): void
  /** Some of its blocks cannot be read. */
  unreadable(extent: Extent, missed: UnreadBlocks): void
  /** Lets uploads and readers use the device; resolves when the next MiB may be moved. */
  pause(): Promise<void>
}

export class Mover {
  readonly #deps: MoverDeps
  readonly #window: Buffer
  readonly #record = alignedBytes(windowBytes)
  #stopped = false
  /** For metrics. */
  movedBytes = 0

  /** @param window for scans, of `windowBytes`; no other part uses it while something is moved. */
  constructor(deps: MoverDeps, window: Buffer) {
    this.#deps = deps
    this.#window = window
  }

  /** What is being moved ends early. */
  stop(): void {
    this.#stopped = true
  }

  /**
   * Moves all live copies, and all entries still needed, to the open extent.
   * @returns false when only a part found room; entries stay then.
   */
  async moveAll(extent: Extent, budgetBytes: number): Promise<boolean> {
    const moves = new Moves(budgetBytes)
    try {
      return await this.#moveAll(extent, moves)
    } finally {
      moves.drop()
    }
  }

  async #moveAll(extent: Extent, moves: Moves): Promise<boolean> {
    const carried: (DeletedEntry | VoidEntry)[] = []
    const uploads = new Map<string, Buffer>()
    await this.#deps.ledger.flush() // so that `blobOf` knows every live upload
    const missed = new UnreadBlocks()
    for await (const record of walk(extent, firstRecordOffset, {
      seal: this.#deps.seal,
      window: this.#window,
      missed,
    })) {
      if (this.#stopped) return false
      if (record.kind === 'data') uploads.set(hex(record.uploadId), record.uploadId)
      else await this.#moveGroup(extent, record, moves, carried, uploads)
    }
    if (missed.blocks > 0) this.#deps.unreadable(extent, missed)
    for (const incarnation of uploads.values()) {
      if (this.#stopped) return false
      await this.#moveStaged(extent, incarnation, moves)
    }
    if (moves.leftOut) {
      await moves.all()
      return false
    }
    await moves.all()
    for (let at = 0; at < carried.length; at += carriedEntriesMax)
      await this.#carry(carried.slice(at, at + carriedEntriesMax))
    return true
  }

  async #carry(entries: readonly (DeletedEntry | VoidEntry)[]): Promise<void> {
    const { rows, writer } = this.#deps
    const carried: CarriedEntry[] = []
    try {
      for (const entry of entries)
        carried.push({ entry, row: entry.kind === 'deleted' ? await rows.acquire(entry.id) : undefined })
      const carry = new CarryIntent(writer.deps, carried)
      writer.submit(carry)
      await carry.done
    } finally {
      for (const { row } of carried) if (row !== undefined) rows.release(row)
    }
  }

  async #moveGroup(
    extent: Extent,
    group: GroupHeader,
    moves: Moves,
    carried: (DeletedEntry | VoidEntry)[],
    uploads: Map<string, Buffer>,
  ): Promise<void> {
    for (const entry of group.entries) {
      switch (entry.kind) {
        case 'inline':
          await this.#moveInline(extent, group, entry, moves)
          break
        case 'staged':
          uploads.set(hex(entry.incarnation), entry.incarnation)
          break
        case 'deleted':
          if (this.#lives(extent, entry.commitExtent, entry.commitGeneration)) carried.push(entry)
          break
        case 'void':
          if (this.#lives(extent, entry.extent, entry.generation)) carried.push(entry)
          break
      }
    }
    if (!moves.areEnough) return
    await moves.all()
    await this.#deps.pause()
  }

  /** True when that generation of another extent may still be read. */
  #lives(own: Extent, number: number, generation: number): boolean {
    return number !== own.number && this.#deps.extents.get({ extent: number, generation }) !== undefined
  }

  async #moveInline(
    extent: Extent,
    group: GroupHeader,
    found: GroupEntry & { kind: 'inline' },
    moves: Moves,
  ): Promise<void> {
    const { rows, writer, log } = this.#deps
    const entry = await rows.acquire(found.id)
    const copy = entry.copies.find(
      (copy) =>
        copy.commitExtent === extent.number &&
        copy.commitGeneration === extent.generation &&
        copy.inlineOffset === group.offset + found.payloadOffset,
    )
    if (copy === undefined || !moves.takes(copy.entryBytes + copy.size)) {
      rows.release(entry)
      return
    }
    let bytes: Buffer | undefined
    try {
      bytes = await readInline(extent, copy.inlineOffset as number, copy)
    } catch (error) {
      if (!isUnreadable(error)) {
        rows.release(entry)
        throw error
      }
    }
    if (bytes === undefined) {
      log.error({ blob: hex(entry.id) }, 'a damaged blob stays where it is')
      rows.release(entry)
      return
    }
    const move = new MoveIntent(writer.deps, entry, copy, { bytes }, (old, now) =>
      this.#deps.moved(entry, old, now, extent),
    )
    this.movedBytes += bytes.length
    moves.add({
      bytes: copy.entryBytes + bytes.length,
      begin() {
        writer.submit(move)
        return move.done
      },
      end: () => rows.release(entry),
    })
  }

  /** The runs of this blob in the extent, and its commit entry, get a new place. */
  async #moveStaged(extent: Extent, incarnation: Buffer, moves: Moves): Promise<void> {
    const { rows, writer } = this.#deps
    const id = await this.#deps.blobOf(incarnation)
    if (id === undefined) return
    const entry = await rows.acquire(id)
    const holder = {}
    const targets = new Set<Extent>()
    try {
      const copy = entry.copies.find((copy) => copy.incarnation.equals(incarnation))
      if (copy === undefined || copy.inlineOffset !== undefined || !stands(copy, extent)) return
      if (!moves.takes(copy.entryBytes + bytesIn(copy, extent))) return
      const runs = await this.#copyRuns(extent, copy, (target) => {
        target.holders.add(holder)
        targets.add(target)
      })
      if (runs === undefined) return
      const move = new MoveIntent(writer.deps, entry, copy, { runs }, (old, now) =>
        this.#deps.moved(entry, old, now, extent),
      )
      writer.submit(move)
      await move.done
    } finally {
      for (const target of targets) target.holders.delete(holder)
      rows.release(entry)
    }
  }

  /** The runs with those of this extent replaced; undefined when one of them is damaged. */
  async #copyRuns(extent: Extent, copy: Copy, used: (target: Extent) => void): Promise<Run[] | undefined> {
    const { log } = this.#deps
    const runs: Run[] = []
    let position = 0
    for (const run of copy.runs) {
      if (run.extent !== extent.number || run.generation !== extent.generation) {
        runs.push({ ...run })
        position += run.bytes
        continue
      }
      for (const { offset, payloadBytes } of recordsOf(run)) {
        if (this.#stopped) return undefined
        const wanted = { offset, payloadBytes, position, incarnation: copy.incarnation }
        const header = await readRecord(extent, wanted, this.#deps.seal, this.#record).catch((error) => {
          if (isUnreadable(error)) return undefined
          throw error
        })
        if (header === undefined) {
          log.error({ extent: extent.number, offset }, 'a damaged record stays where it is')
          return undefined
        }
        addRecord(runs, await this.#rewrite(header, used), payloadBytes)
        position += payloadBytes
        await this.#deps.pause()
      }
    }
    return runs
  }

  async #rewrite(header: DataHeader, used: (target: Extent) => void): Promise<Run> {
    const bytes = dataRecordBytes(header.payloadBytes)
    const { extent, offset } = await this.#deps.extents.place(bytes)
    used(extent)
    const { number, generation } = extent
    encodeDataHeader({ ...header, extent: number, generation, offset }, this.#deps.seal, this.#record)
    this.#record.fill(0, blockBytes + header.payloadBytes, bytes)
    await extent.write(this.#record.subarray(0, bytes), offset)
    this.movedBytes += header.payloadBytes
    return { extent: number, generation, offset, bytes: header.payloadBytes }
  }
}

/** The new place of a small blob. */
interface Move {
  /** In a group record. */
  bytes: number
  begin(): Promise<unknown>
  /** Releases its content, also when it has not begun. */
  end(): void
}

/**
 * Small blobs whose places change together: as many as a group record holds; otherwise each would
 * take a block of its own.
 */
class Moves {
  /** A part did not fit. */
  leftOut = false
  #budgetBytes: number
  #waiting: Move[] = []
  #waitingBytes = 0

  constructor(budgetBytes: number) {
    this.#budgetBytes = budgetBytes
  }

  /** Is there room for this many bytes? They are subtracted. */
  takes(bytes: number): boolean {
    if (bytes > this.#budgetBytes) {
      this.leftOut = true
      return false
    }
    this.#budgetBytes -= bytes
    return true
  }

  get areEnough(): boolean {
    return this.#waitingBytes >= bufferBytes
  }

  add(move: Move): void {
    this.#waiting.push(move)
    this.#waitingBytes += move.bytes
  }

  /** Begins them in one turn, and waits; the first failure is thrown. */
  async all(): Promise<void> {
    const moves = this.#waiting
    this.#waiting = []
    this.#waitingBytes = 0
    const begun = await Promise.allSettled(
      moves.map(async (move) => {
        try {
          await move.begin()
        } finally {
          move.end()
        }
      }),
    )
    for (const move of begun) if (move.status === 'rejected') throw move.reason
  }

  /** Those not yet begun are dropped. */
  drop(): void {
    for (const move of this.#waiting.splice(0)) move.end()
  }
}

function bytesIn(copy: Copy, extent: Extent): number {
  let bytes = 0
  for (const run of copy.runs)
    if (run.extent === extent.number && run.generation === extent.generation) bytes += bytesOfRun(run)
  return bytes
}

function stands(copy: Copy, extent: Extent): boolean {
  const home = copy.commitExtent === extent.number && copy.commitGeneration === extent.generation
  return (
    home ||
    copy.runs.some(
      ({ extent: number, generation }) => number === extent.number && generation === extent.generation,
    )
  )
}

/** Appends a record to runs, to the last run when it follows directly. */
function addRecord(runs: Run[], record: Run, payloadBytes: number): void {
  const last = runs.at(-1)
  const follows =
    last !== undefined &&
    last.extent === record.extent &&
    last.generation === record.generation &&
    last.bytes % recordBytesMax === 0 &&
    last.offset + (last.bytes / recordBytesMax) * dataRecordBytes(recordBytesMax) === record.offset
  if (follows) last.bytes += payloadBytes
  else runs.push(record)
}
